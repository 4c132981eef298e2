"""The command line: `nesymm check`, `nesymm show`, `nesymm query` and `nesymm filter`.

Everything of nesymm is imported inside the commands, so that `nesymm --help` is fast.
Exit codes: 0 all is well, 2 a mistake in a program or on the command line, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nesymm.errors import Diagnostic, NesymmError, ProgramError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from nesymm.compiler.step import InputDecl, ObservationDecl, StepProgram
    from nesymm.language.program import CheckedProgram
    from nesymm.language.terms import Program, Term

app = typer.Typer(
    name="nesymm",
    help="Relational neurosymbolic Markov models: check, show, query and filter.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="A program (.nsl or .pl) and its extensions."),
]
Constants = Annotated[
    list[str],
    typer.Option("--const", metavar="NAME=VALUE", help="Replace a constant: --const n=15."),
]
Particles = Annotated[
    int | None,
    typer.Option(
        min=1, max=10**8, help="With time: particles, where it is not exact (1,000 unless said)."
    ),
]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="The seed of what is sampled.")]
Networks = Annotated[
    str | None,
    typer.Option(metavar="MODULE:OBJECT", help="A dictionary of networks by name."),
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
    with _reporting(_json_mistakes if json else _print_mistakes):
        checked, step = _compile(files, const)
        summary = _summary(files, checked, step) | {"changed": list(_constants(const))}
        if json:
            _print_json(summary)
        else:
            _print_summary(summary)


@app.command()
def show(
    files: Files,
    const: Constants = [],  # noqa: B006
    graph: Annotated[
        Path | None, typer.Option(metavar="OUT.svg", help="Draw the graphical model to a file.")
    ] = None,
    unroll: Annotated[
        int, typer.Option(min=1, max=20, help="The number of steps in the drawing.")
    ] = 3,
) -> None:
    """Print the compiled program: one transition, as text."""
    with _reporting(_print_mistakes):
        if graph is not None and graph.suffix.lower() != ".svg":
            raise NesymmError(
                f"cannot draw to `{graph}`: the drawing is SVG, so name it `{graph.stem}.svg`"
            )
        _, step = _compile(files, const)
        _print_step(step)
        if graph is not None:
            _draw(step, files[0].stem, graph, unroll)


@app.command()
def query(
    files: Files,
    const: Constants = [],  # noqa: B006
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    horizon: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=10**6,
            metavar="T",
            help="With time: the last step. Otherwise the last one that the program speaks of.",
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
            help="Without time: samples, where something has no closed form (10,000 unless said).",
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
    with _reporting(_json_mistakes if json else _print_mistakes):
        from nesymm.answers import answer, rows

        programs = _read(files)
        constants = _constants(const)
        result = answer(programs, constants, networks, method, samples, particles, seed, horizon)
        reason = result.pop("reason")
        if json:
            _print_json(result)
            return
        found = rows(result)
        width = max((len(name) for name, _ in found), default=0)
        _print(*(_text(f"{name:>{width}}:  {value}") for name, value in found))
        typer.echo(f"({result['method']}: {reason})", err=True)


@app.command("filter")
def filter_(
    files: Files,
    data: Annotated[
        Path,
        typer.Option(
            metavar="DATA.npz",
            help="Arrays named as the inputs and observations, with axes (batch, time, …).",
        ),
    ],
    const: Constants = [],  # noqa: B006
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    method: Annotated[
        str,
        typer.Option(help="How to compute: auto, exact, rao-blackwellised, bootstrap or paper."),
    ] = "auto",
    particles: Particles = None,
    seed: Seed = 0,
    horizon: Annotated[
        int | None,
        typer.Option(min=0, max=10**6, metavar="T", help="The last step, if no array says it."),
    ] = None,
    networks: Networks = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT.png", help="Draw the answers over time to a file.")
    ] = None,
) -> None:
    """Follow sequences of data: the probabilities of the queries at each step.

    DATA.npz holds one array for each input and observation that `nesymm check` lists. NaN is
    a missing entry. Where the sequences differ in length, they are padded to the longest, and
    an array called `length` says how many steps each has.

    A query at every step (rain@t) is given the evidence up to that step, a query about one
    step (rain@2, rain@T) all evidence of its sequence. A sequence that fails does not stop the
    others; if all fail, the exit code is 2.
    """
    with _reporting(_json_mistakes if json else _print_mistakes):
        from nesymm.sequences import filter_file

        if plot is not None:
            from nesymm.sequence_plots import refuse_unwritable

            refuse_unwritable(plot)
        programs = _read(files)
        found = filter_file(
            programs, _constants(const), networks, data, method, particles, seed, horizon
        )
        if json:
            _print_json(found.as_json())
        else:
            from nesymm.sequence_tables import tables

            _print(*tables(found))
            typer.echo(f"({found.method}: {found.reason})", err=True)
        if plot is not None:
            from nesymm.sequence_plots import save_plot

            save_plot(found, files[0].stem, plot)
            typer.echo(f"wrote {plot}", err=True)
        failed = found.failed()
        if failed:
            typer.echo(failed, err=True)
        if all(s.error is not None for s in found.sequences):
            raise typer.Exit(2)


# ---------------------------------------------------------------- reading and compiling


def _compile(files: Sequence[Path], const: Sequence[str]) -> tuple[CheckedProgram, StepProgram]:
    from nesymm.compiler.ground import ground
    from nesymm.language.check import check as check_programs

    constants = _constants(const)
    checked = check_programs(_read(files), constants)
    return checked, ground(checked)


def _read(files: Sequence[Path]) -> list[Program]:
    """Parse all files; report the mistakes of all of them."""
    from nesymm.language.parser import read

    programs: list[Program] = []
    mistakes: list[Diagnostic] = []
    for file in files:
        try:
            programs.append(read(file))
        except ProgramError as error:
            mistakes += error.diagnostics
    if mistakes:
        raise ProgramError(*mistakes)
    return programs


def _constants(texts: Sequence[str]) -> dict[str, Term]:
    from nesymm.language.parser import parse_term
    from nesymm.language.terms import variables

    found: dict[str, Term] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (equals and value and name.isidentifier()):
            raise NesymmError(
                f"`--const {text}` is not a constant: write --const NAME=VALUE, for example "
                "--const n=15, --const name=imp or --const xs=[1,2]"
            )
        if name in found:
            raise NesymmError(f"the constant {name} is given twice")
        found[name] = parse_term(value, f"--const {name}")
        unbound = next(variables(found[name]), None)
        if unbound is not None:
            raise NesymmError(
                f"`--const {text}`: {unbound.name} is a variable, and a constant has a value; "
                "names of things start with a small letter"
            )
    return found


def _draw(step: StepProgram, title: str, path: Path, steps: int) -> None:
    from nesymm.draw import both_svg
    from nesymm.graph import graph_of

    svg = both_svg(graph_of(step, title), steps)
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise NesymmError(f"cannot write `{path}`: {error.strerror}") from None
    typer.echo(f"wrote {path}", err=True)


# ---------------------------------------------------------------- mistakes


@contextmanager
def _reporting(report: Callable[[NesymmError], None]) -> Iterator[None]:
    """Run a command; turn our own errors, and only those, into messages."""
    try:
        yield
        sys.stdout.flush()
    except NesymmError as error:
        report(error)
        raise typer.Exit(2) from None
    except BrokenPipeError:
        # Whoever reads our output has seen enough. The interpreter flushes once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


def _print_mistakes(error: NesymmError) -> None:
    if not isinstance(error, ProgramError):
        typer.echo(f"error: {error}", err=True)
        return
    typer.echo("\n\n".join(d.render() for d in error.diagnostics), err=True)
    count = len(error.diagnostics)
    if count > 1:
        typer.echo(f"\n{count} mistakes", err=True)


def _json_mistakes(error: NesymmError) -> None:
    found = error.diagnostics if isinstance(error, ProgramError) else ()
    rows = [_json_diagnostic(d) for d in found] or [{"code": None, "message": str(error)}]
    _print_json({"ok": False, "diagnostics": rows})


def _json_diagnostic(diagnostic: Diagnostic) -> dict[str, Any]:
    span = diagnostic.span
    row: dict[str, Any] = {"code": diagnostic.code, "message": diagnostic.message}
    if span is not None:
        end_line, end_column = span.source.position(span.end)
        row |= {"file": span.source.name, "line": span.line, "column": span.column}
        row |= {"end_line": end_line, "end_column": end_column}
    return row | {"notes": list(diagnostic.notes), "help": diagnostic.cure}


# ---------------------------------------------------------------- what a program needs


def _summary(files: Sequence[Path], checked: CheckedProgram, step: StepProgram) -> dict[str, Any]:
    """What one must know to use a program."""
    from nesymm.compiler.expr import leaves
    from nesymm.language.program import Choice

    used = {node.data[0] for node in leaves(step.roots(), "neural")}
    heads = [
        atom
        for c in checked.clauses
        for atom in ([head for _, head in c.options] if isinstance(c, Choice) else [c.head])
    ]
    return {
        "ok": True,
        "files": [str(file) for file in files],
        "temporal": step.temporal,
        "clauses": len(checked.clauses),
        "predicates": list(dict.fromkeys(str(atom.pred) for atom in heads)),
        "nodes": len(step.nodes()),
        "constants": {name: _plain(value) for name, value in checked.constants.items()},
        "inputs": [
            {"name": i.name, "type": _input_type(i), "per": "step" if i.timed else "sequence"}
            for i in step.inputs
        ],
        "networks": [
            {"name": name, "outputs": shape and list(shape), "used": name in used}
            for name, shape in step.networks
        ],
        "parameters": [
            {
                "name": p.name,
                "constraint": p.constraint,
                "shape": [a.size for a in p.axes],
                "initial": p.initial,
            }
            for p in step.parameters
        ],
        "variables": [
            {
                "name": v.name,
                "family": v.family,
                "shape": [a.size for a in v.axes],
                "values": None if v.support is None else len(v.support),
                "static": v.static,
            }
            for v in step.variables
        ],
        "state": [
            {
                "name": s.name,
                "shape": [a.size for a in s.axes],
                "types": [str(t) for t in s.fields],
                "deterministic": s.deterministic,
            }
            for s in step.slots
        ],
        "observations": [
            {
                "name": o.name,
                "when": None if o.when is None else str(o.when),
                "shape": [a.size for a in o.axes],
                "type": _observed_type(o),
                "value": None if o.value is None else _plain(o.value),
                "from": "data" if o.value is None else "program",
            }
            for o in step.observations
        ],
        "queries": list(dict.fromkeys(q.name for q in step.queries)),
    }


def _input_type(given: InputDecl) -> str:
    return "tensor" if given.tensor else ", ".join(map(str, given.fields))


def _observed_type(observation: ObservationDecl) -> str:
    if not observation.is_value:
        return "bool"
    columns = zip(*(branch.values for branch in observation.branches), strict=True)
    return ", ".join(" or ".join(dict.fromkeys(str(v.type) for v in c)) for c in columns)


def _plain(value: Any) -> Any:
    """A value as JSON has it; terms as text."""
    from nesymm.language.pprint import pprint
    from nesymm.language.terms import ListTerm, Num, Str, Struct, Var

    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Var | Num | Str | Struct | ListTerm):
        return pprint(value)
    return value if isinstance(value, bool | int | float | str) else str(value)


def _print_summary(summary: dict[str, Any]) -> None:
    from rich.table import Table

    titles = ("", "name", "type", "given")
    rows = list(_rows(summary))
    filled = [i for i in range(len(titles)) if any(row[i] for row in rows)]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for i in filled:
        table.add_column(titles[i], no_wrap=True, header_style="dim")
    for row in rows:
        table.add_row(*(_text(row[i]) for i in filled))
    size = _count(summary["clauses"], "clause")
    size += f" for {_count(len(summary['predicates']), 'predicate')}"
    nodes = _count(summary["nodes"], "node") + (" per step" if summary["temporal"] else "")
    head = [*(f"{file}: no mistakes" for file in summary["files"]), f"{size}; compiled to {nodes}"]
    _print(*map(_text, head))
    if rows:
        _print("", table)


def _rows(summary: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    from nesymm.compiler.show import outputs

    for name, value in summary["constants"].items():
        changed = name in summary["changed"]
        yield "constant", name, _written(value), "with --const" if changed else "in the program"
    for i in summary["inputs"]:
        yield "input", i["name"], i["type"], f"per {i['per']}"
    for n in summary["networks"]:
        yield "network", n["name"], outputs(n["outputs"]), "" if n["used"] else "not used"
    for p in summary["parameters"]:
        start = "learned" if p["initial"] is None else f"learned, starts at {p['initial']:g}"
        yield "parameter", p["name"] + _shape(p["shape"]), p["constraint"], start
    for o in summary["observations"]:
        name = o["name"] + _shape(o["shape"]) + (o["when"] or "")
        value = o["value"]
        given = "data" if o["from"] == "data" else f"in the program: {_written(value)}"
        yield "observation", name, o["type"], given
    for query in summary["queries"]:
        yield "query", query, "", ""


def _shape(sizes: Sequence[int]) -> str:
    return f"[{', '.join(map(str, sizes))}]" if sizes else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _written(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_written, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---------------------------------------------------------------- printing


def _print_json(value: Any) -> None:
    from json import dumps

    typer.echo(dumps(value, indent=2, ensure_ascii=False))


def _print_step(step: StepProgram) -> None:
    """As `show` prints it; a terminal gets bold headings."""
    lines = str(step).splitlines()
    _print(*(_text(line, "" if line.startswith(" ") else "bold") for line in lines))


def _print(*parts: RenderableType) -> None:
    """In colour on a terminal. Elsewhere plain, as wide as it is, without trailing blanks."""
    from io import StringIO

    from rich.console import Console

    if sys.stdout.isatty():
        console = Console(highlight=False)
        for part in parts:
            console.print(part, soft_wrap=True)
        return
    plain = Console(file=StringIO(), highlight=False, width=10_000, color_system=None)
    for part in parts:
        plain.print(part, soft_wrap=True)
    text = plain.file.getvalue()  # type: ignore[attr-defined]
    typer.echo("\n".join(line.rstrip() for line in text.splitlines()))


def _text(text: str, style: str = "") -> Text:
    """Text in which `[E]` is not markup."""
    from rich.text import Text

    return Text(text, style)


if __name__ == "__main__":
    main()
