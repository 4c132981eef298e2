"""Checking: what statements mean, before anything is compiled."""

from __future__ import annotations

from typing import Any

import pytest

from nesymm.errors import NesymmError, ProgramError
from nesymm.language.check import check
from nesymm.language.parser import parse
from nesymm.language.program import (
    At,
    AtLast,
    Builtin,
    Call,
    CheckedProgram,
    Choice,
    Clause,
    Collect,
    Disjunction,
    Draw,
    During,
    Negation,
    Now,
    Pred,
    Rule,
)
from nesymm.language.terms import ListTerm, Num, Str, Struct, Term, Var, variables
from nesymm.language.values import value_positions


def checked(text: str, **constants: object) -> CheckedProgram:
    return check(parse(text), constants)


def only(text: str) -> Clause:
    """The last clause of a program."""
    return checked(text).clauses[-1]


def values(text: str) -> dict[str, set[int]]:
    """The value positions of the predicates of a program."""
    program = checked(text)
    found = value_positions(program.clauses, program.inputs, program.fluents, program.timed)
    return {pred.name: set(positions) for pred, positions in found.items()}


def codes(text: str, **constants: object) -> tuple[str, ...]:
    with pytest.raises(ProgramError) as caught:
        checked(text, **constants)
    return caught.value.codes


def atom(name: str, *args: Term) -> Struct:
    return Struct(name, args)


# --- Which statement is what -------------------------------------------------------------


def test_facts_and_rules() -> None:
    fact = only("edge(a, b).")
    assert isinstance(fact, Rule)
    assert fact.head.pred == Pred("edge", 2)
    assert fact.head.args == (atom("a"), atom("b"))
    assert fact.body == ()
    rule = only("b(1). c.\na(X) <- b(X), c.")
    assert isinstance(rule, Rule)
    assert [type(literal) for literal in rule.body] == [Call, Call]


def test_probabilistic_clauses() -> None:
    clause = only("b.\n0.3::a :- b.")
    assert isinstance(clause, Choice)
    assert [p for p, _ in clause.options] == [Num(0.3)]
    disjunction = only("0.3::a; 0.5::b(X) :- X = 1.")
    assert isinstance(disjunction, Choice)
    assert [a.pred.name for _, a in disjunction.options] == ["a", "b"]


def test_distributional_clauses() -> None:
    clause = only("k(1).\nx(K, X, Y) ~ multivariate_normal([0, 0], [[1, 0], [0, 1]]) :- k(K).")
    assert isinstance(clause, Draw)
    assert clause.drawn == (1, 2)
    assert clause.family == "multivariate_normal"


def test_a_bernoulli_without_a_value_is_a_probabilistic_clause() -> None:
    clause = only("b(1).\nhit ~ bernoulli(0.3) :- b(E).")
    assert isinstance(clause, Choice)
    with_value = only("coin(V) ~ bernoulli(0.3).")
    assert isinstance(with_value, Draw)


def test_neural_annotations() -> None:
    program = checked("nn(net, [X], Y, [a, b, c]) :: kind(X, Y).")
    clause = program.clauses[0]
    assert isinstance(clause, Draw)
    assert clause.params[0] == atom("net", Var("X"))
    assert program.networks == {"net": (3,)}
    probability = checked("nn(net, [X]) :: good(X).").clauses[0]
    assert isinstance(probability, Choice)
    function = checked("nn(net, [X], Y) :: twice(X, Y).").clauses[0]
    assert isinstance(function, Rule)
    assert isinstance(function.body[-1], Builtin) and function.body[-1].name == "is"


def test_a_network_may_be_used_before_its_annotation() -> None:
    assert checked("a :- X is net(1), X > 0.\nnn(net, [X]) :: b(X).").networks == {"net": (1,)}


def test_bodies() -> None:
    rule = only("b. c. d(1).\na(L) :- not b, (b ; c), findall(X, d(X), L), L \\= [].")
    assert isinstance(rule, Rule)
    assert [type(x) for x in rule.body] == [
        Negation, Disjunction, Collect, Builtin, Builtin, Builtin
    ]  # fmt: skip
    collect, listed, same = rule.body[2:5]
    assert isinstance(collect, Collect) and isinstance(same, Builtin)
    assert isinstance(listed, Builtin) and (listed.name, listed.args) == ("$list", (Var("L"),))
    assert (same.name, same.args) == ("=", (Var("L"), collect.result))
    forall = only("d(1).\na :- forall(d(X), X > 0).")
    assert isinstance(forall, Rule)
    outer = forall.body[0]
    assert isinstance(outer, Negation) and isinstance(outer.body[1], Negation)


