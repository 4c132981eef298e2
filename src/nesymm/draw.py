"""Draw a graphical model: with a plate, unrolled over time, or both, laid out by Graphviz.

`dot` places one time step in rows, static nodes above it. The unrolled drawing repeats these
places once per step, and Graphviz leads the edges around the nodes. `plate`, `unrolled` and
`both` give DOT text with positions, which `render` turns into SVG, PNG or PDF.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from html import escape
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from nesymm.errors import NesymmError
from nesymm.ir.graph import Edge, Graph, Kind, Node, exists, is_active, validate

FORMATS = ("svg", "png", "pdf", "dot")

_BLUE, _GREY = "#277DA1", "#A5A5A5"
_KINDS: dict[Kind, tuple[str, str]] = {
    "input": ("input", "#A5A5A566"),
    "variable": ("random variable", "#277DA159"),
    "derived": ("derived", "#277DA11F"),
    "observed": ("observed", "#61B87673"),
    "query": ("query", "#277DA159"),
}
_PAD = 20.0  # between nodes and the box around them
_GAP = 44.0  # between the columns
_WIDE = 1500.0  # the plate stands beside the unrolled drawing if both are narrower than this
_DEFAULTS = """\
graph [fontname="DejaVu Sans Mono", fontsize=14, fontcolor="#757575", labelloc=t, labeljust=l,
  splines=true, esep="+5", outputorder=edgesfirst, ranksep=0.6, nodesep=0.5, pad=0.25]
node [fontname="DejaVu Sans Mono", fontsize=14, fontcolor="#2A2A2A", style=filled, color=none,
  height=0.6]
