# On a machine with Python 3.11+, make and git, `make demo` and `make test` need nothing
# else: the first run makes a virtual environment, later runs reuse it.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
GAME   := experiments/minihack/discriminative.nsl
SECONDS ?= 60
SEED    ?= 0

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow fuzz check format bench clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | \
	    awk -F '\t' '{ printf "  make %-10s %s\n", $$1, $$2 }'

demo: $(VENV)/.base  ## Learn from NetHack games, generalise to larger ones, draw it all to out/
	@mkdir -p out
	$(BIN)/nesymm show $(GAME) --graph out/discriminative.svg > out/discriminative.txt
	$(BIN)/python -m experiments.minihack.discriminative demo --out out

test: $(VENV)/.test  ## Run the tests
	$(BIN)/python -m pytest -q -n 2

test-slow: $(VENV)/.test  ## Run the slow tests too, and compile what all tests run
	$(BIN)/python -m pytest -q -n 2 --compiled -m "slow or not slow"

fuzz: $(VENV)/.test  ## Try random programs for SECONDS=60 from SEED=0; what fails goes to out/fuzz/
	PYTHONPATH=src:tests $(BIN)/python -m differential --seconds $(SECONDS) --seed $(SEED)

check: $(VENV)/.dev  ## Lint, check the formatting, the types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## Format the code and sort the imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.base  ## Run every benchmark in benchmarks/
	@for file in $(sort $(wildcard benchmarks/*.py)); do \
	    echo "$$file"; $(BIN)/python "$$file" || exit 1; \
	done

clean:  ## Remove the virtual environment, caches and drawings
	rm -rf $(VENV) out build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis

# One stamp per set of dependencies. An install is repeated when pyproject.toml changes.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "nesymm needs Python 3.11 or later; try: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(PIP) install -e '.[draw]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(PIP) install -e '.[test]'
	@touch $(VENV)/.base $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) install -e '.[dev]'
	@touch $(VENV)/.base $(VENV)/.test $@