def test_aggregates() -> None:
    rule = only("cost(a, 3).\nbest(K, min<C>) :- cost(K, C).")
    assert isinstance(rule, Rule)
    collect = rule.body[0]
    assert isinstance(collect, Collect)
    assert (collect.kind, collect.template, collect.groups) == ("min", Var("C"), ("K",))
    assert rule.head.args[1] == collect.result
    timed = only("cost(a, 3).\nbest(K, min<C>)@t :- cost(K, C).")
    assert isinstance(timed, Rule) and timed.head.time == Now(0)
    assert isinstance(timed.body[0], Collect)
    body = only("cost(a, 3).\nn(N) :- aggregate_all(count, cost(_, _), N).")
    assert isinstance(body, Rule)
    assert isinstance(body.body[0], Collect) and body.body[0].kind == "count_all"


def test_every_underscore_is_a_variable_of_its_own() -> None:
    rule = only("b(1, 2).\na :- b(_, _), b(_1, _).")
    names = [v.name for x in rule.body if isinstance(x, Call) for a in x.atom.args
             for v in variables(a)]  # fmt: skip
    assert len(set(names)) == 4
    assert "_1" in names


def test_queries_and_observations() -> None:
    program = checked(
        "a. 0.5::b(X)@t :- X = 1. c(V) ~ normal(0, 1).\n"
        "query(a). query(b(X)@T) :- X = 1. evidence(\\+a). evidence(a, false). observe(b(1)@t).\n"
        "observe(c, 1.5). observe(b(1)@(2:T), true).\n"
    )
    assert [(str(q.atom.pred), q.atom.time, len(q.body)) for q in program.queries] == [
        ("a/0", None, 0),
        ("b/1", AtLast(), 1),
    ]
    assert [(o.atom.pred.name, o.value, o.atom.time) for o in program.observations] == [
        ("a", atom("false"), None),
        ("a", atom("false"), None),
        ("b", None, Now(0)),
        ("c", Num(1.5), None),
        ("b", atom("true"), During(2, None)),
    ]


def test_guides() -> None:
    program = checked(
        ":- network(e, 2). k(1).\nx ~ normal(0, 1). y(K, V)@t ~ normal(0, 1) :- k(K).\n"
        "guide(x) ~ normal(e(1)). guide(y(K, V)@t) ~ normal(e(K)) :- k(K).\n"
        "guide(y(1)@t) ~ normal(0, 1).\n"
    )
    targets = [(g.target.pred.name, g.target.args) for g in program.guides]
    assert targets == [("x", ()), ("y", (Var("K"),)), ("y", (Num(1),))]
    assert codes("a.\nguide(a) ~ normal(0, 1).") == ("E103",)
    assert codes("x@t ~ normal(0, 1).\nguide(x) ~ normal(0, 1).") == ("E203",)
    assert codes("x ~ normal(0, 1).\nguide(y) ~ normal(0, 1).") == ("E101",)


