"""Whether a temporal program means what ProbLog makes of its clauses, written out step by step."""

from __future__ import annotations

import pytest
from oracles import Data, Inconsistent, unrolled
from reference import Impossible, infer

from nesymm.ground import compile_step


def agree(source: str, horizon: int, data: Data | None = None, inputs: Data | None = None) -> None:
    """Both find the same answers, or both find the evidence impossible."""
    try:
        expected = unrolled(source, horizon, data, inputs)
    except Inconsistent:
        with pytest.raises(Impossible):
            infer(compile_step(source), horizon, data, inputs)
        return
    found = infer(compile_step(source), horizon, data, inputs).queries
    asked = {name for name in expected if f"query({name})." in source}
    expected = {n: p for n, p in expected.items() if p > 1e-12 or n in asked}
    found = {n: p for n, p in found.items() if p > 1e-12 or n in asked}
    assert found == pytest.approx(expected, abs=1e-9)
