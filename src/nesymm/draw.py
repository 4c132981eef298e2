"""Draw a model as a graphical model in SVG: with a plate, or unrolled over time.

The layout is layered. Rows come from longest paths; static nodes sit above the temporal
ones. An edge that spans several rows bends in each row between, next to the nodes and never
through them, and the edges of one source share their bends. Rows are ordered to cross few
edges (barycentres, then swaps) and spread out by least squares. The unrolled drawing repeats
the temporal rows of the plate once per step. Everything is deterministic.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from math import hypot, sqrt
from typing import Literal
from unicodedata import east_asian_width

Kind = Literal["variable", "input", "observed", "query", "derived"]


@dataclass(frozen=True)
class Node:
    """A circle (or, for an input, a square). `temporal` nodes exist once per time step."""

    id: str
    label: str
    subscript: str = ""
    kind: Kind = "variable"
    temporal: bool = False


@dataclass(frozen=True)
class Edge:
    """`source` at time t - `lag` is a parent of `target` at time t.

    `label` names the network on the edge. The edge exists for `first` <= t <= `last`, so that
    `first=0, last=0` is an edge of the initial step only.
    """

    source: str
    target: str
    lag: int = 0
    label: str = ""
    first: int = 0
    last: int | None = None


@dataclass(frozen=True)
class Graph:
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    title: str


def plate_svg(graph: Graph) -> str:
    """Static nodes outside, temporal ones in a box; a lagged edge leaves the box and returns."""
    return _document(graph.title, _plate_picture(graph), _legend(graph))


def unrolled_svg(graph: Graph, steps: int = 3) -> str:
    """Static nodes once, temporal ones in one column per time step."""
    return _document(graph.title, _unrolled_picture(graph, steps), _legend(graph))


def both_svg(graph: Graph, steps: int = 3) -> str:
    """The plate and the unrolled model in one drawing; only the former if nothing is temporal."""
    plate = _plate_picture(graph)
    if not any(node.temporal for node in graph.nodes):
        return _document(graph.title, plate, _legend(graph))
    unrolled = _unrolled_picture(graph, steps)
    beside = plate.width + unrolled.width <= 1500
    both = _Picture()
    if beside:
        both.add(plate, -plate.left, -plate.top)
        both.add(unrolled, plate.width + 72 - unrolled.left, -unrolled.top)
    else:
        both.add(plate, (unrolled.width - plate.width) / 2 - plate.left, -plate.top)
        both.add(unrolled, -unrolled.left, plate.height + 48 - unrolled.top)
    return _document(graph.title, both, _legend(graph))


# ---------------------------------------------------------------------------- measures

_FONT = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
_RADIUS = 22.0  # of the smallest circle, and half the height of every node
_GAP = 46.0  # between rows
_PAD = 26.0  # between a plate's border and what is in it
_CHANNEL = 54.0  # between the columns of the unrolled drawing
_INK = "#2A2A2A"
_BLUE = "#277DA1"
_GREEN = "#61b876"
_GREY = "#A5A5A5"
_DARK_GREY = "#757575"

_Point = tuple[float, float]
# The id of a node, its column (-1 if static), and for a bend its row and column.
_Key = tuple[str, int, int, int]


def _text_width(text: str, size: float) -> float:
    cells = sum(2 if east_asian_width(char) in "WF" else 1 for char in text)
    return 0.602 * size * cells


@dataclass
class _Item:
    """A node or, with `node` None, a bend of an edge, at a place in a row."""

    key: _Key
    row: int
    column: int
    node: Node | None = None
    subscript: str = ""
    half: float = 1.0
    x: float = 0.0
    y: float = 0.0

    def border_y(self, dx: float, side: int) -> float:
        """Where the upper (-1) or lower (+1) border is, `dx` beside the centre."""
        if self.node is None or self.node.kind == "input":
            return self.y + side * _RADIUS
        return self.y + side * _RADIUS * sqrt(max(0.0, 1 - (dx / self.half) ** 2))

    def border_x(self, dy: float, side: int) -> float:
        if self.node is None or self.node.kind == "input":
            return self.x + side * self.half
        return self.x + side * self.half * sqrt(max(0.0, 1 - (dy / _RADIUS) ** 2))


def _node_item(node: Node, row: int, column: int, subscript: str) -> _Item:
    text = _text_width(node.label, 14) + _text_width(subscript, 10)
    padding = {"input": 11.0, "query": 16.0}.get(node.kind, 13.0)
    half = max(_RADIUS, text / 2 + padding)
    return _Item((node.id, column, -1, column), row, column, node, subscript, half)


@dataclass
class _Link:
    """An edge without lag: the items it passes from the upper end to the lower one."""

    edge: Edge
    path: list[_Item]
    upwards: bool


@dataclass
class _Layout:
    items: dict[_Key, _Item]
    rows: list[list[_Item]]
    links: list[_Link]
    temporal: range  # the rows of temporal nodes
    columns: int
    width: float = 0.0  # of a column of the unrolled drawing

    def column_span(self, column: int) -> tuple[float, float]:
        left = column * (self.width + 2 * _PAD + _CHANNEL)
        return left - _PAD, left + self.width + _PAD

    def node(self, name: str, column: int) -> _Item:
        return self.items[name, column, -1, column]

    def neighbours(self) -> tuple[dict[_Key, list[_Item]], dict[_Key, list[_Item]]]:
        """The distinct items above and below each item that an edge leads to."""
        pairs = {(a.key, b.key): (a, b) for link in self.links for a, b in pairwise(link.path)}
        above: dict[_Key, list[_Item]] = defaultdict(list)
        below: dict[_Key, list[_Item]] = defaultdict(list)
        for a, b in pairs.values():
            below[a.key].append(b)
            above[b.key].append(a)
        return above, below


# -------------------------------------------------------------------------------- rows


def _validate(graph: Graph) -> None:
    nodes = {node.id: node for node in graph.nodes}
    if len(nodes) < len(graph.nodes):
        raise ValueError("two nodes of the graph have the same id")
    for edge in graph.edges:
        for end in (edge.source, edge.target):
            if end not in nodes:
                raise ValueError(f"an edge mentions {end!r}, which is not a node of the graph")
        if edge.lag < 0:
            raise ValueError(f"the edge to {edge.target!r} has the negative lag {edge.lag}")
        if edge.lag and not (nodes[edge.source].temporal and nodes[edge.target].temporal):
            raise ValueError(
                f"the edge from {edge.source!r} to {edge.target!r} has a lag, "
                "but not both ends are temporal"
            )


def _assign_rows(graph: Graph) -> tuple[dict[str, int], range]:
    """A row for every node: statics, then temporal nodes, then statics that depend on those."""
    parents: dict[str, list[str]] = defaultdict(list)
    children: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        if not edge.lag and edge.source != edge.target:
            parents[edge.target].append(edge.source)
            children[edge.source].append(edge.target)
    late: set[str] = set()
    stack = [node.id for node in graph.nodes if node.temporal]
    while stack:
        for child in children[stack.pop()]:
            if child not in late:
                late.add(child)
                stack.append(child)
    bands = (
        [n.id for n in graph.nodes if not n.temporal and n.id not in late],
        [n.id for n in graph.nodes if n.temporal],
        [n.id for n in graph.nodes if not n.temporal and n.id in late],
    )
    rows: dict[str, int] = {}
    temporal = range(0)
    start = 0
    for number, band in enumerate(bands):
        depth = _layers(band, parents, children)
        height = 1 + max(depth.values(), default=-1)
        if number == 1:
            temporal = range(start, start + height)
        rows.update((name, start + level) for name, level in depth.items())
        start += height
    return rows, temporal


def _layers(
    band: list[str], parents: dict[str, list[str]], children: dict[str, list[str]]
) -> dict[str, int]:
    """Longest-path layers. A cycle is cut at one node; the edge that closes it points up."""
    inside = set(band)
    depth: dict[str, int] = {}
    waiting = list(band)
    while waiting:

        def unplaced(name: str) -> list[str]:
            return [p for p in parents[name] if p in inside and p not in depth]

        name = next((n for n in waiting if not unplaced(n)), None)
        if name is None:
            name, seen = waiting[0], set[str]()
            while name not in seen:
                seen.add(name)
                name = unplaced(name)[0]
        level = 1 + max((depth[p] for p in parents[name] if p in depth), default=-1)
        taken = {depth[c] for c in children[name] if c in depth}
        while level in taken:
            level += 1
        depth[name] = level
        waiting.remove(name)

    height = 1 + max(depth.values(), default=-1)
    for name in reversed(list(depth)):  # shorten edges: sources go down to their children
        if not children[name] or len(parents[name]) >= len(children[name]):
            continue
        inner = [depth[c] for c in children[name] if c in inside]
        lowest = min(inner, default=height) - 1
        taken = {depth[p] for p in parents[name] if p in inside}
        if lowest > depth[name] and lowest not in taken:
            depth[name] = lowest

    alone = [n for n in band if not parents[n] and not children[n]]
    crowd = [0] * height
    for name in band:
        crowd[depth[name]] += name not in alone
    for name in alone:  # nodes without edges fill the rows that have room
        best = min(range(len(crowd)), key=crowd.__getitem__)
        if crowd[best] >= 6:
            crowd.append(0)
            best = len(crowd) - 1
        crowd[best] += 1
        depth[name] = best
    return depth


# ---------------------------------------------------------------------- order and place


def _build(graph: Graph, steps: int | None) -> _Layout:
    """Items and links: one column with subscript t if `steps` is None, else one per step."""
    _validate(graph)
    level, temporal = _assign_rows(graph)
    columns = 1 if steps is None else steps
    layout = _Layout({}, [[] for _ in range(1 + max(level.values(), default=-1))], [], temporal, 0)
    layout.columns = columns if temporal else 0

    def put(item: _Item) -> _Item:
        layout.items[item.key] = item
        layout.rows[item.row].append(item)
        return item

    for node in graph.nodes:
        if not node.temporal:
            put(_node_item(node, level[node.id], -1, node.subscript))
    is_temporal = {node.id: node.temporal for node in graph.nodes}
    for column in range(layout.columns):
        for node in graph.nodes:
            if node.temporal:
                subscript = (node.subscript or "t") if steps is None else str(column)
                put(_node_item(node, level[node.id], column, subscript))

    for edge in graph.edges:
        if edge.lag or edge.source == edge.target:
            continue
        moving = is_temporal[edge.source] or is_temporal[edge.target]
        for column in range(columns) if moving else (0,):
            if steps is not None and moving and not _active(edge, column):
                continue
            a = layout.node(edge.source, column if is_temporal[edge.source] else -1)
            b = layout.node(edge.target, column if is_temporal[edge.target] else -1)
            upwards = a.row > b.row
            if upwards:
                a, b = b, a
            path = [a]
            for row in range(a.row + 1, b.row):
                place = max(a.column, b.column, 0) if row in temporal else -1
                key = (a.key[0], a.column, row, place)
                path.append(layout.items.get(key) or put(_Item(key, row, place)))
            layout.links.append(_Link(edge, [*path, b], upwards))
    return layout


def _active(edge: Edge, time: int) -> bool:
    return max(edge.first, edge.lag) <= time and (edge.last is None or time <= edge.last)


def _order(layout: _Layout, lagged: Sequence[str]) -> None:
    """Reorder the rows in place to cross few edges, with the ends of lagged edges outside."""
    above, below = layout.neighbours()
    rows = layout.rows
    place = {item.key: i for row in rows for i, item in enumerate(row)}

    def crossings(row: int) -> int:  # between this row and the next
        seen: list[int] = []
        count = 0
        for item in rows[row]:
            ends = sorted(place[other.key] for other in below[item.key])
            count += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
        return count

    def hidden(row: int) -> int:  # nodes between the ends of lagged edges and the border
        names = [item.key[0] for item in rows[row] if item.node]
        return sum(min(i, len(names) - 1 - i) for i, n in enumerate(names) if n in lagged)

    def cost(around: Iterable[int]) -> float:
        return sum(crossings(r) + 1.5 * hidden(r) for r in around if 0 <= r < len(rows))

    def settle(row: int, order: list[_Item]) -> None:
        rows[row] = order
        place.update((item.key, i) for i, item in enumerate(order))

    def barycentre(row: int, others: dict[_Key, list[_Item]]) -> None:
        def key(item: _Item) -> float:
            ends = [place[other.key] for other in others[item.key]]
            return sum(ends) / len(ends) if ends else place[item.key]

        settle(row, sorted(rows[row], key=key))

    def swap(row: int) -> bool:
        better = False
        for i in range(len(rows[row]) - 1):
            before, old = cost((row - 1, row)), list(rows[row])
            settle(row, [*old[:i], old[i + 1], old[i], *old[i + 2 :]])
            if cost((row - 1, row)) < before:
                better = True
            else:
                settle(row, old)
        return better

    numbers = range(len(rows))
    best, best_cost = [list(row) for row in rows], cost(numbers)
    for sweep in range(10):
        if sweep % 2:
            for row in reversed(numbers):
                barycentre(row, below)
        else:
            for row in numbers:
                barycentre(row, above)
        for _ in range(4):
            if not any([swap(row) for row in numbers]):
                break
        if cost(numbers) < best_cost:
            best, best_cost = [list(row) for row in rows], cost(numbers)
    layout.rows = best


def _spread(wanted: list[float], weights: list[float], apart: list[float]) -> list[float]:
    """The positions nearest to `wanted` (weighted least squares) at least `apart` apart."""
    shift = [0.0]
    for distance in apart:
        shift.append(shift[-1] + distance)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, size: pool adjacent violators
    for want, weight, offset in zip(wanted, weights, shift, strict=True):
        mean, total, size = want - offset, weight, 1
        while blocks and blocks[-1][0] >= mean:
            other, w, n = blocks.pop()
            mean = (mean * total + other * w) / (total + w)
            total, size = total + w, size + n
        blocks.append((mean, total, size))
    flat = [mean for mean, _, size in blocks for _ in range(size)]
    return [mean + offset for mean, offset in zip(flat, shift, strict=True)]


def _room(a: _Item, b: _Item) -> float:
    """How far apart the centres of neighbours in a row must be."""
    margin = 26.0 if a.node and b.node else 16.0 if a.node or b.node else 15.0
    return a.half + b.half + margin


def _place(layout: _Layout, free: Sequence[int]) -> None:
    """Horizontal positions for the items of the rows in `free`; the other rows stay."""
    above, below = layout.neighbours()

    def settle(row: int, sides: Sequence[dict[_Key, list[_Item]]]) -> None:
        items = layout.rows[row]
        wanted, weights = [], []
        for item in items:
            pulls = [
                (other.x, (1.0, 2.0, 8.0)[(item.node is None) + (other.node is None)])
                for side in sides
                for other in side[item.key]
            ]
            total = sum(weight for _, weight in pulls)
            wanted.append(sum(x * w for x, w in pulls) / total if total else item.x)
            weights.append(total or 0.1)
        apart = [_room(a, b) for a, b in pairwise(items)]
        for item, x in zip(items, _spread(wanted, weights, apart), strict=True):
            item.x = x

    for row in free:
        settle(row, ())
    for sweep in range(64):
        sides = (above, below) if sweep >= 24 else (above,) if sweep % 2 == 0 else (below,)
        for row in free if sweep % 2 == 0 else reversed(free):
            settle(row, sides)


def _straighten(layout: _Layout) -> None:
    """Put the bends that an edge has in successive rows below each other where there is room."""
    chains: dict[tuple[str, int, int], list[_Item]] = defaultdict(list)
    for row in layout.rows:
        for item in row:
            if item.node is None:
                chains[item.key[0], item.key[1], item.column].append(item)

    def limits(item: _Item) -> tuple[float, float]:
        row = layout.rows[item.row]
        at = row.index(item)
        low = row[at - 1].x + _room(row[at - 1], item) if at else -1e9
        high = row[at + 1].x - _room(item, row[at + 1]) if at + 1 < len(row) else 1e9
        return low, high

    for chain in chains.values():
        low = max(limits(item)[0] for item in chain)
        high = min(limits(item)[1] for item in chain)
        if low <= high:
            middle = sum(item.x for item in chain) / len(chain)
            for item in chain:
                item.x = max(low, min(high, middle))


def _plate_layout(graph: Graph) -> _Layout:
    layout = _build(graph, None)
    ends = [name for edge in graph.edges if edge.lag for name in (edge.source, edge.target)]
    _order(layout, ends)
    _place(layout, range(len(layout.rows)))
    _straighten(layout)
    return layout


def _unrolled_layout(graph: Graph, steps: int) -> _Layout:
    """The plate's rows, repeated: the order stays, static nodes move to the middle."""
    plate = _plate_layout(graph)
    layout = _build(graph, steps)
    rank = {item.key: (i, item.x) for row in plate.rows for i, item in enumerate(row)}

    def original(item: _Item) -> tuple[int, float]:
        name, column, row, place = item.key
        return rank[name, min(column, 0), row, min(place, 0)]

    for row in layout.rows:
        row.sort(key=lambda item: (item.column, original(item), item.key))
    inner = [item for row in plate.temporal for item in plate.rows[row]]
    left = min((item.x - item.half for item in inner), default=0.0)
    right = max((item.x + item.half for item in inner), default=0.0)
    layout.width = right - left
    for item in layout.items.values():
        start = layout.column_span(max(item.column, 0))[0] + _PAD
        item.x = original(item)[1] - left + start
    _place(layout, [row for row in range(len(layout.rows)) if row not in layout.temporal])
    return layout


