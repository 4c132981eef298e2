"""The reference interpreter against results worked out by hand."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import pytest
from interpreter import RunError, density
from reference import Impossible, Result, infer, masses

from nesymm.errors import NesymmError, ProgramError
from nesymm.ground import compile_step


def run(
    source: str,
    horizon: int = 0,
    data: dict[str, Any] | None = None,
    **given: Any,
) -> Result:
    return infer(compile_step(source), horizon, data, **given)


def queries(source: str, horizon: int = 0, data: dict[str, Any] | None = None) -> dict[str, float]:
    """The answers with a probability above zero."""
    return {name: p for name, p in run(source, horizon, data).queries.items() if p > 0}


# ---------------------------------------------------------------- a hidden Markov model

HMM = """
    0.3::rain@0.
    0.8::rain@t :- rain@(t-1).
    0.1::rain@t :- not rain@(t-1).
    0.9::umbrella@t :- rain@t.
    0.2::umbrella@t :- not rain@t.
    observe(umbrella@t).
"""
SEEN: list[bool | None] = [True, None, False, True]


def likelihood(rain: bool, seen: bool | None) -> float:
    if seen is None:
        return 1.0
    p = 0.9 if rain else 0.2
    return p if seen else 1 - p


def forward(seen: list[bool | None]) -> tuple[list[float], float]:
    """Filtered probabilities of rain, and the evidence."""
    p, evidence, out = 0.3, 1.0, []
    for i, s in enumerate(seen):
        if i:
            p = 0.8 * p + 0.1 * (1 - p)
        wet, dry = p * likelihood(True, s), (1 - p) * likelihood(False, s)
        evidence *= wet + dry
        p = wet / (wet + dry)
        out.append(p)
    return out, evidence


def smoothed(seen: list[bool | None], at: int) -> float:
    """By brute force over all sequences of weather."""
    total = there = 0.0
    for path in product((True, False), repeat=len(seen)):
        p = 0.3 if path[0] else 0.7
        for before, after in pairwise(path):
            wet = 0.8 if before else 0.1
            p *= wet if after else 1 - wet
        for rain, s in zip(path, seen, strict=True):
            p *= likelihood(rain, s)
        total += p
        there += p if path[at] else 0.0
    return there / total


def test_filtering_is_the_forward_algorithm() -> None:
    expected, evidence = forward(SEEN)
    result = run(HMM + "query(rain@t).", 3, {"umbrella": SEEN})
    assert result.filtered["rain@t"] == pytest.approx(expected)
    assert result.queries["rain@t"] == pytest.approx(expected[-1])
    assert result.evidence == pytest.approx(evidence)


def test_a_query_at_the_last_step() -> None:
    for horizon in range(4):
        expected, _ = forward(SEEN[: horizon + 1])
        result = run(HMM + "query(rain@T).", horizon, {"umbrella": SEEN})
        assert result.queries == pytest.approx({"rain@T": expected[-1]})


def test_a_query_about_the_past_sees_later_evidence() -> None:
    source = HMM + "".join(f"query(rain@{i}).\n" for i in range(4))
    result = run(source, 3, {"umbrella": SEEN})
    assert result.queries == pytest.approx({f"rain@{i}": smoothed(SEEN, i) for i in range(4)})


def test_missing_data_is_no_evidence() -> None:
    prior = [0.3]
    for _ in range(3):
        prior.append(0.8 * prior[-1] + 0.1 * (1 - prior[-1]))
    missing: list[dict[str, Any]] = [{"umbrella": [None] * 4}, {"umbrella": []}, {}]
    for data in missing:
        result = run(HMM + "query(rain@t).", 3, data)
        assert result.filtered["rain@t"] == pytest.approx(prior)
        assert result.evidence == pytest.approx(1.0)


def test_fixed_evidence_at_one_step() -> None:
    source = HMM + "observe(rain@2, true). query(rain@1)."
    # p(rain@1 | rain@2): Bayes' rule on the prior of step 1.
    prior = 0.8 * 0.3 + 0.1 * 0.7
    expected = prior * 0.8 / (prior * 0.8 + (1 - prior) * 0.1)
    assert run(source, 3).queries == pytest.approx({"rain@1": expected})


def test_a_query_beyond_the_horizon_has_no_probability() -> None:
    assert run(HMM + "query(rain@5). query(rain@1).", 2).queries["rain@5"] == 0.0


# ---------------------------------------------------------------- Boolean clauses


@pytest.mark.parametrize("enemies", [1, 2, 4])
@pytest.mark.parametrize("entities", ["between", "facts"])
def test_hits_are_a_noisy_or_over_enemies(enemies: int, entities: str) -> None:
    """1 - prod(1 - p) over those that are near."""
    if entities == "between":
        who = f"enemy(E) :- between(1, {enemies}, E)."
    else:
        who = "".join(f"enemy({i + 1}).\n" for i in range(enemies))
    source = f"""{who}
        near(E)@t :- enemy(E), E < 4.
        hit@t ~ bernoulli(0.3) :- near(E)@t.
        query(hit@T).
    """
    near = min(enemies, 3)
    assert run(source, 1).queries == pytest.approx({"hit@T": 1 - 0.7**near})


def test_uncertain_enemies() -> None:
    """The sum over who is there of the noisy-or."""
    source = """
        enemy(E) :- between(1, 3, E).
        0.5::near(E)@t :- enemy(E).
        0.3::hit@t :- near(E)@t.
        query(hit@T).
    """
    expected = sum(math.comb(3, k) / 8 * (1 - 0.7**k) for k in range(4))
    assert run(source).queries == pytest.approx({"hit@T": expected})


def test_causes_differ_from_step_to_step_but_statics_do_not() -> None:
    source = """
        0.5::fixed.
        0.5::drawn@t.
        always@t :- fixed, before@t.
        ever@t :- drawn@t, before2@t.
        before@0. before@t :- always@(t-1).
        before2@0. before2@t :- ever@(t-1).
        query(always@T). query(ever@T).
    """
    assert run(source, 2).queries == pytest.approx({"always@T": 0.5, "ever@T": 0.125})


def test_a_disjunction_may_choose_none() -> None:
    source = "0.2::a; 0.3::b. none :- not a, not b. query(a). query(b). query(none)."
    assert queries(source) == pytest.approx({"a": 0.2, "b": 0.3, "none": 0.5})
    assert queries(source + " evidence(a, false).") == pytest.approx(
        {"b": 0.3 / 0.8, "none": 0.5 / 0.8}
    )


def test_a_disjunction_over_time() -> None:
    """A new choice at each step, none of whose alternatives may hold."""
    source = """
        0.2::a@t; 0.3::b@t.
        never@t :- not a@t, not b@t, quiet@t.
        quiet@0. quiet@t :- never@(t-1).
        query(never@T).
    """
    assert run(source, 2).queries == pytest.approx({"never@T": 0.5**3})


# ---------------------------------------------------------------- families


def test_uniform_int() -> None:
    assert queries("x(V) ~ uniform_int(-1, 2). query(x(_)).") == pytest.approx(
        {f"x({v})": 0.25 for v in (-1, 0, 1, 2)}
    )


def test_uniform_int_with_bounds_that_are_drawn() -> None:
    source = """
        low(L) ~ uniform_int(0, 1).
        x(V) ~ uniform_int(L, H) :- low(L), H is L + 2.
        query(x(_)).
    """
    expected = {"x(0)": 1 / 6, "x(1)": 2 / 6, "x(2)": 2 / 6, "x(3)": 1 / 6}
    assert queries(source) == pytest.approx(expected)


def test_binomial() -> None:
    expected = {f"x({k})": math.comb(3, k) * 0.4**k * 0.6 ** (3 - k) for k in range(4)}
    assert queries("x(V) ~ binomial(3, 0.4). query(x(_)).") == pytest.approx(expected)


def test_binomial_thinning() -> None:
    """Binomial(2, 1/2) survivors, each kept with 0.4: binomial(2, 0.2)."""
    source = "n(N) ~ binomial(2, 0.5). x(V) ~ binomial(N, 0.4) :- n(N). query(x(_))."
    expected = {f"x({k})": math.comb(2, k) * 0.2**k * 0.8 ** (2 - k) for k in range(3)}
    assert queries(source) == pytest.approx(expected)


def test_bernoulli_with_a_value() -> None:
    source = "x(V) ~ bernoulli(0.3). y :- x(1). query(x(_)). query(y)."
    assert queries(source) == pytest.approx({"x(0)": 0.7, "x(1)": 0.3, "y": 0.3})


def test_categorical_of_terms() -> None:
    source = "c(V) ~ categorical([0.2, 0.8], [red, f(1)]). query(c(_))."
    assert queries(source) == pytest.approx({"c(red)": 0.2, "c(f(1))": 0.8})


def test_categorical_of_pairs() -> None:
    source = """
        pos(X, Y) ~ categorical([0.2, 0.3, 0.5], [[1, 1], [1, 2], [2, 1]]).
        sum(S) :- pos(X, Y), S is X + Y.
        query(pos(_, _)). query(pos(1, _)). query(sum(_)).
    """
    assert queries(source) == pytest.approx(
        {"pos(1,1)": 0.2, "pos(1,2)": 0.3, "pos(2,1)": 0.5, "sum(2)": 0.2, "sum(3)": 0.8}
    )
    given = queries(source + "evidence(pos(1, 1), false).")
    assert given == pytest.approx({"pos(1,2)": 0.375, "pos(2,1)": 0.625, "sum(3)": 1.0})


def test_outcomes_of_different_types() -> None:
    source = """
        x(V) ~ categorical([0.25, 0.75], [1, big]).
        small :- x(V), number(V), V < 5.
        large :- x(big).
        query(x(_)). query(small). query(large).
    """
    expected = {"x(1)": 0.25, "x(big)": 0.75, "small": 0.25, "large": 0.75}
    assert queries(source) == pytest.approx(expected)


def test_a_variable_that_is_its_own_value() -> None:
    source = """
        humid ~ categorical([0.3, 0.5, 0.2], [dry, moist, wet]).
        grade ~ uniform_int(1, 4).
        rain :- not (humid =:= dry).
        good :- grade > 3.
        query(rain). query(good). query(humid). query(grade).
    """
    expected = {"rain": 0.7, "good": 0.25, "humid(dry)": 0.3, "humid(moist)": 0.5}
    expected |= {"humid(wet)": 0.2, **{f"grade({i})": 0.25 for i in range(1, 5)}}
    assert queries(source) == pytest.approx(expected)


def test_parameters_and_networks() -> None:
    source = """
        :- network(net, 1).
        :- input(x(V)).
        a ~ bernoulli(t(_)).
        b ~ bernoulli(net(V)) :- x(V).
        c(V) ~ categorical([t(0.2, k), t(0.8, k)], [u, v]).
        query(a). query(b). query(c(_)).
    """
    step = compile_step(source)
    names = [p.name for p in step.parameters]
    values = dict(zip(names, (0.3, 0.1, 0.9), strict=True))
    given: dict[str, Any] = {"x": 2.0}
    result = infer(step, inputs=given, networks={"net": lambda x: [x - 1]}, parameters=values)
    expected = {"a": 0.3, "b": 1 / (1 + math.exp(-1)), "c(u)": 0.1, "c(v)": 0.9}
    assert result.queries == pytest.approx(expected)
    with pytest.raises(RunError, match="net"):
        infer(step, inputs=given, parameters=values)
    with pytest.raises(RunError, match="parameter"):
        infer(step, inputs=given, networks={"net": lambda x: [x]})


def test_infinitely_many_values_are_refused() -> None:
    with pytest.raises(NesymmError, match="infinitely many"):
        run("x(V) ~ normal(0, 1). y :- x(V), V > 0. query(y).")


def test_masses_leave_out_what_cannot_be() -> None:
    step = compile_step("0.25::a; 0.75::b. query(a). query(b).")
    assert masses(step.variables[0], ((0.25, 0.75),)) == [(0, 0.25), (1, 0.75)]
    step = compile_step("0.25::a; 0.5::b. query(a). query(b).")
    assert masses(step.variables[0], ((0.25, 0.5),)) == [(0, 0.25), (1, 0.5), (2, 0.25)]
    step = compile_step("x(V) ~ uniform_int(1, 3). query(x(_)).")
    assert masses(step.variables[0], (2, 3)) == [(2, 0.5), (3, 0.5)]


@pytest.mark.parametrize(
    ("family", "value", "expected"),
    [
        ("normal(1, 2)", 3.0, math.exp(-0.5) / (2 * math.sqrt(2 * math.pi))),
        ("uniform(1, 5)", 2.0, 0.25),
        ("uniform(1, 5)", 6.0, 0.0),
        ("exponential(2)", 0.5, 2 * math.exp(-1)),
        ("exponential(2)", -0.5, 0.0),
        ("gamma(3, 2)", 1.5, 8 / 2 * 1.5**2 * math.exp(-3)),
        ("beta(2, 3)", 0.5, 12 * 0.5 * 0.25),
        ("poisson(2)", 3, math.exp(-2) * 8 / 6),
        ("geometric(0.25)", 2, 0.25 * 0.75**2),
    ],
)
def test_densities(family: str, value: float, expected: float) -> None:
    step = compile_step(f"x(V) ~ {family}. y(V) :- x(V). observe(x, {value}).")
    variable = step.variables[0]
    params = tuple(float(p.data) for p in variable.params)  # type: ignore[union-attr]
    assert density(variable, params, value) == pytest.approx(expected)


def test_an_observed_density_weighs_the_worlds() -> None:
    source = """
        0.5::high.
        x(V) ~ normal(3, 1) :- high.
        x(V) ~ normal(0, 1) :- not high.
        observe(x, 2).
        query(high).
    """
    near, far = math.exp(-0.5), math.exp(-2.0)
    assert run(source).queries == pytest.approx({"high": near / (near + far)})


# ---------------------------------------------------------------- values over time


def test_marginals_of_a_value() -> None:
    """A walk on 0..2 that stays at the ends."""
    source = """
        pos(0)@0.
        step(D)@t ~ categorical([0.3, 0.7], [-1, 1]).
        pos(X)@t :- pos(Y)@(t-1), step(D)@t, X is max(0, min(2, Y + D)).
        query(pos(_)@t). query(pos(_)@T). query(pos(2)@1).
    """
    belief = [1.0, 0.0, 0.0]
    series = [belief]
    for _ in range(3):
        a, b, c = belief
        belief = [0.3 * (a + b), 0.7 * a + 0.3 * c, 0.7 * (b + c)]
        series.append(belief)
    result = run(source, 3)
    for value in range(3):
        assert result.queries[f"pos({value})@T"] == pytest.approx(belief[value])
        assert result.filtered[f"pos({value})@t"] == pytest.approx([b[value] for b in series])
    assert result.queries.get("pos(2)@1", 0.0) == 0.0


def test_reading_the_first_step_later() -> None:
    source = """
        0.3::key@0.
        open@t :- key@0, t > 1.
        0.5::key@t :- key@(t-1).
        observe(open@3, true).
        query(open@T). query(key@0). query(key@T). query(open@1).
    """
    result = run(source, 3)
    assert result.queries == pytest.approx(
        {"open@T": 1.0, "key@0": 1.0, "key@T": 0.125, "open@1": 0.0}
    )


def test_the_value_of_the_first_step() -> None:
    source = """
        v(X)@0 ~ categorical([0.2, 0.8], [5, 7]).
        v(X)@t :- v(Y)@(t-1), X is Y + 1.
        gain(D)@t :- v(X)@t, v(Y)@0, D is X - Y.
        start(Y)@t :- v(Y)@0.
        query(gain(_)@T). query(start(_)@T).
    """
    expected = {"gain(2)@T": 1.0, "start(5)@T": 0.2, "start(7)@T": 0.8}
    assert queries(source, 2) == pytest.approx(expected)


def test_several_lags() -> None:
    """Fibonacci: a value from one and two steps ago."""
    source = """
        f(1)@0. f(1)@1.
        f(X)@t :- f(Y)@(t-1), f(Z)@(t-2), t > 1, X is Y + Z.
        query(f(_)@t).
    """
    result = run(source, 6)
    for time, value in enumerate((1, 1, 2, 3, 5, 8, 13)):
        assert result.filtered[f"f({value})@t"][time] == 1.0


def test_a_value_that_has_passed_has_probability_zero() -> None:
    source = "v(0)@0. v(W+1)@t :- v(W)@(t-1), W < 9. query(v(_)@t)."
    result = run(source, 2)
    assert result.filtered["v(0)@t"] == [1.0, 0.0, 0.0]
    assert result.filtered["v(1)@t"] == [0.0, 1.0, 0.0]
    assert {n: p for n, p in result.queries.items() if p > 0} == {"v(2)@t": 1.0}


def test_a_lag_starts_when_there_is_a_past() -> None:
    source = """
        a@0. a@1.
        b@t :- not a@(t-2).
        c@t :- a@(t-2).
        query(b@t). query(c@t).
    """
    result = run(source, 3)
    assert result.filtered["b@t"] == [0.0, 0.0, 0.0, 0.0]
    assert result.filtered["c@t"] == [0.0, 0.0, 1.0, 1.0]


def test_nothing_persists_by_itself() -> None:
    source = "0.5::a@0. b@t :- a@(t-1). query(a@t). query(b@t)."
    result = run(source, 2)
    assert result.filtered["a@t"] == pytest.approx([0.5, 0.0, 0.0])
    assert result.filtered["b@t"] == pytest.approx([0.0, 0.5, 0.0])


# ---------------------------------------------------------------- absent values

ABSENT = """
    0.6::alive@t.
    hp(V)@t ~ uniform_int(1, 2) :- alive@t.
    low@t :- hp(V)@t, V < 2.
    not_low@t :- not low@t.
    equal@t :- hp(V)@t, hp(V)@(t-1).
    gone@t :- not hp(_)@t.
