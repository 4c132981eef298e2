"""Printing: what it looks like, and that reading it gives the same program."""

from __future__ import annotations

import pytest
from fuzzing import CORPUS
from hypothesis import given, settings
from strategies import programs, terms

from nesymm.language.parser import parse, parse_term
from nesymm.language.printer import WIDTH, pprint
from nesymm.language.terms import ListTerm, Num, Program, Str, Struct, Term, Var

# The first example waits for the grammar to be read, so there is no deadline.
fixed = settings(deadline=None, derandomize=True, max_examples=300)

X = Var("X")
a = Struct("a")


@fixed
@given(programs())
def test_reading_what_was_printed_gives_the_same_program(program: Program) -> None:
    assert parse(pprint(program)) == program


@fixed
@given(terms())
def test_reading_a_printed_term_gives_the_same_term(term: Term) -> None:
    assert parse_term(pprint(term)) == term


@pytest.mark.parametrize("text", CORPUS)
def test_realistic_programs_survive_printing(text: str) -> None:
    program = parse(text)
    printed = pprint(program)
    assert parse(printed) == program
    assert pprint(parse(printed)) == printed


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (Num(-1), "-1"),
        (Struct("-", (Num(1),)), "-(1)"),
        (Struct("-", (X,)), "-X"),
        (Struct("-", (Struct("-", (X,)),)), "-(-X)"),
        (Struct("-", (Struct("**", (Struct("+", (X, Num(1))), Num(2))),)), "-((X + 1)**2)"),
        (Struct("-", (a, Num(-1))), "a - -1"),
        (Struct("-", (Num(2), Struct("-", (X,)))), "2 - -X"),
        (Struct("**", (Num(-1), Num(2))), "(-1)**2"),
        (Struct("-", (Struct("**", (Num(1), Num(2))),)), "-(1**2)"),
        (Struct("**", (Num(2), Num(-1))), "2** -1"),
        (Struct(":", (Num(0), Num(-1))), "0: -1"),
        (Struct("-", (a, Struct("-", (a, a)))), "a - (a - a)"),
        (Struct("-", (Struct("-", (a, a)), a)), "a - a - a"),
        (Struct("*", (Struct("+", (a, a)), a)), "(a + a) * a"),
        (Num(1.0), "1.0"),
        (Num(0.1 + 0.2), "0.30000000000000004"),
        (Num(1e-300), "1e-300"),
        (Num(10**40), "1" + "0" * 40),
        (Str('say "hi"\n'), '"say \\"hi\\"\\n"'),
        (Struct("It's"), "'It\\'s'"),
        (Struct(""), "''"),
        (Struct("not"), "'not'"),
        (Struct("+"), "'+'"),
        (Struct("[]"), "'[]'"),
        (ListTerm(), "[]"),
        (ListTerm((a,), X), "[a | X]"),
        (Struct("!"), "!"),
        (Struct(",", (a, a)), "a, a"),
        (Struct("f", (Struct(",", (a, a)),)), "f((a, a))"),
        (Struct("f", (Struct(":-", (a, a)),)), "f(':-'(a, a))"),
        (Struct("not", (Struct(",", (a, a)),)), "not (a, a)"),
        (Struct("::", (Num(0.3), Struct("not", (a,)))), "0.3::not a"),
        (Struct("::", (Struct("/", (Num(1), Num(6))), a)), "1/6::a"),
        (Struct("@", (a, Struct("-", (Struct("t"), Num(1))))), "a@(t-1)"),
        (Struct("@", (a, Struct(":", (Num(0), Var("T"))))), "a@(0:T)"),
        (Struct("p", (Struct("<>", (Struct("min"), Var("L"))),)), "p(min<L>)"),
        (Struct("/", (Struct("hp"), Num(1))), "hp/1"),
    ],
)  # fmt: skip
def test_the_fewest_parentheses(term: Term, text: str) -> None:
    assert pprint(term) == text
    assert parse_term(text) == term


def test_a_short_rule_stays_on_one_line() -> None:
    assert pprint(parse("h:-a,not b,c.")) == "h :- a, not b, c.\n"


def test_a_long_rule_has_a_line_for_each_goal() -> None:
    text = "player(P)@t ~ normal(Next,0.1):-player(Q)@(t-1),monster(M),player_move(Q,M,Next)."
    assert pprint(parse(text)) == (
        "player(P)@t ~ normal(Next, 0.1) :-\n"
        "    player(Q)@(t-1),\n"
        "    monster(M),\n"
        "    player_move(Q, M, Next).\n"
    )


def test_a_long_annotated_disjunction_has_a_line_for_each_head() -> None:
    text = "; ".join(f"1/6::a_rather_long_name_for_a_die({i})" for i in range(3)) + "."
    printed = pprint(parse(text))
    assert printed.splitlines()[1] == "    1/6::a_rather_long_name_for_a_die(1);"
    assert all(len(line) <= WIDTH for line in printed.splitlines())
    assert parse(printed) == parse(text)


def test_one_statement_per_line() -> None:
    assert pprint(parse("a. b.\n\n% c\nc.")) == "a.\nb.\nc.\n"


def test_the_deepest_term_that_can_be_read_can_be_printed() -> None:
    for opening, closing in (("f(", ")"), ("[", "]"), ("a@(", ")"), ("'x y'(", ")")):
        deep = parse(opening * 199 + "b" + closing * 199 + ".")
        assert parse(pprint(deep)) == deep
    timed = parse("a@(f(" * 99 + "b" + "))" * 99 + ".")
    assert parse(pprint(timed)) == timed