# --- Values and keys ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("edge(a, b).", {"edge": set()}),
        ("x(V) ~ normal(0, 1).", {"x": {0}}),
        ("k(1).\nx(K, V) ~ normal(0, 1) :- k(K).", {"k": set(), "x": {1}}),
        # Computed, and copied from what is computed or drawn.
        ("a(X) :- X is 1 + 1.\nb(X, k) :- a(X).\nc(X) :- b(X, _).", {"a": {0}, "b": {0}, "c": {0}}),
        ("x(V) ~ normal(0, 1).\ny(W) :- x(V), W = V.", {"x": {0}, "y": {0}}),
        ("x(V) ~ normal(0, 1).\ny(W) :- x(V), member(W, [V, 3]).", {"x": {0}, "y": {0}}),
        ("x(V) ~ normal(0, 1).\ny(pair(V, a)) :- x(V).", {"x": {0}, "y": {0}}),
        ("k(1).\nn(N) :- findall(K, k(K), L), length(L, N).", {"k": set(), "n": {0}}),
        ("d(D) :- distance([1], [2], D).", {"d": {0}}),
        # Arithmetic in a head computes, if the head has a time.
        ("at(1)@0.\nat(X+1)@t :- at(X)@(t-1).", {"at": {0}}),
        ("pair(1-2).", {"pair": set()}),
        # One clause that draws makes the argument a value in all of them.
        ("x(1)@0.\nx(V)@t ~ normal(0, 1) :- x(_)@(t-1).", {"x": {0}}),
        # Inputs have values only.
        (":- input(go(A)@t, [up]).\nb(A)@t :- go(A)@t.", {"go": {0}, "b": {0}}),
        # The directive decides.
        (":- fluent(seen(key)).\nat(X)@t ~ uniform_int(1, 2).\nseen(X)@t :- at(X)@t.",
         {"at": {0}, "seen": set()}),
        (":- fluent(at(key, value)).\nat(a, b)@0.", {"at": {1}}),
        (":- time(at/3, 3).\n:- fluent(at(key, value, time)).\nat(a, b, 0).", {"at": {1}}),
    ],
)  # fmt: skip
def test_values_and_keys(text: str, found: dict[str, set[int]]) -> None:
    assert values(text) == found


# --- Variables that are their own value --------------------------------------------------


def test_a_variable_without_a_value_argument_has_a_hidden_one() -> None:
    program = checked("temperature ~ normal(15, 3).\nhot :- temperature > 20.")
    assert program.self_valued == {Pred("temperature", 0)}
    draw, rule = program.clauses
    assert isinstance(draw, Draw) and isinstance(rule, Rule)
    assert draw.drawn == (0,) and len(draw.head.args) == 1
    fetch, compare = rule.body
    assert isinstance(fetch, Call) and isinstance(compare, Builtin)
    assert fetch.atom.pred == Pred("temperature", 0)
    assert fetch.atom.args == (compare.args[0],)


@pytest.mark.parametrize(
    "body",
    [
        "x > 0",
        "V is x + 1, V > 0",
        "member(x, [1, 2])",
        "member(1, [x | [2]])",
        "positive(x)",
        "findall(x, b, L), length(L, 1)",
        "findall(V, positive(x), L), L = []",
        "aggregate_all(max(x), b, V), V > 0",
        "not x > 0",
    ],
)
def test_its_name_is_its_value_in_bodies(body: str) -> None:
    rule = only(f"x ~ normal(0, 1).\npositive(V) :- V > 0.\nb.\na :- {body}.")
    assert atom("x") not in _terms_of(rule.body)
    assert Pred("x", 0) in {c.atom.pred for c in _calls(rule.body)}


def _calls(node: Any) -> list[Call]:
    if isinstance(node, Call):
        return [node]
    if isinstance(node, tuple):
        return [call for part in node for call in _calls(part)]
    return [call for name in ("body", "bodies") for call in _calls(getattr(node, name, ()))]


def _terms_of(node: Any) -> list[Term]:
    if isinstance(node, Var | Num | Str | Struct | ListTerm):
        return [node, *(t for a in getattr(node, "args", ()) for t in _terms_of(a))]
    if isinstance(node, tuple):
        return [t for part in node for t in _terms_of(part)]
    names = ("atom", "args", "body", "bodies", "template", "result")
    return [t for name in names for t in _terms_of(getattr(node, name, ()))]


def test_with_keys_and_time() -> None:
    program = checked(
        "enemy(e). x@0 ~ normal(0, 1). x@t ~ normal(x@(t-1), 1).\n"
        "size(E) ~ normal(2, 1) :- enemy(E).\nbig(E)@t :- size(E) > x@t, x@0 < 1.\n"
    )
    assert program.self_valued == {Pred("x", 0), Pred("size", 1)}
    rule = program.clauses[-1]
    assert isinstance(rule, Rule)
    calls = [x for x in rule.body if isinstance(x, Call)]
    assert [(c.atom.pred.name, c.atom.time) for c in calls] == [
        ("size", None),
        ("x", Now(0)),
        ("x", At(0)),
    ]
    assert calls[0].atom.args[0] == Var("E")


def test_a_variable_inside_the_keys_of_another() -> None:
    rule = only(
        "n ~ uniform_int(1, 2).\nsize(K) ~ normal(2, 1) :- between(1, 2, K).\na :- size(n) > 1."
    )
    assert [c.atom.pred.name for c in _calls(rule.body)] == ["n", "size"]


