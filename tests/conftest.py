"""Fixtures shared by all tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from difflib import unified_diff
from itertools import count
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
MAPS = Path("/proc/self/maps")
MANY_MAPS = 20_000
TESTS_BETWEEN_LOOKS = 20
tests_run = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files in tests/golden with what the tests produce",
    )
    parser.addoption(
        "--compiled",
        action="store_true",
        help="let XLA compile what all tests run; NumPy interprets it otherwise, which is quicker",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """NumPy runs what a test and its fixtures jit, but for tests of what XLA makes of it."""
    if item.config.getoption("--compiled") or item.get_closest_marker("compiled"):
        return (yield)
    import numpy_backend

    with numpy_backend.interpreted():
        return (yield)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: `text` must equal the file tests/golden/<name>."""
    update = request.config.getoption("--update-golden")

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        cure = "if the new output is right, run pytest with --update-golden"
        if not path.exists():
            pytest.fail(f"tests/golden/{name} does not exist; {cure}", pytrace=False)
        expected = path.read_text(encoding="utf-8")
        if text == expected:
            return
        diff = unified_diff(
            expected.splitlines(), text.splitlines(), f"golden/{name}", "this run", lineterm=""
        )
        shown = "\n".join(diff) or "(they differ only in line endings)"
        pytest.fail(f"output differs from tests/golden/{name}\n{shown}\n{cure}", pytrace=False)

    return compare


@pytest.fixture(autouse=True)
def room_for_compiled_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lets go of compiled programs before there are too many.

    Each takes some memory maps. Linux gives a process 65,530 of them, and XLA dies without. The
    whole suite gets there, and so does a slow test that compiles hundreds of random programs.
    """
    yield
    slow = request.node.get_closest_marker("slow") is not None
    look = slow or next(tests_run) % TESTS_BETWEEN_LOOKS == 0
    if look and "jax" in sys.modules and MAPS.exists():
        with MAPS.open() as lines:
            many = sum(1 for _ in lines) > MANY_MAPS
        if many:
            sys.modules["jax"].clear_caches()
