"""With `errors="keep"` one bad sequence costs the others nothing, whatever is asked of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import nesymm
from nesymm.inference.methods import Bootstrap, ExactForward, Method, RaoBlackwellised

Data = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A program, what goes well with it, what does not, and what is said then."""

    source: str
    good: Data
    bad: Data
    said: str

    def model(self) -> nesymm.Model:
        networks = {"f": jnp.log} if "network" in self.source else {}
        return nesymm.compile(self.source, networks=networks)

    def batch(self, *which: str) -> Data:
        rows = {"good": self.good, "bad": self.bad}
        return {n: np.stack([rows[w][n] for w in which]) for n in self.good}


CASES = {
    "impossible evidence": Case(
        """
        0.5::x@0. x@t :- x@(t-1), not fails@t.
        0.2::fails@t.
        observe(x@t). query(fails@t).
        """,
        {"x": np.array([1, np.nan, 0])},
        {"x": np.array([1, 0, 1])},
        r"sequence 1, step 2: .*observed: x",
    ),
    "a rule that breaks": Case(
        """
        :- domain(level/1, 1, 0..3).
        :- input(wind(W)@t, [0, 1]).
        level(0)@0.
        level(L + D)@t :- level(L)@(t-1), rise(D)@t, wind(0)@t.
        level(L + 2)@t :- level(L)@(t-1), wind(1)@t.
        rise(D)@t ~ uniform_int(0, 1).
        0.5::z@t :- level(1)@t.
        0.2::z@t.
        observe(z@t).
        query(level(1)@t).
        """,
        {"wind": np.array([0, 0, 0]), "z": np.array([1, 1, 0.0])},
        {"wind": np.array([0, 1, 1]), "z": np.array([1, 1, 1.0])},
        r"sequence 1, step 2: level/1 leaves its domain",
    ),
    "a network that gives NaN": Case(
        """
        :- network(f, 2). :- input(image@t).
        0.5::x@t.
        y(V)@t ~ categorical(f(image@t), [0, 1]) :- x@t.
        y(V)@t ~ categorical([0.3, 0.7], [0, 1]) :- not x@t.
        observe(y@t). query(x@t).
        """,
        {"image": np.full((3, 2), 2.0), "y": np.array([0, 1, 0.0])},
        {"image": np.array([[2, 1], [-1, 1], [1, 1.0]]), "y": np.array([0, 1, 0.0])},
        r"sequence 1, step 1: the network f gave NaN",
    ),
}
METHODS: dict[str, Method] = {
    "exact": ExactForward(),
    "rao-blackwellised": RaoBlackwellised(particles=20),
    "bootstrap": Bootstrap(particles=20),
}


def _answers(verb: str, found: Any, sequence: int) -> Data:
    """What a result says of one sequence."""
    arrays = found if verb == "smooth" else found.values
    return {n: a[sequence] for n, a in arrays.items()}


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("impossible evidence", "trajectories"),
        pytest.param("a rule that breaks", "smooth", marks=pytest.mark.slow),
        ("a network that gives NaN", "trajectories"),
        pytest.param("impossible evidence", "smooth", marks=pytest.mark.slow),
        pytest.param("a rule that breaks", "trajectories", marks=pytest.mark.slow),
        pytest.param("a network that gives NaN", "smooth", marks=pytest.mark.slow),
    ],
)
def test_good_sequences_get_what_they_get_alone(name: str, verb: str) -> None:
    case = CASES[name]
    ask = getattr(case.model(), verb)
    options: dict[str, Any] = {"method": ExactForward()}
    if verb == "trajectories":
        options["best"] = True  # the same whatever is drawn for others
    alone = ask(case.batch("good"), errors="keep", **options)
    assert alone.failures == ()
    kept = ask(case.batch("good", "bad", "good"), errors="keep", **options)
    for sequence in (0, 2):
        _same(_answers(verb, kept, sequence), _answers(verb, alone, 0))
    _named(case, verb, kept)


@pytest.mark.parametrize("verb", [pytest.param("smooth", marks=pytest.mark.slow), "trajectories"])
@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("impossible evidence", "rao-blackwellised"),
        pytest.param("a rule that breaks", "bootstrap", marks=pytest.mark.slow),
        pytest.param("a network that gives NaN", "bootstrap", marks=pytest.mark.slow),
        pytest.param("impossible evidence", "bootstrap", marks=pytest.mark.slow),
    ],
)
def test_good_sequences_keep_their_particles(name: str, method: str, verb: str) -> None:
    """The same seed gives them the same draws beside a good sequence and beside a bad one."""
    case = CASES[name]
    ask = getattr(case.model(), verb)
    beside = ask(case.batch("good", "good", "good"), method=METHODS[method])
    kept = ask(case.batch("good", "bad", "good"), method=METHODS[method], errors="keep")
    for sequence in (0, 2):
        _same(_answers(verb, kept, sequence), _answers(verb, beside, sequence))
    _named(case, verb, kept)


def _same(found: Data, expected: Data) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert np.all(np.isfinite(value))
        np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)


def _named(case: Case, verb: str, kept: Any) -> None:
    (failure,) = kept.failures
    with pytest.raises(nesymm.NesymmError, match=case.said):
        raise nesymm.NesymmError(str(failure))
    if verb == "smooth":
        assert all(np.isnan(row).all() for row in _answers(verb, kept, 1).values())
    else:
        assert list(kept.lengths > 0) == [True, False, True]
        with pytest.raises(nesymm.NesymmError, match="no trajectory of " + case.said):
            kept.atoms(1, 0, 0)


@pytest.mark.parametrize("verb", ["smooth", "trajectories"])
def test_a_misspelt_choice_is_refused(verb: str) -> None:
    model = CASES["impossible evidence"].model()
    with pytest.raises(nesymm.NesymmError, match="expected 'raise' or 'keep', received 'kepp'"):
        getattr(model, verb)(CASES["impossible evidence"].batch("good"), errors="kepp")