def test_rules_cannot_define_it_too() -> None:
    assert codes("x ~ normal(0, 1).\nx :- true.") == ("E103",)
    assert codes("x(K) ~ normal(0, 1) :- member(K, [1]).\nx(V) ~ normal(0, 1).") == ("E103",)


# --- Times -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "time"),
    [
        ("t", Now(0)), ("(t)", Now(0)), ("(t-0)", Now(0)), ("(t-1)", Now(1)), ("(t-1-1)", Now(2)),
        ("(t-2*2)", Now(4)), ("(t+1-3)", Now(2)), ("0", At(0)), ("(0)", At(0)), ("(n-3)", At(0)),
        ("(t-n)", Now(3)),
    ],
)  # fmt: skip
def test_times_in_bodies(written: str, time: object) -> None:
    rule = only(f":- const(n, 3).\n0.5::a@t.\nb@t :- a@{written}.")
    call = rule.body[0]
    assert isinstance(call, Call) and call.atom.time == time


@pytest.mark.parametrize(
    ("written", "time"),
    [
        ("t", Now(0)), ("T", AtLast()), ("3", At(3)), ("n", At(3)), ("(n+1)", At(4)),
        ("(0:T)", During(0, None)), ("(2:5)", During(2, 5)), ("(n:n)", During(3, 3)),
    ],
)  # fmt: skip
def test_times_in_queries(written: str, time: object) -> None:
    program = checked(f":- const(n, 3).\n0.5::a@t.\nquery(a@{written}).\nobserve(a@{written}).")
    assert program.queries[0].atom.time == time
    assert program.observations[0].atom.time == time


def test_a_fixed_step_in_the_head_turns_fixed_steps_into_lags() -> None:
    program = checked("0.5::a@t.\nb@3 :- a@1, a@0, a@3, a@t, a@(t-2).")
    rule = program.clauses[1]
    times = [x.atom.time for x in rule.body if isinstance(x, Call)]
    assert times == [Now(2), At(0), Now(0), Now(0), Now(2)]


def test_what_has_no_time_is_the_same_at_all_times() -> None:
    rule = only("wall(1).\na@t :- wall(1)@(t-1), distance(1, 2, D)@t, D > 0.")
    call = rule.body[0]
    assert isinstance(call, Call) and call.atom.time is None


def test_time_arguments() -> None:
    program = checked(
        ":- time(agent/3, 3). :- time(action/2, 1).\n"
        "agent(1, 1, 0).\n0.5::action(T, up).\n"
        "agent(X, Y, T) :- action(T-1, up), agent(X, Y, T-1), X < T, agent(1, 1, 0).\n"
        "query(agent(X, Y, T)). query(agent(X, Y, S)). query(agent(X, Y, 3)). query(agent(1, 1)@t)."
    )
    assert program.timed == {Pred("agent", 2), Pred("action", 1)}
    rule = program.clauses[-1]
    assert isinstance(rule, Rule)
    assert rule.head.time == Now(0)
    first, second, compare, third = rule.body
    assert isinstance(first, Call) and first.atom.time == Now(1)
    assert first.atom.args == (atom("up"),)
    assert isinstance(second, Call) and second.atom.time == Now(1)
    # The time variable as a number is the current step.
    assert isinstance(compare, Builtin) and compare.args == (Var("X"), atom("t"))
    assert isinstance(third, Call) and third.atom.time == At(0)
    assert [q.atom.time for q in program.queries] == [AtLast(), Now(0), At(3), Now(0)]


def test_domains_count_arguments_with_the_time_or_without() -> None:
    for arity, position in ((2, 2), (1, 1)):
        program = checked(
            f":- time(hp/2, 1).\n:- domain(hp/{arity}, {position}, 0..12).\nhp(0, 12).\n"
            "query(hp(T, H))."
        )
        assert list(program.domains) == [(Pred("hp", 1), 0)]


# --- Constants ---------------------------------------------------------------------------


