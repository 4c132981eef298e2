"""What `fit` is given is checked first; where it cannot learn or judge, it says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import optax
import pytest

import nesymm
from nesymm import NesymmError, NesymmWarning
from nesymm.training import ELBO, LogEvidence, QueryLoss, fit_many

MODEL = nesymm.compile("""
    t(0.3)::rain@0. t(0.7)::rain@t :- rain@(t-1).
    0.9::umbrella@t :- rain@t. 0.2::umbrella@t :- \\+ rain@t.
    observe(umbrella@t). query(rain@T).
""")
INPUT = nesymm.compile("""
    :- input(u(X)@t).
    x(X)@t ~ normal(t(0.0), 1). y(Y)@t ~ normal(M, 1) :- x(X)@t, u(U)@t, M is X * U. observe(y@t).
""")
DATA = {"umbrella": np.array([[1, 1, 0], [0, 1, 1.0]])}
NOTHING = {"umbrella": np.full((2, 3), np.nan)}
QUICK: dict[str, Any] = {"epochs": 1, "progress": False, "method": "exact"}
LABELS = {"wet": np.full(2, np.nan)}

WRONG: list[tuple[str, Any, str]] = [
    ("clip", -1, "clip: expected a number above 0, received -1"),
    ("clip", 0, "clip: expected a number above 0, received 0"),
    ("epochs", -1, "epochs: expected a whole number from 1, received -1"),
    ("epochs", 1.5, "epochs: expected a whole number from 1, received 1.5"),
    ("epochs", None, "epochs: expected a whole number from 1, received None"),
    ("patience", -1, "patience: expected a whole number from 1, received -1"),
    ("patience", 2, "patience: needs `validation` data, whose loss it watches"),
    ("objective", (), "objective: expected at least one term, received none"),
    ("objective", "evidence", r"objective: expected LogEvidence\(\), .* received 'evidence'"),
    ("objective", LogEvidence, r"objective: expected LogEvidence\(\), .* received <class"),
    ("optimizer", "adam", r"optimizer: .*such as `optax.adam\(0.01\)`, received 'adam'"),
    ("optimizer", optax.adam, "optimizer: expected an optimiser of Optax, .*received <function"),
]


@pytest.mark.parametrize(("name", "value", "told"), WRONG)
def test_wrong_options_are_refused(name: str, value: Any, told: str) -> None:
    with pytest.raises(NesymmError, match=told):
        MODEL.fit(DATA, **{**QUICK, name: value})
    with pytest.raises(NesymmError, match=told):
        fit_many(MODEL, DATA, [0], **{**QUICK, name: value})


@pytest.mark.parametrize("seeds", [3, []])
def test_several_seeds_are_a_list(seeds: Any) -> None:
    with pytest.raises(NesymmError, match="keys: expected a list of at least one, received"):
        fit_many(MODEL, DATA, seeds, **QUICK)


@pytest.mark.parametrize("option", [{"every": 2}, {"resume": True}], ids=str)
def test_options_of_checkpoints_need_a_folder(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(NesymmError, match=f"{name}: needs `checkpoints`, the folder that they"):
        MODEL.fit(DATA, **option, **QUICK)
    with pytest.raises(NesymmError, match=f"{name}: needs `checkpoints`, the folder that they"):
        fit_many(MODEL, DATA, [0], **option, **QUICK)


def test_warnings_are_about_the_line_that_called() -> None:
    calls = (
        lambda: MODEL.fit(NOTHING, **QUICK),
        lambda: nesymm.fit(MODEL, NOTHING, **QUICK),
        lambda: fit_many(MODEL, NOTHING, [0, 1], **QUICK),
    )
    for call in calls:
        with pytest.warns(NesymmWarning, match="nothing to learn from") as caught:
            call()
        line = call.__code__.co_firstlineno
        assert {(w.filename, w.lineno) for w in caught} == {(__file__, line)}


@pytest.mark.parametrize("every", [0, 2.5])
def test_checkpoints_come_after_whole_numbers_of_steps(every: Any) -> None:
    with pytest.raises(NesymmError, match=f"every: expected a whole .* 1, received {every}"):
        MODEL.fit(DATA, every=every, **QUICK)


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ({}, {"steps": 3}),
        (NOTHING, {}),
        (DATA, {"objective": LogEvidence(weight=0.0)}),
        ({**DATA, **LABELS}, {"objective": QueryLoss("rain@T", "wet")}),
    ],
)
def test_nothing_to_learn_from(data: Any, options: dict[str, Any]) -> None:
    with pytest.warns(NesymmWarning, match="nothing to learn from: the data have no entry"):
        MODEL.fit(data, **QUICK, **options)


def test_inputs_alone_teach_nothing() -> None:
    with pytest.warns(NesymmWarning, match="nothing to learn from"):
        INPUT.fit({"u": np.ones((1, 2))}, objective=ELBO(), epochs=1, progress=False, debias=False)


def test_one_entry_is_something() -> None:
    some = {"umbrella": np.array([[np.nan, np.nan, 1.0]])}
    MODEL.fit(some, **QUICK)
    with pytest.warns(NesymmWarning, match="nothing to learn from"):
        MODEL.fit({**some, "length": np.array([2])}, **QUICK)


def test_nothing_to_validate_by() -> None:
    options = {**QUICK, "epochs": 4, "batch_size": 2, "optimizer": optax.adam(0.1)}
    with pytest.warns(NesymmWarning, match="nothing to validate by: the validation data have no"):
        fitted = MODEL.fit(DATA, validation=NOTHING, patience=1, **options)
    assert len(fitted.history) == 4
    assert not any("validation" in row for row in fitted.history)
    assert fitted.model.parameters == MODEL.fit(DATA, **options).model.parameters
