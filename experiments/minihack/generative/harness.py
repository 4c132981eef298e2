"""Trains methods, scores them all in the same way, and keeps the records."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments.minihack.generative import figures as drawing
from experiments.minihack.generative import unrolled
from experiments.minihack.generative.classifier import (
    Classifier,
    load_classifier,
    train_classifier,
)
from experiments.minihack.generative.constraints import Constraint, obeys
from experiments.minihack.generative.data import PIXELS, Dataset, load
from experiments.minihack.generative.metrics import Scores, accuracies, score
from experiments.minihack.generative.networks import Scene
from experiments.minihack.generative.obedience import check
from experiments.minihack.generative.programs import (
    EXACT,
    ProgramMethod,
    given_actions,
    positions,
)
from experiments.minihack.generative.tables import read_all, tables
from experiments.minihack.generative.training import (
    Method,
    Plan,
    load_networks,
    networks_of,
    save_networks,
    train,
)
from experiments.minihack.generative.transformer import Transformer
from experiments.minihack.harness import memory
from nesymm.errors import NesymmError

FOLDER = Path(__file__).parent
METHODS = ("nesymm", "nesymm-sampled", "deep-hmm", "transformer")
STEPS = {"nesymm": 3000, "nesymm-sampled": 3000, "deep-hmm": 3000, "transformer": 10_000}
LONGER = {("nesymm", 10): 4000}  # where the stairs are is learned last, and there are more places
RATES = {"nesymm": 0.01, "nesymm-sampled": 0.01, "deep-hmm": 0.01, "transformer": 0.001}
SMALL = 4  # pixels along a cell


def tell(line: str) -> None:
    """Progress goes beside the results."""
    print(line, file=sys.stderr, flush=True)


def scene_of(options: argparse.Namespace) -> Scene:
    return Scene(options.grid, SMALL if options.small else PIXELS[options.grid])


def make(name: str, scene: Scene) -> Method:
    return Transformer(scene) if name == "transformer" else ProgramMethod(name, scene)


def plan_of(name: str, options: argparse.Namespace) -> Plan:
    steps = LONGER.get((name, options.grid), STEPS[name])
    steps = options.steps if options.steps is not None else steps
    return Plan(options.seeds, steps, options.batch, RATES[name])


def command_of(name: str, options: argparse.Namespace) -> str:
    """What to type to get the same again."""
    seeds = ",".join(map(str, options.seeds))
    words = ["python -m experiments.minihack.generative run", "--grid", options.grid]
    words += ["--methods", name, "--seeds", seeds, "--batch", options.batch]
    words += ["--small"] if options.small else []
    words += ["--steps", options.steps] if options.steps is not None else []
    words += ["--test", options.test] if options.test is not None else []
    return " ".join(map(str, words))


def file_name(name: str, scene: Scene) -> str:
    return f"N{scene.grid}-{scene.pixels}px-{name}"


# ---------------------------------------------------------------- scores


def classifier_of(scene: Scene, folder: Path) -> Classifier:
    """The location classifier; trained where there is none yet."""
    path = folder / "weights" / f"{file_name('classifier', scene)}.safetensors"
    if not path.exists():
        tell("the location classifier is trained")
        train_classifier(load(f"N{scene.grid}train"), scene).save(path)
    return load_classifier(path, scene)


def scores_of(method: Method, networks: Any, data: Dataset, judge: Classifier) -> Scores:
    """Reconstruction from first pictures and actions, a few hundred sequences at a time."""
    pixels, size = method.scene.pixels, 250
    parts = []
    for k in range(0, len(data), size):
        rows = data.take(slice(k, k + size))
        truth = rows.frames(pixels)
        drawn = method.reconstruct(networks, truth[:, 0], rows.actions, seed=k)
        parts.append(score(drawn, truth, judge(drawn), rows.agent))
    weights = np.array([p.n for p in parts])

    def mean(name: str) -> float:
        return float(np.average([getattr(p, name) for p in parts], weights=weights))

    return Scores(mean("error"), mean("accuracy"), mean("sequence_accuracy"), int(weights.sum()))


def record_of(
    method: Method, networks: Any, data: Dataset, judge: Classifier
) -> dict[str, float | int]:
    told: dict[str, Any] = scores_of(method, networks, data, judge).to_json()
    some = data.first(100)
    frames = some.frames(method.scene.pixels)
    if isinstance(method, ProgramMethod) and method.ruled:
        # Where the program thinks it is. Without rules, the names of cells mean nothing.
        found = positions(method.generate(networks, frames[:, 0], some.actions))
        told["symbolic_accuracy"] = accuracies(found, some.agent)[0]
    told["classifier_accuracy"] = accuracies(judge(frames), some.agent)[0]
    return told


# ---------------------------------------------------------------- commands


def run(options: argparse.Namespace) -> dict[str, Any]:
    scene = scene_of(options)
    data, test = load(f"N{scene.grid}train"), load(f"N{scene.grid}test")
    if options.test is not None:
        test = test.first(options.test)
    told: dict[str, Any] = {}
    for name in options.methods:
        method, plan = make(name, scene), plan_of(name, options)
        stem = file_name(name, scene)
        checkpoint = options.folder / "checkpoints" / f"{stem}.safetensors"
        progress = train(method, data, plan, checkpoint, options.minutes, tell)
        used = memory()
        if progress.step < plan.steps:
            told[name] = {"steps": progress.step, "of": plan.steps}
            continue
        judge = classifier_of(scene, options.folder)
        scores: dict[str, Any] = {}
        record = {
            "command": command_of(name, options),
            "device": jax.devices()[0].device_kind,
            "steps": plan.steps,
            "batch": plan.batch,
            "train_seconds_all_seeds": progress.seconds,
            **used,
            "losses": progress.losses,
            "seeds": scores,
        }
        path = options.folder / "results" / f"{stem}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        found = {seed: networks_of(progress, index) for index, seed in enumerate(plan.seeds)}
        for seed, networks in found.items():
            weights = options.folder / "weights" / f"{stem}-{seed}.safetensors"
            save_networks(weights, method, networks)
        for seed, networks in found.items():
            scores[str(seed)] = record_of(method, networks, test, judge)
            tell(f"{name}, seed {seed}: {scores[str(seed)]}")
            path.write_text(json.dumps(record, indent=1) + "\n")
        told[name] = scores
        (path.parent / "tables.md").write_text(tables(read_all(path.parent)))
    return told


def trained(name: str, scene: Scene, folder: Path, seed: int) -> tuple[Method, Any]:
    method = make(name, scene)
    path = folder / "weights" / f"{file_name(name, scene)}-{seed}.safetensors"
    if not path.exists():
        raise NesymmError(f"there are no weights {path}; use `run` first")
    return method, load_networks(path, method)


def evaluate(options: argparse.Namespace) -> dict[str, Any]:
    scene = scene_of(options)
    data = load(options.data or f"N{scene.grid}test")
    if data.grid != scene.grid:
        raise NesymmError(f"the data have a grid of {data.grid}, expected {scene.grid}")
    if options.test is not None:
        data = data.first(options.test)
    method, networks = trained(options.method, scene, options.folder, options.seed)
    return record_of(method, networks, data, classifier_of(scene, options.folder))


def figures(options: argparse.Namespace) -> dict[str, Any]:
    scene = scene_of(options)
    test = load(f"N{scene.grid}test")
    ready = {}
    for name in METHODS:
        try:
            ready[name] = trained(name, scene, options.folder, options.seed)
        except NesymmError as error:
            tell(str(error))
    if "nesymm" not in ready:
        raise NesymmError("there are no weights of nesymm to draw; use `run --methods nesymm`")
    first = test.first(1).frames(scene.pixels)[0, 0]
    path = drawing.compare(ready, first, options.out)
    method, networks = ready["nesymm"]
    assert isinstance(method, ProgramMethod)
    told = drawing.constrained(method, networks, test, options.out)
    found = {"actions": str(path), "constraints": told}
    return keep(options.out / "figures.json", options, found)


def keep(path: Path, options: argparse.Namespace, found: dict[str, Any]) -> dict[str, Any]:
    """Writes what was found, with what produced it."""
    words = [f"--{name} {getattr(options, name)}" for name in ("grid", "seed", "test", "longest")
             if getattr(options, name, None) is not None]  # fmt: skip
    words += ["--small"] if getattr(options, "small", False) else []
    told = {
        "command": " ".join(["python -m experiments.minihack.generative", options.command, *words]),
        "device": jax.devices()[0].device_kind,
        **found,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told, indent=1) + "\n")
    return told


def obedience(options: argparse.Namespace) -> dict[str, Any]:
    scene = scene_of(options)
    data = load(f"N{scene.grid}test")
    if options.test is not None:
        data = data.first(options.test)
    method, networks = trained("nesymm", scene, options.folder, options.seed)
    assert isinstance(method, ProgramMethod)
    judge = classifier_of(scene, options.folder)
    found = {"constraints": check(method, networks, data, judge, tell, options.seed)}
    return keep(options.out / f"obedience-N{scene.grid}.json", options, found)


def horizon(options: argparse.Namespace) -> dict[str, Any]:
    grid = options.grid
    unrolled.unrolled_cost(grid, 1), unrolled.filter_cost(grid, 1)  # imports are not counted
    static = [unrolled.unrolled_cost(grid, t) for t in range(1, options.longest + 1)]
    moving = [unrolled.filter_cost(grid, t) for t in (1, 2, 4, 8, 16, 100, 1000)]
    unrolled.draw(static, moving, options.out / "horizon.png")
    found = {
        "unrolled": [c.to_json() for c in static],
        "filter": [c.to_json() for c in moving],
        "pictures": [pictures_cost(t) for t in (10, 100, 1000)],
    }
    return keep(options.out / "horizon.json", options, found)


def pictures_cost(steps: int) -> dict[str, Any]:
    """Seconds to draw so many steps with the shipped networks, once compiled; by the rules?"""
    from experiments.minihack.generative.shipped import METHOD, networks

    first = load("N5test").first(1).frames(METHOD.scene.pixels)[:, 0]
    actions = np.random.default_rng(0).integers(4, size=(1, steps))
    given = {**METHOD.given(first), "action": given_actions(actions)}
    model = METHOD.with_networks(networks)
    model.generate(given, method=EXACT)
    begun = time.perf_counter()
    found = model.generate(given, method=EXACT)
    seconds = time.perf_counter() - begun
    kept = obeys(positions(found)[0], actions[0], METHOD.scene.grid, Constraint())
    return {"horizon": steps, "seconds": seconds, "obeys": kept}