def test_constants_are_replaced_where_they_are_arguments() -> None:
    program = checked(
        ":- const(n, 3). :- const(p, 0.25). :- const(names, [a, b]). :- const(m, n).\n"
        "n :- true.\np::lit(X) :- member(X, names), X \\= n.\nroom(n, m).\nx ~ uniform_int(1, n).\n"
        "query(n).\nquery(room(n, X)).\n"
    )
    assert program.constants == {"n": 3, "p": 0.25, "names": ["a", "b"], "m": 3}
    plain, choice, room, draw = program.clauses
    assert isinstance(plain, Rule) and plain.head.pred == Pred("n", 0)  # a predicate, no constant
    assert isinstance(choice, Choice) and choice.options[0][0] == Num(0.25)
    member = choice.body[0]
    assert isinstance(member, Builtin) and member.args[1] == ListTerm((atom("a"), atom("b")))
    assert isinstance(room, Rule) and room.head.args == (Num(3), Num(3))
    assert isinstance(draw, Draw) and draw.params == (Num(1), Num(3))
    assert program.queries[1].atom.args[0] == Num(3)


def test_overriding_constants() -> None:
    text = ":- const(n, 3). :- const(kind).\na(n, kind).\nquery(a(X, Y))."
    rule = check(parse(text), {"n": 5, "kind": "big"}).clauses[0]
    assert isinstance(rule, Rule) and rule.head.args == (Num(5), atom("big"))
    assert codes(text, n=5) == ("E107",)
    assert codes(text, kind="big", other=1) == ("E108",)
    with pytest.raises(NesymmError, match="received dict"):
        check(parse(text), {"kind": {}})


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    program = checked(":- const(n, 3). :- const(p, 0.5).\na(n, p).", n=numpy.int64(5),
                      p=numpy.float32(0.25))  # fmt: skip
    assert program.constants == {"n": 5, "p": 0.25}


def test_a_message_points_to_the_use_of_a_constant() -> None:
    with pytest.raises(ProgramError) as caught:
        checked(":- const(p, 1.5).\np::rain.\nquery(rain).")
    span = caught.value.diagnostics[0].span
    assert span is not None and (span.line, span.column, span.text) == (2, 1, "p")


# --- Directives --------------------------------------------------------------------------


def test_inputs() -> None:
    program = checked(
        ":- input(go(A)@t, [up, down]). :- input(start(X, Y)). :- input(door@t, bool).\n"
        ":- input(image). :- input(video@t).\na@t :- go(up)@t, start(1.0, 2.0), door@t."
    )
    found = {str(p): (i.timed, i.boolean, i.tensor) for p, i in program.inputs.items()}
    assert found == {
        "go/1": (True, False, False),
        "start/2": (False, False, False),
        "door/0": (True, True, False),
    }
    assert {n: i.timed for n, i in program.tensors.items()} == {"image": False, "video": True}
    assert program.inputs[Pred("start", 2)].domains == (None, None)


def test_networks() -> None:
    program = checked(
        ":- network(f). :- network(g, 3). :- network(h, [2, 2]). :- network(g, 3).\na."
    )
    assert program.networks == {"f": None, "g": (3,), "h": (2, 2)}
    assert codes(":- network(g, 3). :- network(g, 4).\na.") == ("E106",)
    assert codes(":- network(g, 0).\na.") == ("E106",)


def test_tensors_are_read_at_a_step() -> None:
    rule = only(":- input(v@t). :- network(f, 1).\na@t :- X is f(v@(t-1-1), v@0, v@t), X > 0.")
    compute = rule.body[0]
    assert isinstance(compute, Builtin)
    call = compute.args[1]
    assert isinstance(call, Struct)
    assert [a.args[1] for a in call.args if isinstance(a, Struct)] == [
        atom("-", atom("t"), Num(2)),
        Num(0),
        atom("t"),
    ]


# --- Parameters --------------------------------------------------------------------------


def _parameters(text: str) -> list[str]:
    found: list[str] = []
    for clause in checked(text).clauses:
        terms: list[Term] = []
        if isinstance(clause, Choice):
            terms = [p for p, _ in clause.options]
        elif isinstance(clause, Draw):
            terms = list(clause.params)
        terms += [a for x in clause.body if isinstance(x, Builtin) for a in x.args]
        for term in (t for whole in terms for t in _terms_of(whole)):
            if isinstance(term, Struct) and term.functor == "$param":
                name = term.args[0]
                assert isinstance(name, Struct)
                found.append(name.functor)
    return found


