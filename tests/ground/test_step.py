"""Traversals of a step program reach every expression, guides included."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

import nesymm
from nesymm.inference.methods import RaoBlackwellised
from nesymm.ir.algebra import const
from nesymm.ir.expr import Expr
from nesymm.ir.step import Part

PROGRAM = """
:- input(u(V)@t).
:- domain(n/1, 1, 0..9).
0.3::a@t.
n(0)@0.
n(N + 1)@t :- n(N)@(t-1), a@t.
n(N)@t :- n(N)@(t-1), not a@t.
x(X)@0 ~ normal(0, 1).
x(X)@t ~ normal(Y, 1) :- x(Y)@(t-1).
guide(x@t) ~ normal(V, 2) :- u(V)@t.
z(Z)@t ~ normal(X, 1) :- x(X)@t.
observe(z@t).
query(n(N)@t).
"""


def found_by_hand(value: object) -> list[Expr]:
    """The expressions below a value; a template only shows where values stand, and what is kept
    for explanations stands beside the program."""
    if isinstance(value, Expr):
        return [value]
    if isinstance(value, tuple):
        return [e for item in value for e in found_by_hand(item)]
    if isinstance(value, Part):
        beside = ("template", "provenance")
        names = [f.name for f in fields(value) if f.name not in beside]  # type: ignore[arg-type]
        return [e for name in names for e in found_by_hand(getattr(value, name))]
    return []


def test_roots_are_all_expressions_in_the_fields() -> None:
    step = nesymm.compile(PROGRAM).step
    roots = list(step.roots())
    assert roots == found_by_hand(step)
    assert step.provenance.uses
    assert {n.data[0] for n in step.nodes() if n.op == "input"} == {"u"}
    parts = (step.variables, step.observations, step.queries, step.slots, step.flags)
    assert all(parts)
    assert sum(len(list(p.expressions())) for kind in parts for p in kind) == len(roots)


def test_map_changes_each_root_once_and_keeps_the_rest() -> None:
    step = nesymm.compile(PROGRAM).step
    met: list[Expr] = []

    def note(expr: Expr) -> Expr:
        met.append(expr)
        return expr

    assert step.map(note) is step
    assert met == list(step.roots())
    # Only the guide has the number 2.
    (two,) = {e for e in step.roots() if e.op == "const" and e.data == 2}
    changed = step.map(lambda e: const(3) if e is two else e)
    assert two not in changed.roots()
    assert replace(changed, variables=step.variables) == step


@pytest.mark.parametrize("size", [1, 2])
def test_a_guide_may_use_the_key_of_a_plate_of_any_size(size: int) -> None:
    """log p(y) in closed form: each c(E) has two observations y = c + noise."""
    program = f"""
    c(E, C) ~ normal(0, 1) :- between(1, {size}, E).
    guide(c(E, C)) ~ normal(0.1 * E, 0.9) :- between(1, {size}, E).
    y(E, Y)@t ~ normal(C, 1) :- c(E, C).
    observe(y(E)@t).
    """
    seen = np.stack([np.array([0.5, 0.2]) + 0.1 * e for e in range(size)], -1)
    covariance = np.eye(2) + 1
    exact = sum(
        -0.5 * y @ np.linalg.solve(covariance, y)
        - 0.5 * np.log(np.linalg.det(2 * np.pi * covariance))
        for y in seen.T
    )
    built = nesymm.compile(program)
    method = RaoBlackwellised(particles=1000)
    found = built.filter({"y": np.repeat(seen[None], 20, 0)}, method=method).log_evidence
    ratios = np.exp(found - exact)
    assert abs(np.mean(ratios) - 1) < 4 * np.std(ratios) / np.sqrt(len(ratios))


def test_parameters_and_variables_are_in_the_order_of_their_keys() -> None:
    model = nesymm.compile("""
        e(z). e(a). e(m).
        t(0.1, E)::a(E)@t :- e(E).
        t(0.3, E, F)::b(E, F)@t :- e(E), e(F), E =\\= F.
        c(E)@t ~ bernoulli(t(0.3, E)) :- e(E).
        observe(a(E)@t). query(b(E, F)@t). query(c(E)@t).
    """)
    keys = ["z", "a", "m"]
    pairs = [f"{e},{f}" for e in keys for f in keys if e != f]
    expected = [f"{n}[{k}]" for n, ks in (("a", keys), ("b", pairs), ("c", keys)) for k in ks]
    assert sorted(model.parameters) == sorted(expected)
    for name in "abc":
        mine = [n for n in model.parameters if n.startswith(name)]
        assert mine == [n for n in expected if n.startswith(name)]
        drawn = [v.name for v in model.step.variables if v.name.startswith(name)]
        assert drawn == [n.replace("[", "(").replace("]", ")") for n in mine]
