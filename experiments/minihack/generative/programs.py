"""Methods that are programs: the rules (`agent.nsl`) and the Deep-HMM (`deep_hmm.nsl`).

Both are trained by the evidence lower bound. The background is drawn from its guide; where the
agent is is summed out exactly, or drawn by particles for comparison (`nesymm-sampled`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import nesymm
from experiments.minihack.generative.networks import Decoder, Detector, Encoder, Moves, Scene
from nesymm import ExactForward, RaoBlackwellised, Trajectories
from nesymm import Method as Inference

FOLDER = Path(__file__).parent
EXACT = ExactForward(draws=1)
SAMPLED = RaoBlackwellised(particles=10)


def given_actions(actions: Any) -> np.ndarray:
    """Actions [n, T-1] as the programs read them: that of step 0 leads nowhere."""
    return np.pad(np.asarray(actions, int), ((0, 0), (1, 0)))


@dataclass(frozen=True)
class ProgramMethod:
    """A program with its networks for one scene."""

    name: str
    scene: Scene

    def noise(self, progress: Any) -> Any:
        """Of a pixel, from the beginning of training (0) until it has cooled down (1).

        In much noise many walks explain the pictures, and what the walls do to them decides; with
        little noise from the start, the first walk that is found somewhat right is never left.
        So it falls slowly. A cell says as much whatever its number of pixels.
        """
        return 0.025 * self.scene.pixels * 11 ** (1 - progress)

    # ------------------------------------------------------------ networks

    @property
    def ruled(self) -> bool:
        """Whether the rules are known."""
        return self.name != "deep-hmm"

    @property
    def sampled(self) -> bool:
        """Whether particles stand for the agent's place in training."""
        return self.name == "nesymm-sampled"

    @property
    def rows(self) -> int:
        """How many rows and columns the program tells apart."""
        return self.scene.grid if self.ruled else self.scene.side

    @property
    def inference(self) -> Inference:
        """In training."""
        return SAMPLED if self.sampled else EXACT

    def init(self, key: Any, usual: Any) -> dict[str, Any]:
        """Fresh networks."""
        keys = jax.random.split(key, 4)
        found: dict[str, Any] = {
            "detector": Detector(self.rows, self.scene, usual, key=keys[0]),
            "encoder": Encoder(self.scene, usual, key=keys[1]),
            "decoder": Decoder(self.rows, self.scene, key=keys[2]),
        }
        return found if self.ruled else found | {"moves": Moves(self.rows, key=keys[3])}

    @cached_property
    def model(self) -> nesymm.Model:
        """The program, compiled, without networks."""
        path = FOLDER / ("agent.nsl" if self.ruled else "deep_hmm.nsl")
        rows = "n" if self.ruled else "side"
        constants = {rows: self.rows, "pixels": self.scene.size}
        return nesymm.compile(path.read_text(), name=path.name, constants=constants)

    def with_networks(self, networks: Mapping[str, Any]) -> nesymm.Model:
        return self.model.with_networks(networks)

    # ------------------------------------------------------------ learning

    def loss(self, networks: Any, images: Any, actions: Any, key: Any, progress: Any) -> Any:
        """The negative lower bound of sequences [n, T, 3, size, size], per pixel.

        It is scaled such that a difference of pixels counts the same in all noise.
        """
        noise = self.noise(progress)
        n = len(images)
        data = {
            "first": images[:, 0],
            "image": images,
            "action": jnp.pad(actions.astype(int), ((0, 0), (1, 0))),
            "noise": jnp.full(n, noise),
            "room": jnp.tile(jnp.array([0.0, 1.0, 0.0, 1.0]), (n, 1)),
        }
        model = self.with_networks(networks)
        found = model.estimate(data, method=self.inference, key=key, kl="analytic")
        return -(noise**2) * jnp.mean(found.log_evidence) / images[0].size

    # ------------------------------------------------------------ generating

    def generate(
        self, networks: Any, first: np.ndarray, actions: np.ndarray, seed: int = 0
    ) -> Trajectories:
        """One trajectory with its pictures for each first picture and actions [n, T-1]."""
        data = {**self.given(networks, first), "action": given_actions(actions)}
        return self.with_networks(networks).generate(data, method=EXACT, key=seed)

    def given(self, networks: Mapping[str, Any], first: np.ndarray) -> dict[str, np.ndarray]:
        """What the program must be given to draw rooms that look like first pictures
        [n, 3, size, size]: these, what the encoder says of them, and the noise."""
        noise = np.full(len(first), float(self.noise(1.0)))
        means, scales = zip(*(_code(networks["encoder"], first, k) for k in (1, 2)), strict=True)
        room = np.stack([means[0], scales[0], means[1], scales[1]], axis=-1)
        return {"first": first, "noise": noise, "room": room}

    def reconstruct(
        self, networks: Any, first: np.ndarray, actions: np.ndarray, seed: int = 0
    ) -> np.ndarray:
        """Pictures [n, T, 3, size, size] from the first ones and actions [n, T-1]."""
        return self.generate(networks, first, actions, seed)["image"][:, 0]


def _code(encoder: Any, pictures: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale of a number that describes pictures."""
    mean, scale = np.asarray(jax.vmap(lambda picture: encoder(picture, k))(pictures)).T
    return mean, np.asarray(jax.nn.softplus(scale))


def positions(generated: Trajectories) -> np.ndarray:
    """Rows and columns of a program's agent, [n, T, 2]."""
    return generated["agent"][:, 0].astype(int)
