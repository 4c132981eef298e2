"""The mean of the last iterates is what it says, and is refused where it has no meaning."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import nesymm
from nesymm.training.averaging import averaged

COIN = "t(0.3)::heads@t. observe(heads@t)."
SEEN = {"heads": np.array([[1, 1, 0, 1], [1, 0, 1, 1]])}


def test_the_mean_of_the_last_three_of_five() -> None:
    tool = averaged(optax.sgd(0.5), first=2)
    x = {"x": jnp.asarray(8.0)}
    state = tool.init(x)
    path = []
    for _ in range(5):
        updates, state = tool.update({"x": x["x"]}, state, x)
        x = optax.apply_updates(x, updates)
        path.append(float(x["x"]))
    assert path == [4.0, 2.0, 1.0, 0.5, 0.25]
    assert float(state.mean["x"]) == pytest.approx(np.mean(path[2:]))


def test_fit_returns_the_mean() -> None:
    def learnt(epochs: int, average: float) -> float:
        tool = optax.sgd(0.5)
        model = nesymm.compile(COIN)
        options = {"optimizer": tool, "epochs": epochs, "average": average, "progress": False}
        return float(model.fit(SEEN, **options).model.parameters["heads"])

    def logit(p: float) -> float:
        return float(np.log(p / (1 - p)))

    path = [logit(learnt(epochs, 0.0)) for epochs in (1, 2, 3, 4)]
    assert logit(learnt(4, 0.5)) == pytest.approx(np.mean(path[2:]), abs=1e-4)
    assert logit(learnt(4, 1.0)) == pytest.approx(np.mean(path), abs=1e-4)


@pytest.mark.parametrize("average", [-0.1, 1.5, float("nan")])
def test_a_share_is_between_0_and_1(average: float) -> None:
    with pytest.raises(nesymm.NesymmError, match="average: expected a share"):
        nesymm.compile(COIN).fit(SEEN, average=average, progress=False)


def test_validation_picks_an_epoch() -> None:
    with pytest.raises(nesymm.NesymmError, match="the best epoch is returned"):
        nesymm.compile(COIN).fit(SEEN, average=0.5, validation=SEEN, progress=False)