def test_parameters_are_named_after_their_predicate() -> None:
    assert _parameters(
        "e(1).\nt(_)::a. t(0.3)::a :- a. t(_, E)::b(E) :- e(E). t(_)::c; t(_)::d.\n"
        "x ~ normal(t(_), t(1)). y@t :- t > t(3). hit ~ bernoulli(t(_)) :- e(E)."
    ) == ["a", "a.2", "b", "c", "d", "x", "x.2", "y", "hit"]


def test_adding_clauses_behind_keeps_the_names() -> None:
    first = parse("t(_)::a. t(_)::b.")
    second = parse("t(_)::a :- b. t(_)::c.")
    both = check([first, second])
    names = [c.options[0][0].args[0].functor for c in both.clauses]  # type: ignore[union-attr]
    assert names == ["a", "b", "a.2", "c"]


# --- Observations of partial atoms -------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "args"),
    [
        ("observe(pos@t).", ("_", "_")),
        ("observe(pos@1, [1, 2]).", ("_", "_")),
        ("observe(pos(X, Y)@t).", ("X", "Y")),
        ("observe(hp(orc)@t).", (atom("orc"), "_")),
        ("observe(hp(orc)@1, 3).", (atom("orc"), "_")),
        ("observe(hp(orc, H)@1, 3).", (atom("orc"), "H")),
        ("observe(hp(orc, 3)@1, true).", (atom("orc"), Num(3))),
    ],
)
def test_value_arguments_may_be_left_out(statement: str, args: tuple[Any, ...]) -> None:
    program = checked(
        "pos(X, Y)@t ~ categorical([0.5, 0.5], [[1, 2], [3, 4]]).\n"
        "foe(orc).\nhp(E, H)@t ~ uniform_int(1, 3) :- foe(E).\n" + statement
    )
    wanted = tuple(Var(a) if isinstance(a, str) else a for a in args)
    assert program.observations[0].atom.args == wanted


def test_values_that_do_not_fit() -> None:
    start = "pos(X, Y)@t ~ categorical([0.5, 0.5], [[1, 2], [3, 4]]).\n"
    assert codes(start + "observe(pos@1, 1).") == ("E308",)
    assert codes(start + "observe(pos@1, [1, 2, 3]).") == ("E308",)
    assert codes(start + "observe(pos(1, 2, 3)@1, true).") == ("E102",)
    assert codes("0.5::a.\nobserve(a, 3).") == ("E308",)
    assert codes("0.5::a.\nobserve(not a).") == ("E103",)
    assert codes(":- input(go(A)@t, [up]).\nb@t :- go(up)@t.\nobserve(go(up)@t).") == ("E103",)


# --- Several texts -----------------------------------------------------------------------


def test_an_extension_adds_clauses() -> None:
    base = parse("wall(1).\nfree(X) :- member(X, [1, 2]), not wall(X).", "base.nsl")
    more = parse("wall(2).\nquery(free(1)).", "more.nsl")
    program = check([base, more])
    assert len(program.clauses) == 3
    assert [s.name for s in program.sources] == ["base.nsl", "more.nsl"]


def test_mistakes_of_several_texts_come_in_their_order() -> None:
    base = parse("            a :- undefined.", "base.nsl")
    more = parse("b :- missing.", "more.nsl")
    with pytest.raises(ProgramError) as caught:
        check([base, more])
    names = [d.span.source.name for d in caught.value.diagnostics if d.span]
    assert names == ["base.nsl", "more.nsl"]


def test_a_network_is_not_unified_with() -> None:
    declared = ":- network(net, 2).\n:- input(z).\n"
    assert codes(declared + "q :- [X, Y] = net(z), X > Y.\nquery(q).") == ("E103",)
    checked(declared + "q :- [X, Y] is net(z), X > Y.\nquery(q).")


@pytest.mark.parametrize("name", ["once", "print", "retract", "arg"])
def test_names_without_arguments_are_the_programs_own(name: str) -> None:
    checked = check(parse(f"0.5::{name}@t. a@t :- not {name}@t. query({name}@t).", "p"))
    assert [str(q.atom.pred) for q in checked.queries] == [f"{name}/0"]
    with pytest.raises(ProgramError, match=f"`{name}` is not supported"):
        check(parse(f"{name}(x). query({name}(x)).", "p"))
    with pytest.raises(ProgramError, match="E101"):
        check(parse(f"a :- {name}. query(a).", "p"))
