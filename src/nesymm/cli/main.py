"""The command line: which commands there are, and how they are called.

What they do is in `nesymm.cli`, imported when a command runs, so that `nesymm --help` is
fast. Exit codes: 0 all is well, 2 a mistake in a program, a configuration, data or on the
command line, 3 training stopped (the loss is not finite), 130 interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="nesymm",
    help="Relational neurosymbolic Markov models: check, query, filter, train and generate.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="A program (.nsl or .pl) or a model file (.safetensors), then its extensions.",
    ),
]
Constants = Annotated[
    list[str],
    typer.Option("--const", metavar="NAME=VALUE", help="Replace a constant: --const n=15."),
]
Particles = Annotated[
    int | None,
    typer.Option(
        min=1, max=10**8, help="With time: particles, where it is not exact (1,000 by default)."
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The seed of what is sampled.")]
Networks = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:OBJECT",
        help="A dictionary of networks by name; for a model file, the modules that it may import.",
    ),
]
Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="A model file of `nesymm train` (.safetensors), or a program."
    ),
]
Extensions = Annotated[
    list[Path],
    typer.Option(
        "--extend", metavar="FILE.nsl", help="Add the rules of a file; nothing is learnt."
    ),
]
Method = Annotated[
    str,
    typer.Option(help="How to compute: auto, exact, rao-blackwellised, bootstrap or paper."),
]
Steps = Annotated[
    int | None,
    typer.Option(min=1, max=10**6, metavar="N", help="How many steps, if no array says it."),
]


def main() -> None:
    """The entry point."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # a terminal that cannot show θ must not stop us
            reconfigure(errors="replace")
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"nesymm {version('nesymm')}")
        except PackageNotFoundError:
            typer.echo("nesymm (not installed)")
        raise typer.Exit


