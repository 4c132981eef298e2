"""Curves, and where edges leave and enter the borders of nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import hypot

from nesymm.draw.layout import GAP, PAD, RADIUS, Item, Key, Layout, Link, Point, caption_of
from nesymm.draw.model import Edge, Graph, is_active
from nesymm.draw.place import spread


@dataclass
class Path:
    """Cubic Bezier curves, each given by two control points and its end."""

    start: Point
    curves: list[tuple[Point, Point, Point]] = field(default_factory=list)

    @property
    def end(self) -> Point:
        return self.curves[-1][2] if self.curves else self.start

    def line(self, to: Point) -> None:
        (x, y), (u, v) = self.end, to
        if hypot(u - x, v - y) > 0.05:
            third, rest = (x + (u - x) / 3, y + (v - y) / 3), (u - (u - x) / 3, v - (v - y) / 3)
            self.curves.append((third, rest, to))

    def vertical(self, to: Point, slant: float = 0.0, land: float = 0.0) -> None:
        """An S that starts and ends vertically or, with `slant` and `land`, more directly."""
        (x, y), (u, v) = self.end, to
        dx, dy = max(-90.0, min(90.0, u - x)), 0.45 * (v - y)
        self.curves.append(((x + slant * dx, y + dy), (u - land * dx, v - dy), to))

    def horizontal(self, to: Point) -> None:
        (x, y), (u, v) = self.end, to
        half = (u - x) / 2
        self.curves.append(((x + half, y), (u - half, v), to))

    def rounded(self, points: Sequence[Point], radius: float = 11.0) -> None:
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

    def sample(self, curves: int | None = None) -> list[Point]:
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
        curves = (f"C{pt(a)} {pt(b)} {pt(c)}" for a, b, c in self.curves)
        return f"M{pt(self.start)}" + "".join(curves)


def num(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def pt(point: Point) -> str:
    return f"{num(point[0])},{num(point[1])}"


@dataclass(frozen=True)
class _Gate:
    """Where lagged edges leave or enter a node, towards `side` (1 right, -1 left).

    They meet its border below (`turn` 1) or above (-1) if nodes stand beside it, else at that
    side (0). Edges share their gates.
    """

    key: Key
    row: int
    side: int
    turn: int
    exit: bool


@dataclass(frozen=True)
class Lag:
    """A lagged edge: the nodes and gates it connects."""

    edge: Edge
    source: Item
    target: Item
    exit: _Gate
    entry: _Gate


def _lag(
    layout: Layout, edge: Edge, a: Item, b: Item, sides: tuple[int, int], over: bool = False
) -> Lag:
    turn = 1 if _blocked(layout, a, sides[0]) else 0
    drop = -1 if over or _blocked(layout, b, sides[1]) else 0
    exit = _Gate(a.key, a.row, sides[0], turn, True)
    return Lag(edge, a, b, exit, _Gate(b.key, b.row, sides[1], drop, False))


def _blocked(layout: Layout, item: Item, side: int) -> int:
    """How many nodes of its row and column are between the item and that side."""
    return sum(
        other.node is not None and other.column == item.column and (other.x - item.x) * side > 0
        for other in (layout.rows[item.row] if item.node else ())
    )


def plate_lags(graph: Graph, layout: Layout) -> list[Lag]:
    lags = []
    for edge in graph.edges:
        if edge.across:
            a, b = layout.node(edge.source, 0), layout.node(edge.target, 0)
            hidden = {s: _blocked(layout, a, s) + _blocked(layout, b, s) for s in (1, -1)}
            middle = sum(item.x for item in layout.items.values()) / len(layout.items)
            nearer = 1 if (a.x + b.x) / 2 >= middle else -1
            side = min((nearer, -nearer), key=hidden.__getitem__)
            lags.append(_lag(layout, edge, a, b, (side, side)))
    return lags


def unrolled_lags(graph: Graph, layout: Layout, dots: Callable[[int], Item]) -> list[Lag]:
    """Edges between columns; those that leave the last column lead to the dots."""
    lags = []
    for edge in graph.edges:
        if not edge.across:
            continue
        last = layout.columns - 1
        for time in range(1, layout.columns + max(1, edge.lag)):
            column = 0 if edge.latched else time - edge.lag
            if column < 0 or not is_active(edge, time):
                continue
            a = layout.node(edge.source, column)
            if a.hidden:
                continue
            if time <= last:
                b = layout.node(edge.target, time)
                if b.hidden:
                    continue
                lags.append(_lag(layout, edge, a, b, (1, -1), over=time - column > 1))
            elif column == last:
                b = dots(layout.node(edge.target, 0).row)
                lags.append(_lag(layout, edge, a, b, (1, -1)))
    return lags


def find_lanes(lags: list[Lag]) -> dict[tuple[int, int], list[str]]:
    """The nodes that lagged edges leave below (1) or enter above (-1) a row, a lane for each."""
    lanes: dict[tuple[int, int], list[str]] = defaultdict(list)
    for lag in lags:
        for gate in (lag.exit, lag.entry):
            if gate.turn and gate.key[0] not in lanes[gate.row, gate.turn]:
                lanes[gate.row, gate.turn].append(gate.key[0])
    return lanes


def stack_rows(layout: Layout, lags: list[Lag]) -> None:
    """Vertical positions: rows stand further apart where wide or many edges pass."""
    lanes = find_lanes(lags)
    y = 0.0
    for number, row in enumerate(layout.rows):
        for item in row:
            item.y = y
        wide, labelled = 0.0, False
        for link in layout.links:
            for a, b in pairwise(link.path):
                if a.row == number:
                    wide = max(wide, abs(a.x - b.x))
                    labelled |= b.node is not None and bool(caption_of(link.edge))
        gap = GAP + min(70.0, 0.09 * wide) + (10 if labelled else 0)
        gap += 8 * (len(lanes[number, 1]) + len(lanes[number + 1, -1]))
        temporal = layout.temporal
        if temporal and number + 1 in (temporal.start, temporal.stop):
            gap += PAD - 6
        y += 2 * RADIUS + gap


Ports = dict[tuple[object, str], float]


def find_ports(layout: Layout, lags: list[Lag]) -> Ports:
    """Where edges meet the borders of nodes: offsets from the centre."""
    wants: dict[tuple[Key, int], list[tuple[float, str, list[tuple[object, str]]]]]
    wants = defaultdict(list)
    shared: dict[tuple[Key, Key], list[tuple[object, str]]] = defaultdict(list)
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
    ports: Ports = {}
    for (key, _), entries in wants.items():
        half = layout.items[key].half
        limit = 0.62 * half
        entries.sort(key=lambda entry: entry[:2])
        wanted = [max(-limit, min(limit, 0.3 * offset)) for offset, _, _ in entries]
        space = min(11.0, 2 * limit / max(1, len(entries) - 1))
        offsets = spread(wanted, [1.0] * len(wanted), [space] * (len(wanted) - 1))
        for number, ((_, _, names), offset) in enumerate(zip(entries, offsets, strict=True)):
            low, high = space * number - limit, limit - space * (len(entries) - 1 - number)
            ports.update((name, max(low, min(high, offset))) for name in names)
    for gate in gates:
        if not gate.turn:
            shares = _Gate(gate.key, gate.row, gate.side, 0, not gate.exit) in gates
            ports[gate, "gate"] = (6.0 if gate.exit else -6.0) if shares else 0.0
    return ports


def link_path(link: Link, ports: Ports) -> Path:
    first, last = link.path[0], link.path[-1]
    out, into = ports[id(link), "upper"], ports[id(link), "lower"]
    path = Path((first.x + out, first.border_y(out, 1)))
    for number, b in enumerate(link.path[1:]):
        slant = 0.3 if number == 0 else 0.0
        if b is last:
            path.vertical((b.x + into, b.border_y(into, -1)), slant, 0.3)
        else:
            path.vertical((b.x, b.y - RADIUS), slant)
            path.line((b.x, b.y + RADIUS))
    if link.upwards:
        path.reverse()
    return path


def approach(
    gate: _Gate, item: Item, x: float, ports: Ports, lanes: dict[tuple[int, int], list[str]]
) -> list[Point]:
    """From the border of a node to `x`, straight or through the space between rows."""
    offset = ports[gate, "gate"]
    if not gate.turn:
        y = item.y + offset
        return [(item.border_x(offset, gate.side), y), (x, y)]
    lane = 15 + 8 * lanes[gate.row, gate.turn].index(gate.key[0])
    y = item.y + gate.turn * (RADIUS + lane)
    start = item.x + offset
    return [(start, item.border_y(offset, gate.turn)), (start, y), (x, y)]
