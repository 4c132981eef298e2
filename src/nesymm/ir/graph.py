"""A graphical model: nodes, edges, and the rules they keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["variable", "input", "observed", "query", "derived"]


@dataclass(frozen=True)
class Node:
    """A circle (or, for an input, a square). `temporal` nodes exist once per time step.

    A query has a ring; so has a node of another kind that is `asked` for as well. A temporal
    node exists for `first` <= t <= `last`.
    """

    id: str
    label: str
    kind: Kind = "variable"
    temporal: bool = False
    asked: bool = False
    first: int = 0
    last: int | None = None

    @property
    def ringed(self) -> bool:
        return self.asked or self.kind == "query"


@dataclass(frozen=True)
class Edge:
    """`source` at time t - `lag`, or at step 0 if `latched`, is a parent of `target` at time t.

    `label` names the network on the edge. The edge exists for `first` <= t <= `last`, so that
    `first=0, last=0` is an edge of the initial step only.
    """

    source: str
    target: str
    lag: int = 0
    label: str = ""
    first: int = 0
    last: int | None = None
    latched: bool = False

    @property
    def across(self) -> bool:
        """Whether it joins different steps."""
        return self.lag > 0 or self.latched


@dataclass(frozen=True)
class Graph:
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    title: str


def validate(graph: Graph) -> None:
    nodes = {node.id: node for node in graph.nodes}
    if len(nodes) < len(graph.nodes):
        raise ValueError("two nodes of the graph have the same id")
    for edge in graph.edges:
        for end in (edge.source, edge.target):
            if end not in nodes:
                raise ValueError(f"an edge mentions {end!r}, which is not a node of the graph")
        if edge.lag < 0:
            raise ValueError(f"the edge to {edge.target!r} has the negative lag {edge.lag}")
        if edge.across and not (nodes[edge.source].temporal and nodes[edge.target].temporal):
            raise ValueError(
                f"the edge from {edge.source!r} to {edge.target!r} has a lag, "
                "but not both ends are temporal"
            )


def exists(node: Node, time: int) -> bool:
    return node.first <= time and (node.last is None or time <= node.last)


def is_active(edge: Edge, time: int) -> bool:
    return max(edge.first, edge.lag, edge.latched) <= time and (
        edge.last is None or time <= edge.last
    )
