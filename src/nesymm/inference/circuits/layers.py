"""A circuit as a sequence of tables, for array libraries.

Sums of the same depth do not depend on each other and form a layer. Consecutive layers of
similar width form a *section*: they are padded to the same shape, so that a section is one
loop over its layers, and a tall circuit (a chain of hundreds of layers) compiles as quickly
as a flat one. Within a layer there are two *lanes*: sums of at most two products, which is
nearly all of them, and wider ones.

Values live in one buffer: `false`, `true`, the literals, then the sums, layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nesymm.inference.circuits.graph import FALSE_NODE, FAN_IN, Graph

_LANES = (2, FAN_IN)

# What one more section costs, in padded products: a section takes long to compile, once;
# padding is evaluated again and again, but matters less in a large circuit.
_SECTION = 200
_SECTION_PART = 0.05


class Lane(NamedTuple):
    """`primes` and `subs`: places in the buffer, of shape (layer, sum, product);
    `scopes` of the sums, of shape (layer, sum)."""

    primes: np.ndarray
    subs: np.ndarray
    scopes: np.ndarray

    @property
    def width(self) -> int:
        return self.scopes.shape[1]


Section = tuple[Lane, ...]


class Tables(NamedTuple):
    """All that a pass over a circuit reads; a tree of arrays.

    `owners` gives the variable of each literal, `firsts` the first literal of each variable.
    """

    owners: np.ndarray
    firsts: np.ndarray
    sections: tuple[Section, ...]
    roots: np.ndarray


def tables_of(graph: Graph) -> Tables:
    """The tables of a graph."""
    fan = np.diff(graph.starts)
    lane_of = np.searchsorted(_LANES, fan)
    layers = int(graph.depths.max(initial=-1)) + 1
    counts = np.zeros((layers, len(_LANES)), np.int64)
    np.add.at(counts, (graph.depths, lane_of), 1)
    spans = _spans(counts)

    # The sums of each lane of each layer, and from these the place of every sum.
    key = graph.depths * len(_LANES) + lane_of
    cuts = np.searchsorted(np.sort(key), np.arange(1, counts.size))
    members = np.split(np.argsort(key, kind="stable"), cuts) if counts.size else []
    place = np.arange(graph.first_sum + len(fan), dtype=np.int32)
    offset = graph.first_sum
    for first, last in spans:
        widths = counts[first:last].max(axis=0)
        for i in range(first * len(_LANES), last * len(_LANES)):
            place[graph.first_sum + members[i]] = offset + np.arange(len(members[i]))
            offset += int(widths[i % len(_LANES)])

    placed = place[graph.primes], place[graph.subs]
    sections: list[Section] = []
    for first, last in spans:
        widths = counts[first:last].max(axis=0)
        lanes = [
            _lane(graph, placed, members[_rows(first, last, i)], int(width), fan_in)
            for i, (width, fan_in) in enumerate(zip(widths, _LANES, strict=True))
            if width
        ]
        sections.append(tuple(lanes))
    owners = np.repeat(np.arange(len(graph.sizes), dtype=np.int32), graph.sizes)
    firsts = (np.cumsum(graph.sizes) - graph.sizes).astype(np.int32)
    return Tables(owners, firsts, tuple(sections), place[graph.roots])


def _rows(first: int, last: int, lane: int) -> slice:
    return slice(first * len(_LANES) + lane, last * len(_LANES), len(_LANES))


def _lane(
    graph: Graph,
    placed: tuple[np.ndarray, np.ndarray],
    members: Sequence[np.ndarray],
    width: int,
    fan_in: int,
) -> Lane:
    """The tables of one lane: `placed` primes and subs, and the sums of each layer."""
    shape = (len(members), width, fan_in)
    tables = np.full(shape, FALSE_NODE, np.int32), np.full(shape, FALSE_NODE, np.int32)
    scopes = np.zeros(shape[:2], np.int32)
    for layer, sums in enumerate(members):
        scopes[layer, : len(sums)] = graph.scopes[sums]
        starts, fan = graph.starts[sums], graph.starts[sums + 1] - graph.starts[sums]
        slot = np.repeat(np.arange(len(sums)), fan)
        product = np.arange(len(slot)) - np.repeat(np.cumsum(fan) - fan, fan)
        element = np.repeat(starts, fan) + product
        for table, source in zip(tables, placed, strict=True):
            table[layer, slot, product] = source[element]
    return Lane(*tables, scopes)


def _spans(counts: np.ndarray) -> list[tuple[int, int]]:
    """Which layers form a section: the least padding, at a price per section."""
    layers = len(counts)
    fans = np.array(_LANES)
    price = _SECTION + _SECTION_PART * (counts @ fans).sum()
    # best[i]: the cost of the layers before i; the widest so far for every start.
    best = np.zeros(layers + 1)
    cut = np.zeros(layers + 1, np.int64)
    widest = np.zeros_like(counts)
    for end in range(1, layers + 1):
        widest[:end] = np.maximum(widest[:end], counts[end - 1])
        height = end - np.arange(end)
        cost = best[:end] + price + height * (widest[:end] @ fans)
        cut[end] = np.argmin(cost)
        best[end] = cost[cut[end]]
    spans = []
    end = layers
    while end:
        spans.append((int(cut[end]), end))
        end = int(cut[end])
    return spans[::-1]
