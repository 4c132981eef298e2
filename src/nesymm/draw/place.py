"""Order the items of each row, and give them horizontal positions."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from nesymm.draw.layout import PAD, Item, Key, Layout, build
from nesymm.draw.model import Graph


def _order(layout: Layout, lagged: Sequence[str]) -> None:
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

    def settle(row: int, order: list[Item]) -> None:
        rows[row] = order
        place.update((item.key, i) for i, item in enumerate(order))

    def barycentre(row: int, others: dict[Key, list[Item]]) -> None:
        def key(item: Item) -> float:
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


def spread(wanted: list[float], weights: list[float], apart: list[float]) -> list[float]:
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


def _room(a: Item, b: Item) -> float:
    """How far apart the centres of neighbours in a row must be."""
    margin = 26.0 if a.node and b.node else 16.0 if a.node or b.node else 15.0
    return a.half + b.half + margin


def _place(layout: Layout, free: Sequence[int]) -> None:
    """Horizontal positions for the items of the rows in `free`; the other rows stay."""
    above, below = layout.neighbours()

    def settle(row: int, sides: Sequence[dict[Key, list[Item]]]) -> None:
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
        for item, x in zip(items, spread(wanted, weights, apart), strict=True):
            item.x = x

    for row in free:
        settle(row, ())
    for sweep in range(64):
        sides = (above, below) if sweep >= 24 else (above,) if sweep % 2 == 0 else (below,)
        for row in free if sweep % 2 == 0 else reversed(free):
            settle(row, sides)


def _straighten(layout: Layout) -> None:
    """Put the bends that an edge has in successive rows below each other where there is room."""
    chains: dict[tuple[str, int, int], list[Item]] = defaultdict(list)
    for row in layout.rows:
        for item in row:
            if item.node is None:
                chains[item.key[0], item.key[1], item.column].append(item)

    def limits(item: Item) -> tuple[float, float]:
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


def plate_layout(graph: Graph) -> Layout:
    layout = build(graph, None)
    ends = [name for edge in graph.edges if edge.across for name in (edge.source, edge.target)]
    _order(layout, ends)
    _place(layout, range(len(layout.rows)))
    _straighten(layout)
    return layout


def unrolled_layout(graph: Graph, steps: int) -> Layout:
    """The plate's rows, repeated: the order stays, static nodes move to the middle."""
    plate = plate_layout(graph)
    layout = build(graph, steps)
    rank = {item.key: (i, item.x) for row in plate.rows for i, item in enumerate(row)}

    def original(item: Item) -> tuple[int, float]:
        name, column, row, place = item.key
        return rank[name, min(column, 0), row, min(place, 0)]

    for row in layout.rows:
        row.sort(key=lambda item: (item.column, original(item), item.key))
    inner = [item for row in plate.temporal for item in plate.rows[row]]
    left = min((item.x - item.half for item in inner), default=0.0)
    right = max((item.x + item.half for item in inner), default=0.0)
    layout.width = right - left
    for item in layout.items.values():
        start = layout.column_span(max(item.column, 0))[0] + PAD
        item.x = original(item)[1] - left + start
    _place(layout, [row for row in range(len(layout.rows)) if row not in layout.temporal])
    return layout