edge [fontname="DejaVu Sans Mono", fontsize=11, fontcolor="#2A2A2A", color="#2A2A2A",
  arrowsize=0.7, penwidth=1.3]"""


class _Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float

    def moved(self, dx: float, dy: float, pad: float = 0.0) -> _Box:
        left, bottom, right, top = self
        return _Box(left + dx - pad, bottom + dy - pad, right + dx + pad, top + dy + pad)


class _Layout(NamedTuple):
    nodes: dict[str, _Box]
    edges: dict[int, str]  # the curves in the plate
    plate: _Box


def plate(graph: Graph) -> str:
    """Static nodes outside, temporal ones in a box; edges across time are dashed."""
    layout = _layout(graph)
    return _page(graph, layout, _plate(graph, layout))


def unrolled(graph: Graph, steps: int = 3) -> str:
    """Static nodes once, temporal ones in one column per time step."""
    layout = _layout(graph)
    return _page(graph, layout, _columns(graph, layout, steps))


def both(graph: Graph, steps: int = 3) -> str:
    """The plate, and the unrolled model beside or below it if anything is temporal."""
    if not any(node.temporal for node in graph.nodes):
        return plate(graph)
    layout = _layout(graph)
    whole = _around([layout.plate, *layout.nodes.values()])
    inner = _slice(graph, layout)
    columns = steps * (inner.right - inner.left + _GAP)
    dx, dy = whole.right - inner.left + 2 * _GAP, 0.0
    if whole.right - whole.left + columns > _WIDE:
        dx, dy = whole.left - inner.left, whole.bottom - whole.top - 2 * _GAP
    lines = [*_plate(graph, layout), *_columns(graph, layout, steps, dx, dy)]
    return _page(graph, layout, lines, dy)


def render(dot: str, form: str) -> bytes:
    """DOT text with positions as SVG, PNG or PDF; the text itself for `dot`."""
    return dot.encode() if form == "dot" else _graphviz(dot, form, "nop2")


# ---------------------------------------------------------------- Graphviz

_RUN = """\
import sys, pygraphviz
text = sys.stdin.buffer.read().decode()
drawn = pygraphviz.AGraph(string=text).draw(format=sys.argv[1], prog=sys.argv[2])
sys.stdout.buffer.write(drawn)"""


def _graphviz(dot: str, form: str, engine: str) -> bytes:
    """Run Graphviz, in a process of its own: it is C, and writes warnings to the terminal.

    The font is the one that comes with matplotlib, so a drawing is the same on all machines.
    """
    from matplotlib import get_data_path

    if find_spec("pygraphviz") is None:
        raise NesymmError(
            "drawing a model needs the package pygraphviz, which is not installed\n"
            "  = help: `pip install 'nesymm[draw]'`"
        )
    with TemporaryDirectory() as folder:
        fonts = Path(folder, "fonts.conf")
        fonts.write_text(
            f"<fontconfig><dir>{escape(get_data_path())}/fonts/ttf</dir>"
            f"<cachedir>{escape(folder)}</cachedir></fontconfig>",
            encoding="utf-8",
        )
        done = subprocess.run(
            [sys.executable, "-c", _RUN, form, engine],
            input=dot.encode(),
            capture_output=True,
            env={**os.environ, "FONTCONFIG_FILE": str(fonts)},
        )
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise NesymmError(f"Graphviz cannot draw the model: {why}")
    return done.stdout


def _layout(graph: Graph) -> _Layout:
    """One time step in rows, with static nodes above the temporal ones (or below)."""
    validate(graph)
    ids = _ids(graph)
    late = {node.id for node in graph.nodes if node.temporal}
    while more := {e.target for e in graph.edges if e.source in late} - late:
        late |= more
    bands: list[list[str]] = [[], [], []]
    lines = ["newrank=true"]
    for node in graph.nodes:
        bands[1 if node.temporal else 2 if node.id in late else 0].append(ids[node.id])
        lines.append(_node(ids[node.id], node, "t" if node.temporal else ""))
    lines.append(f"subgraph cluster_plate {{ graph [margin={_PAD}]; {' '.join(bands[1])} }}")
    for number, (above, below) in enumerate(pairwise(band for band in bands if band)):
        lines.append(f"between{number} [style=invis, shape=point, width=0, height=0]")
        lines.append(
            f"{{ {' '.join(above)} }} -> between{number} -> {{ {' '.join(below)} }} "
            "[style=invis, weight=0]"
        )
    for number, edge in enumerate(graph.edges):
        style = f"id={number}" + (", constraint=false" if edge.across else "")
        if edge.across or edge.source != edge.target:
            lines.append(_edge(ids[edge.source], ids[edge.target], edge, _since(edge), style))
    found = json.loads(_graphviz(_digraph("", lines), "json0", "dot"))
    names = {short: name for name, short in ids.items()}
    layout = _Layout({}, {}, _Box(0, 0, 0, 0))
    for part in found.get("objects", ()):
        if part["name"] in names:
            x, y = (float(number) for number in part["pos"].split(","))
            width, height = 72 * float(part["width"]), 72 * float(part["height"])
            box = _Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            layout.nodes[names[part["name"]]] = box
        elif "bb" in part and bands[1]:
            layout = layout._replace(plate=_Box(*(float(n) for n in part["bb"].split(","))))
    for part in found.get("edges", ()):
        if "id" in part:
            layout.edges[int(part["id"])] = part["pos"]
    return layout


# ---------------------------------------------------------------- the two drawings


def _plate(graph: Graph, layout: _Layout) -> Iterator[str]:
    ids = _ids(graph)
    members = [ids[node.id] for node in graph.nodes if node.temporal]
    if members:
        label = (
            f'label="0:T", fontsize=11, lp="{layout.plate.right - 18},{layout.plate.bottom + 9}"'
        )
        style = f'{label}, style=rounded, color="{_GREY}", penwidth=2'
        yield _cluster("plate", layout.plate, members, style)
    for node in graph.nodes:
        yield _node(ids[node.id], node, "t" if node.temporal else "", layout.nodes[node.id])
    for number, curve in sorted(layout.edges.items()):
        edge = graph.edges[number]
        style = f'pos="{curve}"' + (", style=dashed" if edge.across else "")
        yield _edge(ids[edge.source], ids[edge.target], edge, _since(edge), style)


def _columns(
    graph: Graph, layout: _Layout, steps: int, dx: float = 0.0, dy: float = 0.0
) -> Iterator[str]:
    if steps < 1:
        raise ValueError(f"cannot unroll over {steps} steps: at least 1 is needed")
    ids = _ids(graph)
    nodes = {node.id: node for node in graph.nodes}
    temporal = [node for node in graph.nodes if node.temporal]

    def at(name: str, time: int) -> str:
        return f"{ids[name]}_{time if nodes[name].temporal else 'all'}"

    def there(name: str, time: int) -> bool:
        return not nodes[name].temporal or exists(nodes[name], time)

    inner = _slice(graph, layout)
    width = inner.right - inner.left + _GAP if temporal else 0.0
    for time in range(steps if temporal else 0):
        members = [at(node.id, time) for node in temporal if exists(node, time)]
        style = f'label="", style="rounded,filled", color=none, fillcolor="{_GREY}1A"'
        yield _cluster(f"column{time}", inner.moved(dx + time * width, dy), members, style)
    for node in graph.nodes:
        for time in range(steps) if node.temporal else (0,):
            if there(node.id, time):
                shift = (time if node.temporal else (steps - 1) / 2) * width
                place = layout.nodes[node.id].moved(dx + shift, dy)
                yield _node(at(node.id, time), node, str(time) if node.temporal else "", place)
    rows: dict[float, str] = {}  # those with an edge that leaves the last column
    for number in sorted(layout.edges):
        edge = graph.edges[number]
        moving = nodes[edge.source].temporal or nodes[edge.target].temporal
        for time in range(steps + max(edge.lag, edge.latched)) if moving else (0,):
            start = 0 if edge.latched else time - edge.lag
            if moving and not is_active(edge, time):
                continue
            if not there(edge.source, start) or not there(edge.target, time):
                continue
            if time < steps:
                yield _edge(at(edge.source, start), at(edge.target, time), edge)
            elif start == steps - 1:
                dots = rows.setdefault(layout.nodes[edge.target].bottom, f"later{len(rows)}")
                yield _edge(at(edge.source, start), dots, edge)
    if temporal and not rows:
        rows[layout.nodes[temporal[0].id].bottom] = "later0"
    for bottom, name in rows.items():
        left = inner.left + steps * width
        dots = _at(_Box(left, bottom, left + 22, bottom + 43).moved(dx, dy))
        yield f'{name} [{dots}, class=later, shape=plaintext, style="", label="…", width=0.3]'


def _slice(graph: Graph, layout: _Layout) -> _Box:
    """The box around one time step."""
    boxes = [layout.nodes[node.id] for node in graph.nodes if node.temporal]
    return _around(boxes).moved(0, 0, _PAD) if boxes else layout.plate


def _since(edge: Edge) -> str:
    return "from t=0" if edge.latched else f"t−{edge.lag}" if edge.lag > 1 else ""


# ---------------------------------------------------------------- DOT text


def _page(graph: Graph, layout: _Layout, lines: Iterable[str], lowest: float = 0.0) -> str:
    """The drawing, and below it what the kinds of nodes that occur look like."""
    kinds = {node.kind for node in graph.nodes}
    if any(node.ringed for node in graph.nodes):
        kinds.add("query")
    legend = []
    left, bottom, *_ = _around([layout.plate, *layout.nodes.values()])
    for kind, (meaning, _) in _KINDS.items():
        if kind in kinds:
            right = left + 7 * len(meaning) + 28
            box = _Box(left, bottom + lowest - 90, right, bottom + lowest - 66)
            sample = _node(f"legend_{kind}", Node("", meaning, kind), "", box, "legend ")
            legend.append(
                sample.replace(
                    "[",
                    f"[fontsize=10, fixedsize=true, width={(right - left) / 72:.2f}, height=0.33, ",
                    1,
                )
            )
            left = right + 28
    if any(edge.lag == 1 for edge in graph.edges):
        place = _at(_Box(left, bottom + lowest - 90, left + 100, bottom + lowest - 66))
        style = f'class=legend, shape=plaintext, style="", fontsize=10, fontcolor="{_BLUE}"'
        legend.append(f'legend_lag [{place}, {style}, label="dashed: from t−1", height=0]')
    return _digraph(graph.title, [*lines, *legend])


def _digraph(title: str, lines: Iterable[str]) -> str:
    name = _clean(title).replace("\\", "\\\\").replace('"', '\\"')
    head = f'digraph "{name}" {{\n{_DEFAULTS}\nlabel="{name}"'
    return "\n".join([head, *lines, "}\n"])


def _ids(graph: Graph) -> dict[str, str]:
    return {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}


def _around(boxes: Iterable[_Box]) -> _Box:
    left, bottom, right, top = zip(*boxes, strict=True)
    return _Box(min(left), min(bottom), max(right), max(top))


def _at(box: _Box) -> str:
    return f'pos="{(box.left + box.right) / 2:.1f},{(box.bottom + box.top) / 2:.1f}"'


def _clean(text: str) -> str:
    """With what XML cannot hold replaced."""

    def allowed(char: str) -> bool:
        code = ord(char)
        return char in "\t\n\r" or (code >= 0x20 and not 0xD800 <= code <= 0xDFFF and code < 0xFFFE)

    return "".join(c if allowed(c) or ord(c) > 0xFFFF else "\ufffd" for c in text)


def _small(size: int, text: str) -> str:
    return f'<font point-size="{size}">{escape(_clean(text))}</font>'


def _cluster(name: str, box: _Box, members: Iterable[str], style: str) -> str:
    bb = ",".join(f"{side:.1f}" for side in box)
    kind = name.rstrip("0123456789")
    head = f'graph [bb="{bb}", class={kind}, {style}]'
    return f"subgraph cluster_{name} {{ {head}; {' '.join(members)} }}"


def _node(name: str, node: Node, subscript: str, box: _Box | None = None, role: str = "") -> str:
    label = escape(_clean(node.label)) + (_small(10, subscript) if subscript else "")
    parts = [_at(box)] if box else []
    parts += [f'class="{role}{node.kind}"', f'label=<{label}>, fillcolor="{_KINDS[node.kind][1]}"']
    if node.kind == "input":
        parts.append('shape=box, style="filled,rounded"')
    if node.ringed:
        parts.append(f'peripheries=2, color="{_BLUE}"')
    return f"{name} [{', '.join(parts)}]"


def _edge(source: str, target: str, edge: Edge, when: str = "", style: str = "") -> str:
    """What is written at an edge is the network, and when the edge is there."""
    if not when and edge.last == edge.first:
        when = f"t={edge.first}"
    pieces = ["φ" + _small(9, edge.label)] if edge.label else []
    pieces += [when] if when else []
    parts = [f"xlabel=<{' '.join(pieces)}>"] if pieces else []
    if edge.across:
        parts.append(f'color="{_BLUE}", fontcolor="{_BLUE}"')
    parts += [style] if style else []
    return f"{source} -> {target} [{', '.join(parts)}]"
