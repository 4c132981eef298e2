"""Items and links in rows: which row each node stands in, and where edges bend."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from unicodedata import east_asian_width

from nesymm.draw.model import Edge, Graph, Node, exists, is_active, validate

RADIUS = 22.0  # of the smallest circle, and half the height of every node
GAP = 46.0  # between rows
PAD = 26.0  # between a plate's border and what is in it
_CHANNEL = 54.0  # between the columns of the unrolled drawing

Point = tuple[float, float]
# The id of a node, its column (-1 if static), and for a bend its row and column.
Key = tuple[str, int, int, int]
Caption = list[tuple[str, float, float]]  # text, shift downwards, size


def text_width(text: str, size: float) -> float:
    cells = sum(2 if east_asian_width(char) in "WF" else 1 for char in text)
    return 0.602 * size * cells


def caption_of(edge: Edge, when: str = "") -> Caption:
    """What is written at an edge: the network, and when the edge is there."""
    pieces: Caption = []
    if edge.label:
        pieces += [("φ", 0, 13), (edge.label, -4, 9.5)]
    if not when and edge.last == edge.first:
        when = f"t={edge.first}"
    if when:
        pieces += [(" ", 0, 10.5)] * bool(pieces) + [(when, 0, 10.5)]
    return pieces


@dataclass
class Item:
    """A node or, with `node` None, a bend of an edge, at a place in a row."""

    key: Key
    row: int
    column: int
    node: Node | None = None
    subscript: str = ""
    half: float = 1.0
    hidden: bool = False  # it keeps its place, but is not there at this step
    x: float = 0.0
    y: float = 0.0

    def border_y(self, dx: float, side: int) -> float:
        """Where the upper (-1) or lower (+1) border is, `dx` beside the centre."""
        if self.node is None or self.node.kind == "input":
            return self.y + side * RADIUS
        return self.y + side * RADIUS * sqrt(max(0.0, 1 - (dx / self.half) ** 2))

    def border_x(self, dy: float, side: int) -> float:
        if self.node is None or self.node.kind == "input":
            return self.x + side * self.half
        return self.x + side * self.half * sqrt(max(0.0, 1 - (dy / RADIUS) ** 2))


def _node_item(node: Node, row: int, column: int, subscript: str) -> Item:
    text = text_width(node.label, 14) + text_width(subscript, 10)
    padding = 11.0 if node.kind == "input" else 16.0 if node.ringed else 13.0
    half = max(RADIUS, text / 2 + padding)
    return Item((node.id, column, -1, column), row, column, node, subscript, half)


@dataclass
class Link:
    """An edge without lag: the items it passes from the upper end to the lower one."""

    edge: Edge
    path: list[Item]
    upwards: bool


@dataclass
class Layout:
    items: dict[Key, Item]
    rows: list[list[Item]]
    links: list[Link]
    temporal: range  # the rows of temporal nodes
    columns: int
    width: float = 0.0  # of a column of the unrolled drawing

    def column_span(self, column: int) -> tuple[float, float]:
        left = column * (self.width + 2 * PAD + _CHANNEL)
        return left - PAD, left + self.width + PAD

    def node(self, name: str, column: int) -> Item:
        return self.items[name, column, -1, column]

    def neighbours(self) -> tuple[dict[Key, list[Item]], dict[Key, list[Item]]]:
        """The distinct items above and below each item that an edge leads to."""
        pairs = {(a.key, b.key): (a, b) for link in self.links for a, b in pairwise(link.path)}
        above: dict[Key, list[Item]] = defaultdict(list)
        below: dict[Key, list[Item]] = defaultdict(list)
        for a, b in pairs.values():
            below[a.key].append(b)
            above[b.key].append(a)
        return above, below


def _assign_rows(graph: Graph) -> tuple[dict[str, int], range]:
    """A row for every node: statics, then temporal nodes, then statics that depend on those."""
    parents: dict[str, list[str]] = defaultdict(list)
    children: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        if not edge.across and edge.source != edge.target:
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


def build(graph: Graph, steps: int | None) -> Layout:
    """Items and links: one column with subscript t if `steps` is None, else one per step."""
    validate(graph)
    level, temporal = _assign_rows(graph)
    columns = 1 if steps is None else steps
    layout = Layout({}, [[] for _ in range(1 + max(level.values(), default=-1))], [], temporal, 0)
    layout.columns = columns if temporal else 0

    def put(item: Item) -> Item:
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
                item = put(_node_item(node, level[node.id], column, subscript))
                item.hidden = steps is not None and not exists(node, column)

    for edge in graph.edges:
        if edge.across or edge.source == edge.target:
            continue
        moving = is_temporal[edge.source] or is_temporal[edge.target]
        for column in range(columns) if moving else (0,):
            if steps is not None and moving and not is_active(edge, column):
                continue
            a = layout.node(edge.source, column if is_temporal[edge.source] else -1)
            b = layout.node(edge.target, column if is_temporal[edge.target] else -1)
            if a.hidden or b.hidden:
                continue
            upwards = a.row > b.row
            if upwards:
                a, b = b, a
            path = [a]
            for row in range(a.row + 1, b.row):
                place = max(a.column, b.column, 0) if row in temporal else -1
                key = (a.key[0], a.column, row, place)
                path.append(layout.items.get(key) or put(Item(key, row, place)))
            layout.links.append(Link(edge, [*path, b], upwards))
    return layout