# ------------------------------------------------------------------------------- paths


@dataclass
class _Path:
    """Cubic Bezier curves, each given by two control points and its end."""

    start: _Point
    curves: list[tuple[_Point, _Point, _Point]] = field(default_factory=list)

    @property
    def end(self) -> _Point:
        return self.curves[-1][2] if self.curves else self.start

    def line(self, to: _Point) -> None:
        (x, y), (u, v) = self.end, to
        if hypot(u - x, v - y) > 0.05:
            third, rest = (x + (u - x) / 3, y + (v - y) / 3), (u - (u - x) / 3, v - (v - y) / 3)
            self.curves.append((third, rest, to))

    def vertical(self, to: _Point, slant: float = 0.0, land: float = 0.0) -> None:
        """An S that starts and ends vertically or, with `slant` and `land`, more directly."""
        (x, y), (u, v) = self.end, to
        dx, dy = max(-90.0, min(90.0, u - x)), 0.45 * (v - y)
        self.curves.append(((x + slant * dx, y + dy), (u - land * dx, v - dy), to))

    def horizontal(self, to: _Point) -> None:
        (x, y), (u, v) = self.end, to
        half = (u - x) / 2
        self.curves.append(((x + half, y), (u - half, v), to))

    def rounded(self, points: Sequence[_Point], radius: float = 11.0) -> None:
        """Straight lines through `points` with rounded corners."""
        for corner, after in pairwise(points):
            (x, y), (cx, cy), (u, v) = self.end, corner, after
            into, out = hypot(cx - x, cy - y), hypot(u - cx, v - cy)
            r = min(radius, into / 2, out / 2)
            if r < 0.5:
                continue
            a = (cx - (cx - x) / into * r, cy - (cy - y) / into * r)
            b = (cx + (u - cx) / out * r, cy + (v - cy) / out * r)
            self.line(a)
            k = 0.45  # near a quarter of a circle
            near = (cx + (a[0] - cx) * k, cy + (a[1] - cy) * k)
            far = (cx + (b[0] - cx) * k, cy + (b[1] - cy) * k)
            self.curves.append((near, far, b))
        self.line(points[-1])

    def reverse(self) -> None:
        starts = [self.start, *(end for _, _, end in self.curves)]
        turned = [(b, a, s) for (a, b, _), s in zip(self.curves, starts, strict=False)]
        self.start, self.curves = self.end, turned[::-1]

    def sample(self, curves: int | None = None) -> list[_Point]:
        """Points along the last `curves` curves (all if None)."""
        points = [self.start]
        at = self.start
        first = 0 if curves is None else len(self.curves) - curves
        for number, (a, b, c) in enumerate(self.curves):
            count = max(2, int(hypot(c[0] - at[0], c[1] - at[1]) / 5))
            for i in range(1, count + 1):
                t = i / count
                w = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
                points.append(
                    (
                        w[0] * at[0] + w[1] * a[0] + w[2] * b[0] + w[3] * c[0],
                        w[0] * at[1] + w[1] * a[1] + w[2] * b[1] + w[3] * c[1],
                    )
                )
            at = c
            if number + 1 == first:
                points = [at]
        return points

    def svg(self) -> str:
        curves = (f"C{_pt(a)} {_pt(b)} {_pt(c)}" for a, b, c in self.curves)
        return f"M{_pt(self.start)}" + "".join(curves)


