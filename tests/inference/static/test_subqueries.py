"""`subquery`: probabilities within a program, as ProbLog computes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracles import problog
from typer.testing import CliRunner

import nesymm
from nesymm.cli.main import app
from nesymm.errors import ProgramError
from nesymm.ground import compile_step
from nesymm.inference.static.solver import Impossible

PROGRAMS = {
    "three forms": """
        0.5::a.
        b(P) :- subquery(a, P).
        c(P) :- subquery(a, P, []).
        d(P) :- subquery(a, P, [], "logprob", "ddnnf").
        query(b(_)). query(c(_)). query(d(_)).
    """,
    "answers": """
        0.5::a(1). 0.3::a(2). item(1). item(3).
        p(X, P) :- subquery(a(X), P).
        q(X, P) :- item(X), subquery(a(X), P).
        query(p(_, _)). query(q(_, _)).
    """,
    "evidence of its own": """
        0.5::a. 0.3::b :- a. 0.2::b.
        p(P) :- subquery(a, P, [b]).
        q(P) :- subquery(a, P, [\\+b]).
        r(P) :- subquery(a, P).
        query(p(_)). query(q(_)). query(r(_)).
        evidence(a).
    """,
    "within one another": """
        0.5::a. 0.4::x.
        p(P) :- subquery(a, P).
        P::c :- p(P), x.
        d(Q) :- subquery(c, Q).
        query(c). query(d(_)).
    """,
}


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=list(PROGRAMS))
def test_like_problog(source: str) -> None:
    positive = {name: p for name, p in problog(source).items() if p > 0}
    found = nesymm.compile(source).infer().queries
    assert {n: p for n, p in found.items() if p > 0} == pytest.approx(positive, abs=1e-9)


@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        ("p(P) :- subquery(p(_), P). query(p(_)).", "E312", "depends on its own result"),
        ("p :- subquery(zz, P), P > 0. query(p).", "E101", "zz/0 cannot be asked for"),
        ("p :- subquery(3, P), P > 0. query(p).", "E308", "what is asked is a predicate"),
        ('0.1::a. p :- subquery(a, P, [], "mpe", "sdd"), P > 0. query(p).', "E308",
         "a subquery gives a probability"),
        ("t(0.5)::a. p :- subquery(a, P), P > 0. query(p).", "E105", "for what is learnt"),
        ("x ~ normal(0, 1). a :- x > 0. p :- subquery(a, P), P > 0. query(p).", "E105",
         "drawn from a density"),
        (":- input(x(V), 0..3). a :- x(V), V > 1. p :- subquery(a, P), P > 0. query(p).", "E105",
         "given as data"),
        ("0.1::a. b@t. p@t :- b@t, subquery(a, P), P > 0. query(p@t).", "E105", "with time"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(source: str, code: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        nesymm.compile(source)
    assert caught.value.codes == (code,)


def test_what_is_only_grounded_answers_nothing() -> None:
    with pytest.raises(ProgramError, match="in a program that is only grounded"):
        compile_step("0.5::a. p(P) :- subquery(a, P). query(p(_)).")


def test_impossible_evidence() -> None:
    """As in ProbLog, it is a mistake and not a probability of 0."""
    with pytest.raises(Impossible):
        nesymm.compile("0.5::a. p(P) :- subquery(a, P, [a, \\+a]). query(p(_)).")


def test_the_commands_answer_it(tmp_path: Path) -> None:
    path = tmp_path / "model.pl"
    path.write_text("0.5::a. p(P) :- subquery(a, P). query(p(_)).", encoding="utf-8")
    for command in ("check", "query"):
        result = CliRunner().invoke(app, [command, str(path)])
        assert result.exit_code == 0, result.output