"""


def test_comparisons_with_an_absent_value_are_false() -> None:
    source = (
        ABSENT + "query(hp(_)@T). query(low@T). query(not_low@T). query(equal@T). query(gone@T)."
    )
    expected = {"hp(1)@T": 0.3, "hp(2)@T": 0.3, "low@T": 0.3, "not_low@T": 0.7}
    expected |= {"equal@T": 0.6 * 0.6 / 2, "gone@T": 0.4}
    assert queries(source, 1) == pytest.approx(expected)


def test_observing_a_value_says_that_it_is_there() -> None:
    source = ABSENT + "observe(hp@t). query(alive@T). query(low@T)."
    result = run(source, 1, {"hp": [None, 2]})
    assert result.queries == pytest.approx({"alive@T": 1.0, "low@T": 0.0})
    assert result.evidence == pytest.approx(0.3)


def test_observing_an_absent_value_is_impossible() -> None:
    source = ABSENT + "observe(alive@0, false). observe(hp@t). query(low@T)."
    with pytest.raises(Impossible, match="step 0"):
        run(source, 1, {"hp": [1, None]})


def test_evidence_that_cannot_be_names_its_step() -> None:
    source = """
        0.5::a@t.
        b@t :- a@t, a@(t-1).
        observe(b@t).
        observe(a@1, false).
        query(a@T).
    """
    assert run(source, 3, {"b": [None, None, False, True]}).queries == {"a@T": 1.0}
    with pytest.raises(Impossible, match="step 2"):
        run(source, 3, {"b": [None, None, True, None]})


# ---------------------------------------------------------------- what must not happen


@pytest.mark.parametrize("keyed", [False, True])
def test_leaving_a_declared_domain(keyed: bool) -> None:
    if keyed:
        source = """
            :- domain(hp/2, 2, 0..3).
            e(E) :- between(1, 2, E).
            hp(E,2)@0 :- e(E).
            hp(E,X)@t :- hp(E,Y)@(t-1), X is Y + E.
            query(hp(_,_)@T).
        """
        fine, broken = 0, 1
    else:
        source = """
            :- domain(hp/1, 1, 0..3).
            hp(2)@0.
            hp(X)@t :- hp(Y)@(t-1), X is Y + 1.
            query(hp(_)@T).
        """
        fine, broken = 1, 2
    run(source, fine)
    with pytest.raises(RunError, match=f"step {broken}: hp.*domain"):
        run(source, broken)


def test_staying_inside_a_declared_domain() -> None:
    source = """
        :- domain(hp/1, 1, 0..3).
        hp(2)@0.
        0.5::hit@t.
        hp(X)@t :- hp(Y)@(t-1), hit@t, X is max(0, Y - 1).
        hp(Y)@t :- hp(Y)@(t-1), not hit@t.
        query(hp(_)@T).
    """
    expected = {"hp(2)@T": 0.125, "hp(1)@T": 0.375, "hp(0)@T": 0.5}
    assert queries(source, 3) == pytest.approx(expected)


@pytest.mark.parametrize("keyed", [False, True])
def test_clauses_that_disagree(keyed: bool) -> None:
    """Both apply at once in some world: reported when that world is met."""
    k, e = ("E,", "e(E), ") if keyed else ("", "")
    source = f"""
        e(E) :- between(1, 2, E).
        0.5::a@t. 0.5::b@t.
        v({k}V)@0 ~ uniform_int(0, 1){" :- e(E)" if keyed else ""}.
        v({k}W+1)@t :- {e}v({k}W)@(t-1), a@t.
        v({k}W+2)@t :- {e}v({k}W)@(t-1), b@t.
        query(v({"_," if keyed else ""}_)@T).
    """
    with pytest.raises(RunError, match=r"v/\d different values|two clauses give v"):
        run(source, 1)
    apart = source + "observe(c@(1:T), false). c@t :- a@t, b@t."
    assert sum(p for n, p in queries(apart, 1).items() if "1," in n or not keyed) == pytest.approx(
        2 / 3
    )


def test_clauses_that_agree() -> None:
    source = """
        0.5::a@t. 0.5::b@t.
        v(0)@0.
        v(W+1)@t :- v(W)@(t-1), a@t, W < 3.
        v(W+1)@t :- v(W)@(t-1), b@t, W < 3.
        query(v(_)@T).
    """
    assert queries(source, 1) == pytest.approx({"v(1)@T": 0.75})


def test_clauses_that_always_disagree_are_refused() -> None:
    with pytest.raises(ProgramError) as caught:
        run("v(X)@0 ~ uniform_int(0, 1). v(X+1)@0 :- w(X). v(X+2)@0 :- w(X). w(1). query(v(_)@0).")
    assert caught.value.codes == ("E307",)


def test_arithmetic_without_a_value() -> None:
    source = "x(V) ~ uniform_int(0, 2). y(Z) :- x(V), Z is 6 // V. query(y(_))."
    with pytest.raises(RunError, match="step 0"):
        run(source)
    guarded = "x(V) ~ uniform_int(0, 2). y(Z) :- x(V), V > 0, Z is 6 // V. query(y(_))."
    assert queries(guarded) == pytest.approx({"y(6)": 1 / 3, "y(3)": 1 / 3})
