"""The networks that ship with the repository, trained on rooms of 5 × 5 cells:

nesymm generate experiments/minihack/generative/agent.nsl \\
    --networks experiments.minihack.generative.shipped:networks \\
    --data experiments/minihack/generative/data/example.npz --plot out/pictures.png
"""

from __future__ import annotations

from pathlib import Path

from experiments.minihack.generative.networks import Scene
from experiments.minihack.generative.programs import ProgramMethod
from experiments.minihack.generative.training import load_networks

WEIGHTS = Path(__file__).parent / "weights" / "N5-16px-nesymm-0.safetensors"

METHOD = ProgramMethod("nesymm", Scene(5, 16))
networks = load_networks(WEIGHTS, METHOD)