def _num(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _pt(point: _Point) -> str:
    return f"{_num(point[0])},{_num(point[1])}"


@dataclass(frozen=True)
class _Gate:
    """Where lagged edges leave or enter a node, towards `side` (1 right, -1 left).

    They meet its border below (`turn` 1) or above (-1) if nodes stand beside it, else at that
    side (0). Edges share their gates.
    """

    key: _Key
    row: int
    side: int
    turn: int
    exit: bool


@dataclass(frozen=True)
class _Lag:
    """A lagged edge: the nodes and gates it connects."""

    edge: Edge
    source: _Item
    target: _Item
    exit: _Gate
    entry: _Gate


def _lag(
    layout: _Layout, edge: Edge, a: _Item, b: _Item, sides: tuple[int, int], over: bool = False
) -> _Lag:
    turn = 1 if _blocked(layout, a, sides[0]) else 0
    drop = -1 if over or _blocked(layout, b, sides[1]) else 0
    exit = _Gate(a.key, a.row, sides[0], turn, True)
    return _Lag(edge, a, b, exit, _Gate(b.key, b.row, sides[1], drop, False))


def _blocked(layout: _Layout, item: _Item, side: int) -> int:
    """How many nodes of its row and column are between the item and that side."""
    return sum(
        other.node is not None and other.column == item.column and (other.x - item.x) * side > 0
        for other in (layout.rows[item.row] if item.node else ())
    )


def _plate_lags(graph: Graph, layout: _Layout) -> list[_Lag]:
    lags = []
    for edge in graph.edges:
        if edge.lag:
            a, b = layout.node(edge.source, 0), layout.node(edge.target, 0)
            hidden = {s: _blocked(layout, a, s) + _blocked(layout, b, s) for s in (1, -1)}
            middle = sum(item.x for item in layout.items.values()) / len(layout.items)
            nearer = 1 if (a.x + b.x) / 2 >= middle else -1
            side = min((nearer, -nearer), key=hidden.__getitem__)
            lags.append(_lag(layout, edge, a, b, (side, side)))
    return lags


def _unrolled_lags(graph: Graph, layout: _Layout, dots: Callable[[int], _Item]) -> list[_Lag]:
    """Edges between columns; those that leave the last column lead to the dots."""
    lags = []
    for edge in graph.edges:
        if not edge.lag:
            continue
        for column in range(layout.columns):
            a, time = layout.node(edge.source, column), column + edge.lag
            if not _active(edge, time):
                continue
            if time < layout.columns:
                b = layout.node(edge.target, time)
                lags.append(_lag(layout, edge, a, b, (1, -1), over=edge.lag > 1))
            elif column == layout.columns - 1:
                b = dots(layout.node(edge.target, 0).row)
                lags.append(_lag(layout, edge, a, b, (1, -1)))
    return lags


def _lanes(lags: list[_Lag]) -> dict[tuple[int, int], list[str]]:
    """The nodes that lagged edges leave below (1) or enter above (-1) a row, a lane for each."""
    lanes: dict[tuple[int, int], list[str]] = defaultdict(list)
    for lag in lags:
        for gate in (lag.exit, lag.entry):
            if gate.turn and gate.key[0] not in lanes[gate.row, gate.turn]:
                lanes[gate.row, gate.turn].append(gate.key[0])
    return lanes


def _stack(layout: _Layout, lags: list[_Lag]) -> None:
    """Vertical positions: rows stand further apart where wide or many edges pass."""
    lanes = _lanes(lags)
    y = 0.0
    for number, row in enumerate(layout.rows):
        for item in row:
            item.y = y
        wide, labelled = 0.0, False
        for link in layout.links:
            for a, b in pairwise(link.path):
                if a.row == number:
                    wide = max(wide, abs(a.x - b.x))
                    labelled |= b.node is not None and bool(_caption(link.edge))
        gap = _GAP + min(70.0, 0.09 * wide) + (10 if labelled else 0)
        gap += 8 * (len(lanes[number, 1]) + len(lanes[number + 1, -1]))
        temporal = layout.temporal
        if temporal and number + 1 in (temporal.start, temporal.stop):
            gap += _PAD - 6
        y += 2 * _RADIUS + gap


_Ports = dict[tuple[object, str], float]


def _ports(layout: _Layout, lags: list[_Lag]) -> _Ports:
    """Where edges meet the borders of nodes: offsets from the centre."""
    wants: dict[tuple[_Key, int], list[tuple[float, str, list[tuple[object, str]]]]]
    wants = defaultdict(list)
    shared: dict[tuple[_Key, _Key], list[tuple[object, str]]] = defaultdict(list)
    for link in layout.links:
        a, b = link.path[0], link.path[-1]
        first = shared[a.key, link.path[1].key]
        if not first:
            wants[a.key, 1].append((link.path[1].x - a.x, str(link.path[1].key), first))
        first.append((id(link), "upper"))
        source = link.path[-2]
        wants[b.key, -1].append((source.x - b.x, str(source.key), [(id(link), "lower")]))
    gates = dict.fromkeys(gate for lag in lags for gate in (lag.exit, lag.entry))
    for gate in gates:
        if gate.turn:
            wants[gate.key, gate.turn].append((1e4 * gate.side, "", [(gate, "gate")]))
    ports: _Ports = {}
    for (key, _), entries in wants.items():
        half = layout.items[key].half
        limit = 0.62 * half
        entries.sort(key=lambda entry: entry[:2])
        wanted = [max(-limit, min(limit, 0.3 * offset)) for offset, _, _ in entries]
        space = min(11.0, 2 * limit / max(1, len(entries) - 1))
        offsets = _spread(wanted, [1.0] * len(wanted), [space] * (len(wanted) - 1))
        for number, ((_, _, names), offset) in enumerate(zip(entries, offsets, strict=True)):
            low, high = space * number - limit, limit - space * (len(entries) - 1 - number)
            ports.update((name, max(low, min(high, offset))) for name in names)
    for gate in gates:
        if not gate.turn:
            shares = _Gate(gate.key, gate.row, gate.side, 0, not gate.exit) in gates
            ports[gate, "gate"] = (6.0 if gate.exit else -6.0) if shares else 0.0
    return ports


def _link_path(link: _Link, ports: _Ports) -> _Path:
    first, last = link.path[0], link.path[-1]
    out, into = ports[id(link), "upper"], ports[id(link), "lower"]
    path = _Path((first.x + out, first.border_y(out, 1)))
    for number, b in enumerate(link.path[1:]):
        slant = 0.3 if number == 0 else 0.0
        if b is last:
            path.vertical((b.x + into, b.border_y(into, -1)), slant, 0.3)
        else:
            path.vertical((b.x, b.y - _RADIUS), slant)
            path.line((b.x, b.y + _RADIUS))
    if link.upwards:
        path.reverse()
    return path


def _approach(
    gate: _Gate, item: _Item, x: float, ports: _Ports, lanes: dict[tuple[int, int], list[str]]
) -> list[_Point]:
    """From the border of a node to `x`, straight or through the space between rows."""
    offset = ports[gate, "gate"]
    if not gate.turn:
        y = item.y + offset
        return [(item.border_x(offset, gate.side), y), (x, y)]
    lane = 15 + 8 * lanes[gate.row, gate.turn].index(gate.key[0])
    y = item.y + gate.turn * (_RADIUS + lane)
    start = item.x + offset
    return [(start, item.border_y(offset, gate.turn)), (start, y), (x, y)]


# ---------------------------------------------------------------------------- painting

_Caption = list[tuple[str, float, float]]  # text, shift downwards, size
_Box = tuple[float, float, float, float]


def _caption(edge: Edge, when: str = "") -> _Caption:
    """What is written at an edge: the network, and when the edge is there."""
    pieces: _Caption = []
    if edge.label:
        pieces += [("φ", 0, 13), (edge.label, -4, 9.5)]
    if not when and edge.last == edge.first:
        when = f"t={edge.first}"
    if when:
        pieces.append((f"\u00a0{when}" if pieces else when, 0, 10.5))
    return pieces


def _clean(text: str) -> str:
    """Escaped for XML, with what XML cannot hold replaced."""

    def allowed(char: str) -> bool:
        code = ord(char)
        return char in "\t\n\r" or (code >= 0x20 and not 0xD800 <= code <= 0xDFFF and code < 0xFFFE)

    return escape("".join(c if allowed(c) or ord(c) > 0xFFFF else "\ufffd" for c in text))


def _text(pieces: _Caption, x: float, y: float, color: str, anchor: float = 0.5) -> str:
    """Pieces of text on one line, `anchor` (0 start, 1 end) of their width at `x`."""
    x -= anchor * sum(_text_width(text, size) for text, _, size in pieces)
    body = ""
    for text, shift, size in pieces:
        place = f'x="{_num(x)}" y="{_num(y + shift)}" font-size="{_num(size)}"'
        body += f'<text {place} fill="{color}">{_clean(text)}</text>'
        x += _text_width(text, size)
    return body


@dataclass
class _Picture:
    """SVG elements and their extent."""

    body: list[str] = field(default_factory=list)
    box: list[float] = field(default_factory=lambda: [1e9, 1e9, -1e9, -1e9])

    left = property(lambda self: self.box[0])
    top = property(lambda self: self.box[1])
    width = property(lambda self: max(0.0, self.box[2] - self.box[0]))
    height = property(lambda self: max(0.0, self.box[3] - self.box[1]))

    def cover(self, *points: _Point) -> None:
        for x, y in points:
            self.box = [
                min(self.box[0], x),
                min(self.box[1], y),
                max(self.box[2], x),
                max(self.box[3], y),
            ]

    def add(self, other: _Picture, dx: float, dy: float) -> None:
        inner = "\n".join(other.body)
        self.body.append(f'<g transform="translate({_num(dx)} {_num(dy)})">\n{inner}\n</g>')
        self.cover((other.box[0] + dx, other.box[1] + dy), (other.box[2] + dx, other.box[3] + dy))


def _frame(layout: _Layout, lags: list[_Lag]) -> tuple[float, float]:
    """The top and the bottom of the box around the temporal rows."""
    lanes = _lanes(lags)
    first, last = layout.temporal.start, layout.temporal.stop - 1
    top = layout.rows[first][0].y - _RADIUS - _PAD - 8 * len(lanes[first, -1])
    bottom = layout.rows[last][0].y + _RADIUS + _PAD + 8 * len(lanes[last, 1])
    return top, bottom


def _rect(name: str, box: _Box, style: str) -> str:
    left, top, right, bottom = box
    return (
        f'<rect class="{name}" x="{_num(left)}" y="{_num(top)}" width="{_num(right - left)}" '
        f'height="{_num(bottom - top)}" rx="12" {style}/>'
    )


def _plate_picture(graph: Graph) -> _Picture:
    layout = _plate_layout(graph)
    lags = _plate_lags(graph, layout)
    _stack(layout, lags)
    ports, lanes = _ports(layout, lags), _lanes(lags)
    picture = _Picture()
    strokes = _link_strokes(layout, ports)
    fence: list[_Point] = []
    if layout.temporal:
        inner = [item for row in layout.temporal for item in layout.rows[row]]
        left = min(item.x - item.half for item in inner) - _PAD
        right = max(item.x + item.half for item in inner) + _PAD
        top, bottom = _frame(layout, lags)
        bottom += 10
        style = f'fill="none" stroke="{_GREY}" stroke-width="2" stroke-opacity="0.6"'
        picture.body.append(_rect("plate", (left, top, right, bottom), style))
        picture.body.append(_text([("0:T", 0, 12)], right - 11, bottom - 10, _DARK_GREY, 1))
        picture.cover((left - 1, top - 1), (right + 1, bottom + 1))
        border = _Path((left, top))
        for corner in ((right, top), (right, bottom), (left, bottom), (left, top)):
            border.line(corner)
        fence = border.sample()
        taken: dict[int, list[list[tuple[float, float]]]] = {1: [], -1: []}
        for lag in sorted(lags, key=lambda lag: abs(lag.source.y - lag.target.y)):
            side = lag.exit.side
            ends = sorted((lag.source.y, lag.target.y))
            span = (ends[0] - 40, ends[1] + 40)
            free = (all(b < span[0] or span[1] < a for a, b in used) for used in taken[side])
            number = next((i for i, fits in enumerate(free) if fits), len(taken[side]))
            taken[side] += [[]] * (number == len(taken[side]))
            taken[side][number] = [*taken[side][number], span]
            x = (right if side > 0 else left) + side * (20 + 30 * number)
            out = _approach(lag.exit, lag.source, x, ports, lanes)
            back = _approach(lag.entry, lag.target, x, ports, lanes)
            path = _Path(out[0])
            path.rounded([*out[1:], *reversed(back)])
            strokes.append(_Stroke(path, _caption(lag.edge, f"t−{lag.edge.lag}"), _BLUE, True))
    _paint(picture, layout, strokes, fence)
    return picture


def _unrolled_picture(graph: Graph, steps: int) -> _Picture:
    if steps < 1:
        raise ValueError(f"cannot unroll over {steps} steps: at least 1 is needed")
    layout = _unrolled_layout(graph, steps)
    dots: dict[int, _Item] = {}

    def dots_at(row: int) -> _Item:
        x = layout.column_span(layout.columns)[0] + 14
        return dots.setdefault(row, _Item(("", steps, row, steps), row, steps, half=14.0, x=x))

    lags = _unrolled_lags(graph, layout, dots_at)
    _stack(layout, lags)
    if layout.temporal and not dots:
        dots_at(layout.temporal[len(layout.temporal) // 2])
    for item in dots.values():
        item.y = layout.rows[item.row][0].y
    ports, lanes = _ports(layout, lags), _lanes(lags)
    picture = _Picture()
    strokes = _link_strokes(layout, ports)
    if layout.temporal:
        top, bottom = _frame(layout, lags)
        for column in range(steps):
            left, right = layout.column_span(column)
            style = f'fill="{_GREY}" fill-opacity="0.1"'
            picture.body.append(_rect("column", (left, top, right, bottom), style))
            picture.cover((left, top), (right, bottom))
    for lag in lags:
        near = layout.column_span(lag.source.column)[1]
        far = layout.column_span(lag.source.column + 1)[0]
        out = _approach(lag.exit, lag.source, near, ports, lanes)
        back = _approach(lag.entry, lag.target, far, ports, lanes)
        path = _Path(out[0])
        path.rounded(out[1:])
        path.horizontal(back[-1])
        path.rounded(back[-2::-1])
        strokes.append(_Stroke(path, _caption(lag.edge), _BLUE))
    _paint(picture, layout, strokes)
    for item in dots.values():
        picture.body.append(_text([("…", 0, 20)], item.x, item.y + 2, _DARK_GREY))
        picture.cover((item.x + item.half, item.y))
    return picture


@dataclass
class _Stroke:
    """An edge, ready to be drawn. Its caption goes near its `last` curves (None: all)."""

    path: _Path
    caption: _Caption
    color: str = _INK
    dashed: bool = False
    last: int | None = None


def _link_strokes(layout: _Layout, ports: _Ports) -> list[_Stroke]:
    """The edges without lag. Where bends are shared, a caption belongs near the target."""
    uses: dict[_Key, int] = defaultdict(int)
    for link in layout.links:
        for item in link.path[1:-1]:
            uses[item.key] += 1
    strokes = []
    for link in layout.links:
        shared = any(uses[item.key] > 1 for item in link.path[1:-1])
        last = 1 if shared else None
        strokes.append(_Stroke(_link_path(link, ports), _caption(link.edge), last=last))
    return strokes


def _paint(
    picture: _Picture, layout: _Layout, strokes: list[_Stroke], fence: Sequence[_Point] = ()
) -> None:
    """Add edges, then captions where there is room, then nodes."""
    nodes = [item for row in layout.rows for item in row if item.node]
    busy: list[_Box] = [
        (n.x - n.half - 2, n.y - _RADIUS - 2, n.x + n.half + 2, n.y + _RADIUS + 2) for n in nodes
    ]
    ink = _Ink([*fence, *(point for stroke in strokes for point in stroke.path.sample())])
    for stroke in strokes:
        picture.cover(*stroke.path.sample())
        picture.body.append(_edge_svg(stroke))
    for stroke in strokes:
        if stroke.caption:
            box = _free_box(stroke, busy, ink)
            busy.append(box)
            picture.cover(box[:2], box[2:])
            x, y = (box[0] + box[2]) / 2, box[3] - 5
            text = _text(stroke.caption, x, y, stroke.color)
            halo = text.replace("<text ", '<text stroke="white" stroke-width="3.5" ')
            picture.body.append(f'<g class="caption">{halo}{text}</g>')
    for item in nodes:
        picture.cover(
            (item.x - item.half, item.y - _RADIUS), (item.x + item.half, item.y + _RADIUS)
        )
        picture.body.append(_node_svg(item))


class _Ink:
    """Points that captions should not cover, sorted into cells."""

    size = 48.0

    def __init__(self, points: Iterable[_Point]):
        self.cells: dict[tuple[int, int], list[_Point]] = defaultdict(list)
        for x, y in points:
            self.cells[int(x // self.size), int(y // self.size)].append((x, y))

    def near(self, box: _Box) -> Iterable[_Point]:
        low_x, low_y, high_x, high_y = (int(side // self.size) for side in box)
        for column in range(low_x, high_x + 1):
            for row in range(low_y, high_y + 1):
                for x, y in self.cells.get((column, row), ()):
                    if box[0] < x < box[2] and box[1] < y < box[3]:
                        yield x, y


def _free_box(stroke: _Stroke, busy: list[_Box], ink: _Ink) -> _Box:
    """A place for the caption beside the edge that covers little else."""
    width = sum(_text_width(text, size) for text, _, size in stroke.caption) + 4
    height = 18.0
    along = stroke.path.sample(stroke.last)
    best, best_score = (0.0, 0.0, 0.0, 0.0), float("inf")
    for number in range(len(along) // 8, len(along) - len(along) // 8, 1 + len(along) // 40):
        x, y = along[number]
        away = abs(number / len(along) - 0.5)
        for rank, (dx, dy) in enumerate(((1, 0), (-1, 0), (0, -1), (0, 1))):
            cx, cy = x + dx * (width / 2 + 3), y + dy * (height / 2 + 2)
            box = (cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2)
            score = 2 * away + 0.2 * rank
            score += 50 * sum(
                box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in busy
            )
            around = (box[0] - 6, box[1] - 3, box[2] + 6, box[3] + 3)
            score += sum(0.3 for _ in ink.near(around)) + sum(0.7 for _ in ink.near(box))
            if score < best_score:
                best, best_score = box, score
    return best


def _edge_svg(stroke: _Stroke) -> str:
    """The curve and its arrow head, whose tip touches the node."""
    path = stroke.path
    start, end = ([path.start, *(c[2] for c in path.curves)][-2], path.end)
    first, second, _ = path.curves[-1]
    tail = next(p for p in (second, first, start) if hypot(p[0] - end[0], p[1] - end[1]) > 0.5)
    length = hypot(end[0] - tail[0], end[1] - tail[1])
    ux, uy = (end[0] - tail[0]) / length, (end[1] - tail[1]) / length
    base = (end[0] - 7.5 * ux, end[1] - 7.5 * uy)
    head = [end, (base[0] - 3.2 * uy, base[1] + 3.2 * ux), (base[0] + 3.2 * uy, base[1] - 3.2 * ux)]
    short = _Path(
        path.start,
        [
            *path.curves[:-1],
            (first, (second[0] - 5 * ux, second[1] - 5 * uy), (end[0] - 5 * ux, end[1] - 5 * uy)),
        ],
    )
    dashes = ' stroke-dasharray="5 4"' if stroke.dashed else ""
    return (
        f'<g class="edge"><path d="{short.svg()}" fill="none" stroke="{stroke.color}" '
        f'stroke-width="1.3"{dashes}/><path d="M{"L".join(map(_pt, head))}Z" '
        f'fill="{stroke.color}" stroke="{stroke.color}" stroke-linejoin="round"/></g>'
    )


_FILLS = {
    "input": (_GREY, 0.4),
    "variable": (_BLUE, 0.35),
    "derived": (_BLUE, 0.12),
    "observed": (_GREEN, 0.45),
    "query": (_BLUE, 0.35),
}
_MEANING = {
    "input": "input",
    "variable": "random variable",
    "derived": "derived",
    "observed": "observed",
    "query": "query",
}


def _shape(kind: Kind, x: float, y: float, half: float, high: float, name: str) -> str:
    color, opacity = _FILLS[kind]
    if kind == "input":
        place = (
            f'rect class="{name}" x="{_num(x - half)}" y="{_num(y - high)}" '
            f'width="{_num(2 * half)}" height="{_num(2 * high)}" rx="{_num(high / 3)}"'
        )
    else:
        place = (
            f'ellipse class="{name}" cx="{_num(x)}" cy="{_num(y)}" '
            f'rx="{_num(half)}" ry="{_num(high)}"'
        )
    shape = f'<{place} fill="{color}" fill-opacity="{opacity}"/>'
    if kind == "query":
        inset = 0.14 * high
        shape += (
            f'<ellipse cx="{_num(x)}" cy="{_num(y)}" rx="{_num(half - inset)}" '
            f'ry="{_num(high - inset)}" fill="none" stroke="{color}" stroke-width="1.2"/>'
        )
    return shape


def _node_svg(item: _Item) -> str:
    node = item.node
    assert node is not None
    pieces: _Caption = [(node.label, 0, 14)]
    if item.subscript:
        pieces.append((item.subscript, 4, 10))
    shape = _shape(node.kind, item.x, item.y, item.half, _RADIUS, "shape")
    return f'<g class="node {node.kind}">{shape}{_text(pieces, item.x, item.y + 4.5, _INK)}</g>'


def _legend(graph: Graph) -> _Picture:
    """What the shapes mean, for the kinds that occur."""
    picture = _Picture()
    kinds = {node.kind for node in graph.nodes}
    x = 0.0
    for kind, meaning in _MEANING.items():
        if kind in kinds:
            half = 7.0
            picture.body.append(_shape(kind, x + half, 0, half, half, "swatch"))
            picture.body.append(_text([(meaning, 0, 11)], x + 20, 4, _DARK_GREY, 0))
            end = x + 20 + _text_width(meaning, 11)
            picture.cover((x, -8), (end, 8))
            x = end + 22
    return picture


def _document(title: str, picture: _Picture, legend: _Picture) -> str:
    """An SVG document: the title, the picture, and the legend below it."""
    margin = 20.0
    page = _Picture()
    head = 34.0 if title else 0.0
    inner = max(picture.width, legend.width, _text_width(title, 14))
    page.add(picture, (inner - picture.width) / 2 - picture.left, head - picture.top)
    if title:
        page.body.insert(0, _text([(title, 0, 14)], 0, 11, _DARK_GREY, 0))
    if legend.body:
        page.add(legend, 0, head + picture.height + 34)
    foot = 42.0 if legend.body else 0.0
    width, height = inner + 2 * margin, head + picture.height + foot + 2 * margin
    x, y = _num(-margin), _num(-margin)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_num(width)}" height="{_num(height)}" '
        f'viewBox="{x} {y} {_num(width)} {_num(height)}" font-family="{_FONT}">\n'
        f"<title>{_clean(title)}</title>\n"
        f'<rect x="{x}" y="{y}" width="{_num(width)}" height="{_num(height)}" fill="white"/>\n'
        + "\n".join(page.body)
        + "\n</svg>\n"
    )
