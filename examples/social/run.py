"""Learn who takes up smoking from small groups, and test on groups of fifty.

    python examples/social/run.py                                   # all of it
    python examples/social/run.py --groups 20 --epochs 1 --test-groups 2   # a quick look

Writes the model, the numbers (results.json) and the picture (smokers.png) to the folder of `--out`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1]))

import nesymm  # noqa: E402
from examples.social import baseline  # noqa: E402
from examples.social.simulator import FEATURES, TRUTH, simulate, strain  # noqa: E402

BATCH = 20
WEEKS = 12
# The chances of the simulator, and how the program calls them.
NAMES = {"start": "smokes", "habit": "smokes.2", "stress": "smokes.3", "friend": "smokes.4"}
METHODS = {
    "rate": "share of smokers",
    "network": "network, no rules",
    "learnt": "rules, learnt",
    "truth": "rules, true numbers",
}


def untrained(key: int) -> nesymm.Model:
    """The program with all chances one half, and a network that knows nothing."""
    network = nesymm.MLP(FEATURES, 1, width=8, depth=1, key=key)
    return nesymm.compile(FOLDER / "smokers.nsl", networks={"strain": network})


def true_model() -> nesymm.Model:
    """The program with what the simulator has."""

    def network(features: Any) -> Any:
        chance = 1 / (1 + jax.numpy.exp(2.5 - 2.5 * jax.numpy.maximum(features[0], features[1])))
        return jax.numpy.log(chance / (1 - chance))[None]

    model = untrained(0).with_networks(strain=network)
    return model.with_parameters(**{NAMES[n]: value for n, value in TRUTH.items()})


def fit(data: dict[str, np.ndarray], args: argparse.Namespace) -> nesymm.Model:
    """Rules and network, by the evidence alone."""
    updates = args.epochs * (args.groups // BATCH)
    return (
        untrained(args.seed)
        .fit(
            data,
            method=nesymm.RaoBlackwellised(args.particles),
            optimizer=optax.adam(optax.cosine_decay_schedule(0.08, updates)),
            epochs=args.epochs,
            batch_size=BATCH,
            key=args.seed,
            progress=args.progress,
        )
        .model
    )


def standard_errors(model: nesymm.Model, data: dict[str, np.ndarray], particles: int) -> dict:
    """Those of the four chances: the products of the groups' gradients sum to the information."""
    rows = gradients(model, data, particles)
    covariance = np.linalg.pinv(rows.T @ rows, hermitian=True)
    return dict(zip(NAMES, np.sqrt(np.diag(covariance))[: len(NAMES)], strict=True))


def gradients(model: nesymm.Model, data: dict[str, np.ndarray], particles: int) -> np.ndarray:
    """Of the log-evidence of each group, in the four chances and in the last layer of the network.
    The other layers are held fixed."""
    method = nesymm.RaoBlackwellised(particles)
    network = model.networks["strain"]
    last = network.layers.layers[-1]
    start = [*(model.parameters[n] for n in NAMES.values()), *last.weight[0], last.bias[0]]
    count = len(NAMES)

    def evidence(numbers: Any) -> Any:
        weights = (numbers[count:-1][None], numbers[-1:])
        where = lambda n: (n.layers.layers[-1].weight, n.layers.layers[-1].bias)  # noqa: E731
        chances = dict(zip(NAMES.values(), numbers[:count], strict=True))
        new = model.with_networks(strain=eqx.tree_at(where, network, weights))
        return eqx.tree_at(
            lambda m: [m.parameters[n] for n in chances], new, [*chances.values()]
        ).log_evidence(data, method=method)

    @jax.jit
    def along(direction: Any) -> Any:
        return jax.jvp(evidence, (jax.numpy.array(start),), (direction,))[1]

    return np.stack([along(d) for d in np.eye(len(start), dtype=np.float32)], -1).astype(float)


def beliefs(model: nesymm.Model, data: dict[str, np.ndarray], particles: int) -> np.ndarray:
    """The chance that each person smokes, given all answers so far: [group, week, person]."""
    people = data["person"].shape[1]
    model = model.with_constants(n=people)
    method = nesymm.RaoBlackwellised(particles)
    found = model.filter(data, method=method, key=1).filtered
    return np.stack([found[f"smokes({p + 1})@t"] for p in range(people)], -1)


def score(belief: np.ndarray, data: dict[str, np.ndarray], smokes: np.ndarray) -> dict[str, Any]:
    """Of what was not asked: the log-loss and how often the more probable is right, with standard
    errors over groups; and the log-loss by week."""
    hidden = np.isnan(data["smokes"]) & data["person"][:, None]
    chance = np.clip(np.where(smokes, belief, 1 - belief), 1e-6, 1)
    count = hidden.sum((1, 2))
    loss = np.where(hidden, -np.log(chance), 0)
    right = np.where(hidden, chance > 0.5, 0)
    out: dict[str, Any] = {"by week": (loss.sum((0, 2)) / hidden.sum((0, 2))).tolist()}
    for name, values in (("log-loss", loss), ("accuracy", right)):
        each = values.sum((1, 2)) / count
        error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
        out[name] = [float(values.sum() / count.sum()), float(error)]
    return out


