"""`nesymm check`: the mistakes of a program, or what it needs and what it asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from nesymm.cli.output import json_diagnostic, print_json, print_notes, print_parts, reporting, text
from nesymm.cli.reading import compile_files, read_constants
from nesymm.ir.expr import leaves
from nesymm.ir.show import outputs
from nesymm.ir.step import ObservationDecl, StepProgram
from nesymm.language.hints import notes
from nesymm.language.printer import pprint
from nesymm.language.program import CheckedProgram
from nesymm.language.terms import ListTerm, Num, Str, Struct, Var
from nesymm.language.values import heads


def check(files: Sequence[Path], const: Sequence[str], json: bool) -> None:
    with reporting(json):
        checked, step = compile_files(files, const)
        summary = _summary(files, checked, step) | {"changed": list(read_constants(const))}
        found = notes(checked)
        if json:
            print_json(summary | {"notes": [json_diagnostic(n) for n in found]})
        else:
            _print_summary(summary)
            print_notes(*(n.render() for n in found))


def _summary(files: Sequence[Path], checked: CheckedProgram, step: StepProgram) -> dict[str, Any]:
    """What one must know to use a program."""
    used = {node.data[0] for node in leaves(step.roots(), "neural")}
    return {
        "ok": True,
        "files": [str(file) for file in files],
        "temporal": step.temporal,
        "clauses": len(checked.clauses),
        "predicates": list(
            dict.fromkeys(str(atom.pred) for c in checked.clauses for atom in heads(c))
        ),
        "nodes": len(step.nodes()),
        "constants": {name: _plain(value) for name, value in checked.constants.items()},
        "inputs": [
            {"name": i.name, "type": i.shown, "per": "step" if i.timed else "sequence"}
            for i in step.inputs
        ],
        "networks": [
            {"name": n.name, "outputs": n.outputs and list(n.outputs), "used": n.name in used}
            for n in step.networks
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
        **_random_parts(step),
        "queries": list(dict.fromkeys(q.name for q in step.queries)),
    }


def _random_parts(step: StepProgram) -> dict[str, Any]:
    """What is drawn, carried from step to step, and observed."""
    return {
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
    }


def _observed_type(observation: ObservationDecl) -> str:
    if not observation.is_value:
        return "bool"
    columns = zip(*(branch.values for branch in observation.branches), strict=True)
    return ", ".join(" or ".join(dict.fromkeys(str(v.type) for v in c)) for c in columns)


def _plain(value: Any) -> Any:
    """A value as JSON has it; terms as text."""

    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Var | Num | Str | Struct | ListTerm):
        return pprint(value)
    return value if isinstance(value, bool | int | float | str) else str(value)


def _print_summary(summary: dict[str, Any]) -> None:

    titles = ("", "name", "type", "given")
    rows = list(_rows(summary))
    filled = [i for i in range(len(titles)) if any(row[i] for row in rows)]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for i in filled:
        table.add_column(titles[i], no_wrap=True, header_style="dim")
    for row in rows:
        table.add_row(*(text(row[i]) for i in filled))
    size = _count(summary["clauses"], "clause")
    size += f" for {_count(len(summary['predicates']), 'predicate')}"
    nodes = _count(summary["nodes"], "node") + (" per step" if summary["temporal"] else "")
    head = [*(f"{file}: no mistakes" for file in summary["files"]), f"{size}; compiled to {nodes}"]
    print_parts(*map(text, head))
    if rows:
        print_parts("", table)


def _rows(summary: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:

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
