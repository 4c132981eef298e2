"""What cannot be explained is said by everything that looks at evidence."""

from __future__ import annotations

import numpy as np
import pytest

import nesymm
from nesymm.filtering.result import FilterError

STAYS = "0.5::x@0. x@t :- x@(t-1). 0.5::w@t. observe(x@t). observe(w@t). query(x@t)."
DATA = {"x": np.array([[1, 1, 1], [1, 0, 0]]), "w": np.ones((2, 3))}


@pytest.mark.parametrize("method", ["exact", "rao-blackwellised", "bootstrap"])
@pytest.mark.parametrize("verb", ["filter", "smooth", "trajectories"])
def test_impossible_evidence_is_never_answered(verb: str, method: str) -> None:
    model = nesymm.compile(STAYS)
    with pytest.raises(FilterError, match=r"sequence 1, step 1: .*without x@t") as caught:
        getattr(model, verb)(DATA, method=method)
    assert caught.value.result.log_evidence[0] > -np.inf


def test_a_misspelt_choice_is_refused() -> None:
    with pytest.raises(nesymm.NesymmError, match="expected 'raise' or 'keep', received 'kepp'"):
        nesymm.compile(STAYS).filter(DATA, errors="kepp")


def test_one_sequence_without_a_batch_axis_gets_the_cure() -> None:
    with pytest.raises(nesymm.NesymmError, match=r"x\[None\]"):
        nesymm.compile(STAYS).filter({"x": np.ones(3), "w": np.ones(3)})