def experiment(args: argparse.Namespace) -> dict[str, Any]:
    """All numbers."""
    rng = np.random.default_rng(args.seed)
    train = simulate(rng, args.groups, 5, 10, WEEKS, room=10)
    test = simulate(rng, args.test_groups, args.people, args.people, WEEKS, room=args.people)
    say(args, f"learning from {args.groups} groups of 5 to 10 people")
    model = nesymm.load(args.model) if args.model else fit(train.data, args)
    nesymm.save(model, args.out / "model.safetensors")
    found = {n: float(model.parameters[NAMES[n]]) for n in TRUTH}
    say(args, f"found {found}; standard errors")
    errors = standard_errors(model, train.data, args.particles)
    say(args, "a network without rules")
    plain = baseline.fit(train.data, args.epochs, BATCH, args.seed, args.progress)
    rate = float(np.nanmean(train.data["smokes"]))
    say(args, f"testing on {args.test_groups} groups of {args.people}")
    guesses = {
        "rate": np.full(test.smokes.shape, rate),
        "network": baseline.predict(plain, test.data),
        "learnt": beliefs(model, test.data, args.test_particles),
        "truth": beliefs(true_model(), test.data, args.test_particles),
    }
    again = beliefs(model, test.data, args.test_particles // 4)
    person = test.data["person"]
    gap = np.abs(again - guesses["learnt"]).transpose(0, 2, 1)[person]
    strain_gap = learnt_strain(model, test.data["features"]) - strain(test.data["features"])
    return {
        "settings": {k: v for k, v in vars(args).items() if k not in ("out", "model", "progress")},
        "chances": {
            n: {"truth": TRUTH[n], "found": found[n], "error": float(errors[n])} for n in TRUTH
        },
        "strain": float(np.abs(strain_gap[person]).mean()),
        "scores": {m: score(g, test.data, test.smokes) for m, g in guesses.items()},
        "particles": float(gap.mean()),
    }


def learnt_strain(model: nesymm.Model, features: np.ndarray) -> np.ndarray:
    """The chance of stress that the network gives."""
    logits = jax.vmap(jax.vmap(model.networks["strain"]))(features)[..., 0]
    return np.asarray(1 / (1 + np.exp(-np.asarray(logits))))


def tables(record: dict[str, Any]) -> str:
    """What the page shows of the numbers."""
    lines = ["| chance | truth | learnt |", "|---|---:|---:|"]
    for name, c in record["chances"].items():
        lines.append(f"| {name} | {c['truth']:.2f} | {c['found']:.3f} ± {c['error']:.3f} |")
    lines += ["", "| | log-loss | accuracy |", "|---|---:|---:|"]
    for name, label in METHODS.items():
        loss, right = record["scores"][name]["log-loss"], record["scores"][name]["accuracy"]
        cells = f"{loss[0]:.3f} ± {loss[1]:.3f} | {100 * right[0]:.1f} ± {100 * right[1]:.1f} %"
        lines.append(f"| {label} | {cells} |")
    return "\n".join(lines) + "\n"


def draw(record: dict[str, Any], path: Path) -> None:
    """What was found, and how well hidden smoking is guessed from week to week."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
    rows = list(record["chances"].values())
    at = np.arange(len(rows))[::-1]
    left.errorbar(
        [r["found"] for r in rows],
        at,
        xerr=[1.96 * r["error"] for r in rows],
        fmt="o",
        color="#0072B2",
        capsize=3,
        label="learnt, 95 % interval",
    )
    left.plot([r["truth"] for r in rows], at, "D", color="#D55E00", mfc="none", ms=9, label="truth")
    left.set_yticks(at, list(record["chances"]))
    left.set(xlim=(0, 1), ylim=(-0.6, len(rows) - 0.1), xlabel="probability")
    left.set_title("What starts and keeps up smoking", fontsize=10, loc="left")
    left.legend(frameon=False, loc="lower right", fontsize=8)
    styles = {
        "rate": ("#777777", ":", "s"),
        "network": ("#E69F00", "--", "^"),
        "learnt": ("#0072B2", "-", "o"),
        "truth": ("#D55E00", "-.", "D"),
    }
    for name, label in METHODS.items():
        colour, line, mark = styles[name]
        weeks = record["scores"][name]["by week"]
        right.plot(weeks, color=colour, linestyle=line, marker=mark, ms=4, label=label)
    right.set(xlabel="week", ylabel="log-loss of hidden smoking", ylim=(0, None))
    people = record["settings"]["people"]
    right.set_title(f"Who smokes, in groups of {people} never seen", fontsize=10, loc="left")
    right.legend(frameon=False, fontsize=8, loc="lower left")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def say(args: argparse.Namespace, text: str) -> None:
    if args.progress:
        print(text, flush=True)


def options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/social"), help="folder for the results"
    )
    parser.add_argument("--model", type=Path, help="a model to test, in the place of learning")
    parser.add_argument("--seed", type=int, default=0, help="of data, training and particles")
    parser.add_argument("--groups", type=int, default=160, help=f"to learn from, at least {BATCH}")
    parser.add_argument("--test-groups", type=int, default=10)
    parser.add_argument("--people", type=int, default=50, help="in each group of the test")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--particles", type=int, default=60, help="while learning")
    parser.add_argument("--test-particles", type=int, default=1000)
    parser.add_argument("--quiet", dest="progress", action="store_false")
    args = parser.parse_args(argv)
    if args.groups < BATCH:
        parser.error(f"--groups: a batch takes {BATCH} groups")
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = options(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    record = experiment(args)
    (args.out / "results.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    draw(record, args.out / "smokers.png")
    print(tables(record))
    print(f"mean error of the network's chance of stress: {record['strain']:.3f}")
    print(f"mean difference to beliefs by a quarter of the particles: {record['particles']:.4f}")
    say(args, f"written to {args.out}")


if __name__ == "__main__":
    main()
