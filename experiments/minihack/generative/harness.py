"""Trains methods, scores them all in the same way, and keeps the records."""

from __future__ import annotations

import argparse
import json
import sys
import timeit
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
from experiments.minihack.generative.metrics import accuracies, score
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
from nesymm import NesymmError

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


def record_of(
    method: Method, networks: Any, data: Dataset, judge: Classifier, seed: int
) -> dict[str, float | int]:
    """Reconstruction from first pictures and actions, a few hundred sequences at a time."""
    size = 250
    parts = []
    for k in range(0, len(data), size):
        parts.append(_part_of(method, networks, data.take(slice(k, k + size)), judge, seed + k))
    counts = [part["n"] for part in parts]
    summary: dict[str, float | int] = {
        name: float(np.average([part[name] for part in parts], weights=counts)) for name in parts[0]
    }
    return {**summary, "n": sum(counts)}


def _part_of(
    method: Method, networks: Any, data: Dataset, judge: Classifier, seed: int
) -> dict[str, Any]:
    truth = data.frames(method.scene.pixels)
    places = {}
    if isinstance(method, ProgramMethod) and method.ruled:
        # Where the program thinks it is. Without rules, the names of cells mean nothing.
        found = method.generate(networks, truth[:, 0], data.actions, seed)
        drawn = found["image"][:, 0]
        places["symbolic_accuracy"] = accuracies(positions(found), data.agent)[0]
    else:
        drawn = method.reconstruct(networks, truth[:, 0], data.actions, seed=seed)
    summary = score(drawn, truth, judge(drawn), data.agent).to_json()
    return {**summary, **places, "classifier_accuracy": accuracies(judge(truth), data.agent)[0]}


# ---------------------------------------------------------------- commands


def run(options: argparse.Namespace) -> dict[str, Any]:
    scene = scene_of(options)
    data, test = load(f"N{scene.grid}train"), load(f"N{scene.grid}test")
    if options.test is not None:
        test = test.first(options.test)
    summary: dict[str, Any] = {}
    for name in options.methods:
        method, plan = make(name, scene), plan_of(name, options)
        stem = file_name(name, scene)
        checkpoint = options.folder / "checkpoints" / f"{stem}.safetensors"
        progress = train(method, data, plan, checkpoint, options.minutes, tell)
        used = memory()
        if progress.step < plan.steps:
            summary[name] = {"steps": progress.step, "of": plan.steps}
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
            scores[str(seed)] = record_of(method, networks, test, judge, 1000 * seed)
            tell(f"{name}, seed {seed}: {scores[str(seed)]}")
            path.write_text(json.dumps(record, indent=1) + "\n")
        summary[name] = scores
        (path.parent / "tables.md").write_text(tables(read_all(path.parent)))
    return summary


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
    judge = classifier_of(scene, options.folder)
    return record_of(method, networks, data, judge, 1000 * options.seed)


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
    summary = drawing.constrained(method, networks, test, options.out)
    found = {"actions": str(path), "constraints": summary}
    return keep(options.out / "figures.json", options, found)


def keep(path: Path, options: argparse.Namespace, found: dict[str, Any]) -> dict[str, Any]:
    """Writes what was found, with what produced it."""
    words = [f"--{name} {getattr(options, name)}" for name in ("grid", "seed", "test", "longest")
             if getattr(options, name, None) is not None]  # fmt: skip
    words += ["--small"] if getattr(options, "small", False) else []
    summary = {
        "command": " ".join(["python -m experiments.minihack.generative", options.command, *words]),
        "device": jax.devices()[0].device_kind,
        **found,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(summary, indent=1) + "\n")
    return summary


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
    grid, short, long = options.grid, range(1, options.longest + 1), [2**k for k in range(8)]
    for method in ("enumerate", "circuit"):
        unrolled.unrolled_cost(grid, 1, method)  # imports are not counted
    unrolled.filter_cost(grid, 1)
    ways = {
        "enumerated": [unrolled.unrolled_cost(grid, t, "enumerate") for t in short],
        "circuit": [unrolled.unrolled_cost(grid, t, "circuit") for t in long],
        "filter": [unrolled.filter_cost(grid, t) for t in sorted({*short, *long, 1000})],
    }
    unrolled.check_agreement(ways)
    pictures = [pictures_cost(t) for t in (10, 100, 300, 1000)]
    unrolled.draw(ways, pictures, options.out / "horizon.png")
    found = {name: [c.to_json() for c in costs] for name, costs in ways.items()}
    return keep(options.out / "horizon.json", options, {**found, "pictures": pictures})


def pictures_cost(steps: int) -> dict[str, Any]:
    """Seconds to draw so many steps with the shipped networks, and whether they obey the rules.

    The first call compiles. Of five others, the shortest: what else the machine does is not
    counted.
    """
    from experiments.minihack.generative.shipped import METHOD, networks

    first = load("N5test").first(1).frames(METHOD.scene.pixels)[:, 0]
    actions = np.random.default_rng(0).integers(4, size=(1, steps))
    given = {**METHOD.given(networks, first), "action": given_actions(actions)}
    model = METHOD.with_networks(networks)
    found = model.generate(given, method=EXACT)
    kept = obeys(positions(found)[0], actions[0], METHOD.scene.grid, Constraint())
    seconds = min(timeit.repeat(lambda: model.generate(given, method=EXACT), number=1))
    return {"horizon": steps, "seconds": seconds, "obeys": kept}