@app.callback()
def _global(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


@app.command()
def check(
    files: Files,
    const: Constants = [],  # noqa: B006
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Report the mistakes of a program, or what it needs and what it asks."""
    from nesymm.cli.check import check

    check(files, const, json)


@app.command()
def show(
    files: Files,
    const: Constants = [],  # noqa: B006
    graph: Annotated[
        Path | None,
        typer.Option(metavar="OUT.svg", help="Draw the graphical model (svg, png, pdf, dot)."),
    ] = None,
    unroll: Annotated[
        int, typer.Option(min=1, max=20, help="The number of steps in the drawing.")
    ] = 3,
) -> None:
    """Print the compiled program: one transition, as text."""
    from nesymm.cli.show import show

    show(files, const, graph, unroll)


@app.command()
def query(
    files: Files,
    const: Constants = [],  # noqa: B006
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10**6,
            metavar="N",
            help="With time: how many steps. Otherwise those that the program speaks of.",
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="How to compute: auto, enumerate or circuit; with time: auto, exact, "
            "rao-blackwellised, bootstrap or paper."
        ),
    ] = "auto",
    samples: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Without time: samples, where something has no closed form (10,000 by default).",
        ),
    ] = None,
    particles: Particles = None,
    seed: Seed = 0,
    networks: Networks = None,
) -> None:
    """Answer the queries of a program, given its evidence.

    With time, a query about one step (rain@2, rain@T) is given all evidence, also that of
    later steps. A query at every step (rain@t, rain@(1:T)) has one answer per step, rain@0,
    rain@1 and so on, each given the evidence up to that step only. Where both are asked for
    a step, the first is shown.

    What is not exact has a standard error: particles are shared out among 8 independent runs,
    and the error is how much these differ. With fewer than 80 particles there is one run and
    no standard error.
    """
    from nesymm.cli.query import query

    query(files, const, json, steps, method, samples, particles, seed, networks)


@app.command("filter")
def filter_(
    files: Files,
    data: Annotated[
        Path,
        typer.Option(
            metavar="DATA",
            help="Inputs and observations: .npz, .csv, .parquet or .json, or a folder.",
        ),
    ],
    const: Constants = [],  # noqa: B006
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    method: Method = "auto",
    particles: Particles = None,
    seed: Seed = 0,
    steps: Steps = None,
    networks: Networks = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="OUT.png", help="Draw the query probabilities over time to a file."),
    ] = None,
) -> None:
    """Follow sequences of data: the probabilities of the queries at each step.

    DATA.npz or DATA.json holds one array for each input and observation that `nesymm check` lists,
    with axes (batch, time, …). NaN is a missing entry. Where the sequences differ in length, they
    are padded to the longest, and an array called `length` says how many steps each has.

    DATA.csv or DATA.parquet has the columns sequence and time, and one for each input and
    observation. What has keys is a table of its own, called after its predicate, in a folder. A
    folder may also hold ProbLog facts, one file (.pl) for each sequence.

    A query at every step (rain@t) is given the evidence up to that step, a query about one
    step (rain@2, rain@T) all evidence of its sequence. A sequence that fails does not stop the
    others; if all fail, the exit code is 2.
    """
    from nesymm.cli.filter import filter_data

    filter_data(files, data, const, json, method, particles, seed, steps, networks, plot)


@app.command()
def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="What to train, and how.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume from the last checkpoint of an earlier run.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**32 - 1, help="Instead of [training] seed.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Instead of [training] out.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and no progress.")] = False,
) -> None:
    """Learn the networks and parameters of a program from data.

    CONFIG.toml has these sections; paths are relative to it.

    \b
    [program]             file, extensions
    [program.constants]   values of constants of the program
    [networks.NAME]       kind = "mlp" (inputs, width, depth, scale, one_hot),
                          "conv-encoder" (shape, channels),
                          "conv-decoder" (inputs, channels)
                          or "module:object", a function of a key
    [data]                train, validation: files as for `filter`
    [[objective]]         kind = "log-evidence" (weight)
                          or "query" (query, labels, weight)
    [training]            method, particles, epochs, batch_size, patience, clip, average,
                          steps, seed, out, checkpoints, every, keep
    [training.optimizer]  name (in Optax), learning_rate, schedule = "constant",
                          "linear" or "cosine", further options

    It writes model.safetensors, history.csv, history.json, loss.png and checkpoints. The model
    file has all that `evaluate` and `generate` need. There is a checkpoint after each epoch, and
    with `every` also after so many batches. When interrupted, it prints the command that resumes.
    """
    from nesymm.cli.train import train

    train(config, resume, seed, out, json)


@app.command()
def evaluate(
    model: Model,
    data: Annotated[
        Path, typer.Option(metavar="DATA", help="Sequences as for `filter`, and labels.")
    ],
    const: Constants = [],  # noqa: B006
    extend: Extensions = [],  # noqa: B006
    labels: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=QUERY",
            help="Compare a query with an array of zeros and ones: --labels died=agent_dead@T.",
        ),
    ] = [],  # noqa: B006
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    method: Method = "auto",
    particles: Particles = None,
    seed: Seed = 0,
    steps: Steps = None,
    networks: Networks = None,
) -> None:
    """Measure a model on data: log-evidence, query probabilities, and how well they predict labels.

    Labels are arrays in DATA, one entry per sequence for a query about one step (rain@T),
    one per sequence and step for a query at every step (rain@t); NaN where there is none. The
    scores are accuracy, balanced accuracy, F1 (with the threshold 0.5) and log loss.
    """
    from nesymm.cli.evaluate import evaluate

    evaluate(model, data, const, extend, labels, json, method, particles, seed, steps, networks)


@app.command()
def generate(
    model: Model,
    count: Annotated[
        int, typer.Option(min=1, max=10**6, help="Trajectories of each sequence.")
    ] = 1,
    steps: Steps = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="What is given: inputs, and observations if any."),
    ] = None,
    const: Constants = [],  # noqa: B006
    extend: Extensions = [],  # noqa: B006
    seed: Seed = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT.png", help="Draw the trajectories to a file.")
    ] = None,
    method: Method = "auto",
    particles: Particles = None,
    networks: Networks = None,
) -> None:
    """Draw trajectories: what holds at each step, given all that data and program say.

    Evidence about later steps is obeyed too. Observations that are not given are generated.
    """
    from nesymm.cli.generate import generate

    generate(
        model, count, steps, data, const, extend, seed, json, plot, method, particles, networks
    )
