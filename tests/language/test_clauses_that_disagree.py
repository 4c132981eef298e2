"""Clauses that disagree about a value: the message says what made it one, and its cure works."""

from __future__ import annotations

import re
from typing import Any

import pytest

import nesymm
from nesymm.inference.results import FilterError

KEPT = "tired(K)@t :- who(K)@t.\ntired(K)@t :- tired(K)@(t-1).\nquery(tired(K)@t)."
CASES = {
    "an input": (
        f":- input(who(K)@t, [ann, bob]).\n{KEPT}",
        {"who": [["ann", "bob"]]},
        "tired/1",
        "the argument K is a value, copied from the input who/1 (<program>:2:1); ",
        "tired(key)",
        {"tired(ann)@t": [1, 1], "tired(bob)@t": [0, 1]},
    ),
    "a drawn value": (
        f"who(K)@t ~ categorical([0.25, 0.75], [ann, bob]).\n{KEPT}",
        {},
        "tired/1",
        "the argument K is a value, copied from the value of who/1 (<program>:2:1); ",
        "tired(key)",
        {"tired(ann)@t": [1 / 4, 7 / 16], "tired(bob)@t": [3 / 4, 15 / 16]},
    ),
    "one of two arguments": (
        "e(ann). at(E, X)@0 :- e(E), X is 1. 0.5::go@t.\n"
        "at(E, X + 1)@t :- at(E, X)@(t-1), X < 4, go@t.\n"
        "at(E, X)@t :- at(E, X)@(t-1). query(at(E, X)@t).",
        {},
        "at/2",
        "the argument X is a value, computed (<program>:1:9); ",
        "at(key, key)",
        {"at(ann,1)@t": [1, 1], "at(ann,2)@t": [0, 0.5]},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_cure_works(name: str) -> None:
    text, data, pred, reason, declared, expected = CASES[name]

    def answers(program: str) -> Any:
        return nesymm.compile(program).filter(data, steps=2, method="exact").filtered

    with pytest.raises(FilterError) as caught:
        answers(text)
    message = str(caught.value)
    assert f"two clauses give {pred} different values" in message
    assert reason in message
    cure = re.search(r"declare `(:- fluent\(.*\)\.)`, so that several can hold at once", message)
    assert cure is not None and cure[1] == f":- fluent({declared})."
    found = answers(f"{cure[1]}\n{text}")
    assert {n: found[n][0].tolist() for n in expected} == {
        n: pytest.approx(p) for n, p in expected.items()
    }


def test_what_is_drawn_is_a_value_in_any_case() -> None:
    text = "0.5::b. x(X) ~ uniform_int(1, 2). x(X) ~ uniform_int(2, 3) :- b. query(x(X))."
    expected = (
        r"two clauses give x/1 different values(.|\n)*= help: the argument X is a value, drawn "
        r"\(<program>:1:9\); let their bodies exclude each other$"
    )
    with pytest.raises(nesymm.NesymmError, match=expected):
        nesymm.compile(text).infer()
