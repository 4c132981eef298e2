"""Inputs with keys: the same answers as with facts, in a program of each sequence's own."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from nesymm import Bootstrap, ExactForward, RaoBlackwellised

RANDOM = np.random.default_rng(0)

EPIDEMIC = """
0.3::sick(P)@0 :- person(P).
0.8::sick(P)@t :- sick(P)@(t-1).
0.1::sick(P)@t :- person(P), not sick(P)@(t-1).
0.3::sick(P)@t :- near(P, Q), sick(Q)@(t-1).
count(C)@t :- aggregate_all(count, sick(_)@t, C).
0.9::test(P)@t :- sick(P)@t.
0.1::test(P)@t :- person(P), not sick(P)@t.
observe(test(P)@t).
query(sick(P)@t) :- person(P).
query(count(2)@t).
"""
KEYED = ":- const(n, 4). :- input(person(key), 1..n). :- input(near(key, key), 1..n, 1..n)."


def epidemic() -> tuple[dict[str, Any], list[int]]:
    """Two groups, of two and of three people, where there is place for four."""
    sizes = [2, 3]
    person = np.arange(4) < np.array(sizes)[:, None]
    near = RANDOM.random((2, 4, 4)) < 0.5
    near &= person[:, :, None] & person[:, None, :]
    near[:, 0, 1] = True
    test = np.where(person[:, None], RANDOM.random((2, 3, 4)) < 0.5, np.nan)
    return {"person": person, "near": near, "test": test}, sizes


@pytest.mark.parametrize("method", [ExactForward(), RaoBlackwellised(400), Bootstrap(8000)])
def test_who_exists_and_who_is_near_whom(method: nesymm.Method) -> None:
    data, sizes = epidemic()
    found = nesymm.compile(KEYED + EPIDEMIC).filter(data, method=method, key=1)
    exact = isinstance(method, ExactForward)
    for b, size in enumerate(sizes):
        pairs = np.argwhere(data["near"][b]) + 1
        facts = f"person(P) :- between(1, {size}, P). " + "".join(
            f"near({p}, {q}). " for p, q in pairs
        )
        own = {"test": data["test"][b : b + 1, :, :size]}
        right = nesymm.compile(facts + EPIDEMIC).filter(own, method="exact")
        # A standard error of particles is at most 0.5 / sqrt(effective number).
        error = 1e-9 if exact else 4 * 0.5 / np.sqrt(float(found.effective[b].min()))
        for name, answers in right.filtered.items():
            assert found.filtered[name][b] == pytest.approx(answers[0], abs=error)
        for name in found.filtered.keys() - right.filtered.keys():
            assert not found.filtered[name][b].any()
        if exact:
            assert found.log_evidence[b] == pytest.approx(right.log_evidence[0], abs=1e-9)


def test_padding_changes_nothing() -> None:
    data, _ = epidemic()
    wide = {
        "person": np.pad(data["person"], ((0, 0), (0, 2))),
        "near": np.pad(data["near"], ((0, 0), (0, 2), (0, 2))),
        "test": np.pad(data["test"], ((0, 0), (0, 0), (0, 2)), constant_values=np.nan),
    }
    model = nesymm.compile(KEYED + EPIDEMIC)
    narrow, widened = model.filter(data), model.with_constants(n=6).filter(wide)
    np.testing.assert_allclose(narrow.log_evidence, widened.log_evidence, rtol=1e-9)
    for name, answers in narrow.filtered.items():
        np.testing.assert_allclose(answers, widened.filtered[name], atol=1e-9)


def test_a_smaller_domain_takes_along_what_was_learnt() -> None:
    """Of three people in a room for six, each has a chance by a network, a parameter for all and
    one of their own; in the smaller program their chances are the same products."""
    model = nesymm.compile(
        ":- const(n, 6). :- input(person(key), 1..n). :- input(look(key), 1..n, tensor). "
        ":- network(mood, 1). t(0.5)::fine(P)@t :- person(P), likes(P)@t, calm(P)@t. "
        "likes(P)@t ~ bernoulli(mood(look(P))) :- person(P). "
        "t(0.1, P)::calm(P)@t :- person(P). query(fine(P)@t) :- person(P).",
        networks={"mood": lambda x: 2.0 * x},
    )
    own = np.array([0.2, 0.4, 0.6, 0.7, 0.8, 0.9])
    learnt = model.with_parameters(fine=0.75, calm=own)
    look = np.array([[[0.5], [-1.0], [2.0]]])
    right = 0.75 * own[:3] / (1 + np.exp(-2.0 * look[0, :, 0]))
    small = learnt.with_constants(n=3)
    here = {"person": np.ones((1, 3), bool), "look": look}
    wide = {
        "person": np.arange(6)[None] < 3,
        "look": np.pad(look, ((0, 0), (0, 3), (0, 0))),
    }
    for one, data in ((small, here), (learnt, wide), (small.with_constants(n=6), wide)):
        found = one.filter(data, steps=1, method="exact").filtered
        chances = [found[f"fine({p})@t"][0, 0] for p in (1, 2, 3)]
        np.testing.assert_allclose(chances, right, rtol=1e-5)
    again = small.with_constants(n=6).parameters["calm"]
    np.testing.assert_allclose(again, [0.2, 0.4, 0.6, 0.1, 0.1, 0.1])


def test_a_relation_per_step() -> None:
    """Doors open and close: a walk through two of them."""
    model = nesymm.compile("""
        :- input(door(key)@t, [north, south]).
        at(hall)@0.
        0.5::goes(north)@t; 0.5::goes(south)@t.
        at(D)@t :- at(hall)@(t-1), goes(D)@t, door(D)@t.
        at(hall)@t :- at(hall)@(t-1), goes(D)@t, not door(D)@t.
        at(D)@t :- at(D)@(t-1), D \\= hall.
        query(at(W)@t).
    """)
    door = np.array([[[1, 1], [1, 0], [0, 1]], [[0, 0], [0, 0], [1, 1]]])
    found = model.filter({"door": door}, method="exact").filtered
    np.testing.assert_allclose(found["at(north)@t"], [[0, 0.5, 0.5], [0, 0, 0.5]], atol=1e-12)
    np.testing.assert_allclose(found["at(south)@t"], [[0, 0, 0.25], [0, 0, 0.5]], atol=1e-12)


@pytest.mark.parametrize("earlier", ["door(D)@(t-1)", "door(D)@0"])
def test_a_relation_of_an_earlier_step(earlier: str) -> None:
    model = nesymm.compile(f"""
        :- input(door(key)@t, [north, south]).
        open(D)@t :- {earlier}.
        query(open(D)@t).
    """)
    door = np.array([[[1, 0], [0, 1], [1, 1]]])
    found = model.filter({"door": door}, method="exact").filtered
    before = door[:, [0, 0, 1]] if "t-1" in earlier else door[:, [0, 0, 0]]
    start = 0 if "t-1" in earlier else 1
    for i, name in enumerate(("north", "south")):
        expected = before[0, :, i] * [start, 1, 1]
        assert found[f"open({name})@t"][0].tolist() == expected.tolist()


def test_values_by_key_and_their_absence() -> None:
    """NaN and masks say that there is no value."""
    model = nesymm.compile("""
        :- const(n, 3).
        :- input(size(key, S), 1..n, real).
        :- input(home(key, R), 1..n, [hall, attic]).
        big(K) :- size(K, S), S > 1.5.
        none(K)@t :- between(1, n, K), not size(K, _).
        total(T) :- aggregate_all(sum(S), size(_, S), T).
        0.5::up(K)@t :- big(K), home(K, attic).
        query(up(K)@t). query(none(K)@t).
        heavy@t :- total(T), T > 2.9. query(heavy@t).
    """)
    size = np.ma.masked_array([[1.0, 2.0, 3.0], [2.0, np.nan, 0.5]], [[0, 0, 1], [0, 0, 0]])
    home = np.array([["hall", "attic", "attic"], ["attic", "attic", None]], object)
    found = model.filter({"size": size, "home": home}, steps=1, method="exact").filtered
    expected = {"up(1)@t": [0, 0.5], "up(2)@t": [0.5, 0], "none(2)@t": [0, 1],
                "none(3)@t": [1, 0], "heavy@t": [1, 0]}  # fmt: skip
    assert {k: v[:, 0].tolist() for k, v in found.items() if v.any()} == expected


def test_a_key_that_is_drawn_looks_the_relation_up() -> None:
    """Hidden Markov models on two rings of rooms, against the recursion by hand."""
    model = nesymm.compile("""
        :- const(n, 5).
        :- input(next(key, Y), 1..n, 1..n).
        :- input(bright(key), 1..n).
        at(X)@0 ~ uniform_int(1, n).
        0.7::moves@t.
        at(Y)@t :- at(X)@(t-1), moves@t, next(X, Y).
        at(X)@t :- at(X)@(t-1), not moves@t.
        0.9::light@t :- at(X)@t, bright(X).
        0.2::light@t :- at(X)@t, not bright(X).
        observe(light@t).
        query(at(X)@t).
    """)
    following = np.array([[1, 2, 3, 4, 0], [3, 0, 4, 2, 1]])
    bright = np.array([[1, 0, 1, 1, 0], [0, 1, 1, 0, 0]], bool)
    light = np.array([[1, 0, 1, 1], [1, 1, 0, 1]], bool)
    data = {"next": following + 1, "bright": bright, "light": light}
    found = model.filter(data, method="exact")
    for b in range(2):
        step = 0.3 * np.eye(5)
        step[np.arange(5), following[b]] += 0.7
        belief, total = np.full(5, 0.2), 0.0
        for t in range(4):
            belief = belief @ step if t else belief
            chance = np.where(bright[b], 0.9, 0.2)
            belief = belief * np.where(light[b, t], chance, 1 - chance)
            total += np.log(belief.sum())
            belief = belief / belief.sum()
            for x in range(5):
                name = f"at({x + 1})@t"
                assert found.filtered[name][b, t] == pytest.approx(belief[x], abs=1e-9)
        assert found.log_evidence[b] == pytest.approx(total, abs=1e-9)


def test_a_tensor_for_each_entity() -> None:
    model = nesymm.compile(
        """
        :- const(n, 3).
        :- input(crop(key)@t, 1..n, tensor). :- input(face(key), 1..n, tensor).
        :- input(object(key), 1..n).
        :- network(see, 2).
        kind(O, K)@t ~ categorical(see(crop(O)@t, face(O)), [cup, box]) :- object(O).
        some@t :- kind(O, cup)@t.
        query(kind(O, cup)@t). query(some@t).
        """,
        networks={"see": lambda x, y: jnp.stack([x.sum(), y.sum()])},
    )
    crop, face = RANDOM.normal(size=(2, 4, 3, 5)), RANDOM.normal(size=(2, 3, 2))
    there = np.array([[1, 1, 1], [1, 0, 1]], bool)
    found = model.filter({"crop": crop, "face": face, "object": there}, method="exact").filtered
    logit = crop.sum(-1) - face.sum(-1)[:, None]
    right = np.where(there[:, None], 1 / (1 + np.exp(-logit)), 0)
    for o in range(3):
        np.testing.assert_allclose(found[f"kind({o + 1},cup)@t"], right[:, :, o], atol=1e-5)
    np.testing.assert_allclose(found["some@t"], 1 - (1 - right).prod(-1), atol=1e-5)


def test_a_tensor_of_an_earlier_step() -> None:
    model = nesymm.compile(
        """
        :- input(crop(key)@t, [a, b], tensor). :- network(see, 1).
        p(K)@t ~ bernoulli(see(crop(K)@(t-1))) :- member(K, [a, b]).
        query(p(K)@t).
        """,
        networks={"see": lambda x: x[:1]},
    )
    crop = RANDOM.normal(size=(1, 3, 2, 2))
    found = model.filter({"crop": crop}, method="exact").filtered
    for i, name in enumerate("ab"):
        right = 1 / (1 + np.exp(-crop[0, :-1, i, 0]))
        np.testing.assert_allclose(found[f"p({name})@t"][0, 1:], right, atol=1e-6)


FRIENDS = """
0.3::stress(X) :- person(X).
0.4::influences(X, Y) :- friend(X, Y).
smokes(X) :- stress(X).
smokes(X) :- friend(X, Y), influences(X, Y), smokes(Y).
query(smokes(1)). query(smokes(2)). evidence(smokes(3), true).
"""


def test_programs_without_time() -> None:
    model = nesymm.compile(
        ":- const(n, 4). :- input(friend(key, key), 1..n, 1..n). :- input(person(key), 1..n)."
        + FRIENDS
    )
    friend = np.zeros((4, 4), bool)
    facts = "person(1). person(2). person(3). "
    for x, y in ((1, 2), (2, 3), (3, 1), (2, 1)):
        friend[x - 1, y - 1] = True
        facts += f"friend({x}, {y}). "
    found = model.infer({"friend": friend, "person": [1, 1, 1, np.nan]})
    right = nesymm.compile(facts + FRIENDS).infer()
    assert found.log_evidence == pytest.approx(right.log_evidence, abs=1e-12)
    for x in (1, 2):
        name = f"smokes({x})"
        assert found.probability(name) == pytest.approx(right.probability(name), abs=1e-12)


def test_streams_take_relations_of_a_step() -> None:
    data, _ = epidemic()
    model = nesymm.compile(KEYED + EPIDEMIC)
    stream = model.stream({n: data[n] for n in ("person", "near")}, batch=2, method="exact")
    whole = model.filter(data, method="exact")
    for t in range(3):
        answers = stream.update({"test": data["test"][:, t]}).probabilities
        for name, expected in whole.filtered.items():
            np.testing.assert_allclose(answers[name], expected[:, t], atol=1e-6)


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        (":- input(wall(key, key), 1..3).", "give a domain for each of the 2 arguments"),
        (":- input(wall(key)).", "give a domain for each of the 1 arguments"),
        (":- input(wall(key), int).", "the domain of a key has finitely many values"),
        (":- input(wall(key), 0.0..1.0).", "the domain of a key has finitely many values"),
        (":- input(wall(key, X), 1..3, tensor).", "give a domain|the arguments of a tensor"),
        (":- input(wall(key, a), 1..3, 1..2).", "the arguments of an input are variables, or"),
    ],
)
def test_declarations_that_make_no_sense(directive: str, message: str) -> None:
    body = "wall(_, _)" if "," in directive.partition(")")[0] else "wall(_)"
    with pytest.raises(nesymm.ProgramError, match=message):
        nesymm.compile(f"{directive}\na@t :- {body}. query(a@t).")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("see(crop(4)@t)", r"a key of the tensor crop is one of int 1\.\.3, this may be another"),
        ("see(crop(1, 2)@t)", "the tensor crop has 1 keys, this has 2"),
        ("see(crop@t)", "the tensor crop has 1 keys, this has 0"),
        ("see(crop(1))", r"changes over time; say at which step(.|\n)*`crop\(1\)@t`"),
    ],
)
def test_tensors_are_read_at_their_keys(call: str, message: str) -> None:
    with pytest.raises(nesymm.ProgramError, match=message):
        nesymm.compile(
            ":- input(crop(key)@t, 1..3, tensor). :- network(see, 1).\n"
            f"a@t ~ bernoulli({call}). query(a@t)."
        )


def test_data_of_another_shape() -> None:
    model = nesymm.compile(":- input(wall(key, key), 1..2, 1..3). a@t :- wall(1, 3). query(a@t).")
    with pytest.raises(nesymm.DataError, match=r"expected axes .* shape \(1, 2, 3\), received"):
        model.filter({"wall": np.zeros((1, 3, 2))}, steps=1)
    with pytest.raises(nesymm.DataError, match="2 at sequence 0 is outside its domain, bool"):
        model.filter({"wall": np.full((1, 2, 3), 2)}, steps=1)


def test_a_recursion_over_people_with_values() -> None:
    """A plate inside the definitions of a recursion is written out as anywhere else."""
    program = """
        v(E, V)@0 ~ uniform_int(0, 2) :- e(E).
        v(E, V)@t ~ categorical([0.25, 0.5, 0.25], [0, 1, 2]) :- v(E, W)@(t-1), W > 0.
        ill(E)@t :- e(E), v(_, E)@t.
        ill(E)@t :- e(E), ill(F)@t.
        query(ill(E)@1) :- e(E).
    """
    keyed = nesymm.compile(":- input(e(key), 1..3)." + program)
    found = keyed.filter({"e": [[0, 1, 1]]}, steps=2, method="exact").final
    right = nesymm.compile("e(2). e(3)." + program).filter({}, steps=2, method="exact").final
    for name, answers in right.items():
        assert found[name] == pytest.approx(answers, abs=1e-12)


FEELINGS = """
0.4::sad(P)@t :- age(P, A), A > 30, sad(P)@(t-1).
0.5::sad(P)@t :- size(P, S), S > 1.
feels(P, V)@t ~ normal(2, 1) :- person(P), not sad(P)@t.
feels(P, V)@t ~ normal(0, 1) :- sad(P)@t.
query(sad(P)@t).
"""


@pytest.mark.parametrize("causes", [0, 5])
def test_numbers_observed_of_each(causes: int) -> None:
    """Each has causes of its own, whose tables must not be those of all together."""
    more = "".join(f"0.{i + 1}::sad(P)@t :- person(P).\n" for i in range(causes))
    inputs = """
        :- input(person(key), 1..3). :- input(age(key, A), 1..3, 0..99).
        :- input(size(key, S), 1..3, real). observe(feels(P)@t).
    """
    facts = "person(1). person(2). age(1, 40). size(1, 1.5). size(2, 0.5). observe(feels(P)@t)."
    feels = np.array([[[1.0, 0.3, np.nan], [np.nan, 2.5, np.nan], [0.1, np.nan, np.nan]]])
    data = {
        "person": [[1, 1, 0]],
        "age": [[40, np.nan, np.nan]],
        "size": [[1.5, 0.5, np.nan]],
        "feels": feels,
    }
    found = nesymm.compile(inputs + FEELINGS + more).filter(data, method="exact")
    own = {f"feels({p})": feels[:, :, p - 1] for p in (1, 2)}
    right = nesymm.compile(facts + FEELINGS + more).filter(own, method="exact")
    np.testing.assert_allclose(found.log_evidence, right.log_evidence, atol=1e-9)
    for name in ("sad(1)@t", "sad(2)@t"):
        expected = right.filtered.get(name, np.zeros((1, 3)))
        np.testing.assert_allclose(found.filtered[name], expected, atol=1e-9)


EVERYTHING = """
0.4::weak(P) :- person(P).
0.3::sick(P)@0 :- person(P).
0.7::sick(P)@t :- sick(P)@(t-1), weak(P).
0.2::sick(P)@t :- person(P), person(Q), P \\= Q, sick(Q)@(t-1).
0.9::test(P)@t :- sick(P)@t.
0.1::test(P)@t :- person(P), not sick(P)@t.
n(C)@t :- aggregate_all(count, sick(_)@t, C).
len(L)@t :- findall(P, sick(P)@t, Ps), length(Ps, L).
most(M)@t :- aggregate_all(max(P), sick(P)@t, M).
least(M)@t :- aggregate_all(min(P), sick(P)@t, M).
half(P)@t :- n(C)@t, aggregate_all(count, person(_), D), D > 0, A is C / D, A >= 0.5, person(P).
well@t :- person(P), not sick(P)@t.
all@t :- not well@t.
pair@t :- sick(P)@t, sick(Q)@t, P < Q.
observe(test(P)@t) :- person(P).
query(sick(P)@t). query(weak(P)). query(n(C)@t). query(len(C)@t). query(most(C)@t).
query(least(C)@t). query(half(P)@t). query(well@t). query(all@t). query(pair@t).
"""


def test_who_exists_is_who_is_counted() -> None:
    """Any number of people, none included, in one batch; each against a program of its own."""
    there = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], bool)
    test = np.where(there[:, None], RANDOM.random((4, 3, 2)) < 0.5, np.nan)
    model = nesymm.compile(":- input(person(key), 1..2)." + EVERYTHING)
    found = model.filter({"person": there, "test": test}, method="exact")
    for b, row in enumerate(there):
        facts = "".join(f"person({p + 1}). " for p in np.flatnonzero(row)) or "person(_) :- fail. "
        one = nesymm.compile(facts + EVERYTHING)
        own = {f"test({p + 1})": test[b : b + 1, :, p] for p in np.flatnonzero(row)}
        right = one.filter(own, method="exact", steps=3)
        assert found.log_evidence[b] == pytest.approx(right.log_evidence[0], abs=1e-9)
        for name in {*found.filtered, *right.filtered}:
            expected = right.filtered.get(name, np.zeros((1, 3)))[0]
            np.testing.assert_allclose(found.filtered[name][b], expected, atol=1e-9)
        for name in {*found.final, *right.final}:
            expected = right.final.get(name, np.zeros(1))[0]
            assert found.final[name][b] == pytest.approx(expected, abs=1e-9)
