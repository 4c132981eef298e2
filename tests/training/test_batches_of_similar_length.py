"""Learning from sequences of very different lengths: batches of similar ones, the same numbers."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import optax
import pytest

import nesymm
from nesymm.inference.methods import ExactForward, Method, RaoBlackwellised
from nesymm.training import fit, fit_many
from nesymm.training.state import batches_of
from nesymm.training.trainer import Trainer, make_trainer

COIN = "t(0.5)::head@t. observe(head@t)."
HIDDEN = """
t(0.6)::x@0.
t(0.8)::x@t :- x@(t-1).
t(0.3)::x@t :- not x@(t-1).
0.9::o@t :- x@t.
0.2::o@t :- not x@t.
observe(o@t).
"""
LENGTHS = np.array(([2] * 3 + [40]) * 8)


def data(name: str) -> dict[str, np.ndarray]:
    seen = np.random.default_rng(0).random((len(LENGTHS), 40)) < 0.7
    return {name: seen, "length": LENGTHS}


def trainer(text: str, name: str, method: Method) -> Trainer:
    from nesymm.training.plan import Options

    options = Options(
        objective=None, metrics=None, method=method, optimizer=optax.sgd(0.1), epochs=1,
        batch_size=4, validation=None, patience=None, clip=None, average=0.0, steps=None,
        transform=None, debias=True, progress=False, checkpoints=None, every=None, keep=3,
        resume=False,
    )  # fmt: skip
    return make_trainer(nesymm.compile(text), data(name), options)


def test_batches_are_of_one_kind_where_they_can_be() -> None:
    kinds = np.random.default_rng(1).integers(0, 3, 103)
    epochs = [batches_of(5, epoch, kinds, 10) for epoch in range(2)]
    for found in epochs:
        assert found.shape == (10, 10)
        assert len(np.unique(found)) == 100
        # Three kinds have two boundaries.
        assert sum(len(np.unique(kinds[rows])) > 1 for rows in found) <= 2
        order = [kinds[rows].max() for rows in found]
        assert order != sorted(order)
    assert (epochs[0] == batches_of(5, 0, kinds, 10)).all()
    assert (epochs[0] != epochs[1]).any()
    assert (epochs[0] != batches_of(6, 0, kinds, 10)).any()


def test_short_sequences_are_not_padded_to_the_longest() -> None:
    training = trainer(COIN, "head", ExactForward()).plan.training
    batches = batches_of(0, 0, training.kinds, 4)
    steps = [training.rows(rows, 0).steps for rows in batches]
    assert sorted(steps) == [2] * 6 + [40] * 2
    for rows, count in zip(batches, steps, strict=True):
        assert LENGTHS[rows].max() == count


def test_an_epoch_takes_a_step_along_the_gradient_of_all_sequences() -> None:
    """With small steps, the order of the batches does not matter: the log-odds of heads move by
    the number of heads above the expected one, in means over batches of four."""
    rate = 1e-4
    fitted = fit(
        nesymm.compile(COIN), data("head"), method="exact", optimizer=optax.sgd(rate), epochs=1,
        batch_size=4, progress=False, metrics={"more": nesymm.LogEvidence()},
    )  # fmt: skip
    own = np.arange(40) < LENGTHS[:, None]
    heads, tosses = (data("head")["head"] & own).sum(), own.sum()
    chance = float(fitted.model.parameters["head"])
    moved = np.log(chance / (1 - chance))
    assert moved == pytest.approx(rate * (heads - tosses / 2) / 4, rel=0.02)
    evidence = heads * np.log(chance) + (tosses - heads) * np.log(1 - chance)
    assert fitted.history[0]["more"] == pytest.approx(-evidence / len(LENGTHS), rel=1e-4)


@pytest.mark.parametrize("method", [ExactForward(), RaoBlackwellised(20)])
def test_an_update_is_the_same_as_with_padding(method: Method) -> None:
    one = trainer(HIDDEN, "o", method)
    state = one.begin({})
    rows = np.array([0, 1, 2, 4])
    key = one.key(3, state, 0, rows)
    cut, padded = one.plan.training.rows(rows, 0), one.plan.training.rows(rows, 0, 40)
    assert (cut.steps, padded.steps) == (2, 40)
    found = [one.update(state.variables, state.optimizer, b, key) for b in (cut, padded)]
    assert float(found[0].loss) == pytest.approx(float(found[1].loss), rel=1e-5)
    if not isinstance(method, ExactForward):
        return  # What is padded may be resampled once more, which adds noise to gradients.
    for a, b in zip(*(jax.tree.leaves(f.gradients) for f in found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_runs_side_by_side_learn_what_each_learns_alone() -> None:
    options = {"method": "exact", "batch_size": 4, "epochs": 2, "progress": False}
    both = fit_many(nesymm.compile(HIDDEN), data("o"), [0, 1], **options)
    for key, one in enumerate(both):
        alone = fit(nesymm.compile(HIDDEN), data("o"), key=key, **options)
        for name, value in alone.model.parameters.items():
            assert one.model.parameters[name] == pytest.approx(value, rel=1e-4)


def test_sequences_of_similar_lengths_are_in_one_bucket() -> None:
    one = trainer(COIN, "head", ExactForward())
    layout = replace(one.plan.training.layout, last=np.full(len(LENGTHS), 30))
    training = replace(one.plan.training, layout=layout)
    assert not training.kinds.any()
    assert training.steps([np.array([0])]) == 40
