"""Drawings: well-formed, complete, deterministic, and without overlaps."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest

from nesymm.draw import both, plate, render, unrolled
from nesymm.errors import NesymmError
from nesymm.ir.graph import Edge, Graph, Node


def temporal(name: str, label: str = "", kind: str = "variable") -> Node:
    return Node(name, label or name, kind=kind, temporal=True)  # type: ignore[arg-type]


GAME = Graph(
    nodes=(
        Node("image", "image", kind="input"),
        temporal("player"),
        Node("monster", "monster"),
        Node("clumsy", "clumsy"),
        temporal("hits", kind="derived"),
        temporal("safe", kind="observed"),
        temporal("game_over", kind="query"),
    ),
    edges=(
        Edge("image", "player", label="noisy_player", first=0, last=0),
        Edge("image", "monster", label="noisy_monster"),
        Edge("player", "player", lag=1),
        Edge("monster", "player", first=1),
        Edge("player", "hits"),
        Edge("monster", "hits"),
        Edge("clumsy", "hits"),
        Edge("player", "safe"),
        Edge("monster", "safe"),
        Edge("hits", "game_over"),
        Edge("player", "game_over"),
        Edge("monster", "game_over"),
    ),
    title="markov_game",
)

DUNGEON = Graph(
    nodes=(
        Node("start", "start(X,Y)", kind="input"),
        Node("theta", "theta"),
        temporal("action", "action(A)", "input"),
        temporal("agent", "agent(X,Y)"),
        temporal("enemy1", "enemy(1)"),
        temporal("enemy2", "enemy(2)"),
        temporal("image", "image", "observed"),
        temporal("near1", "near(1)", "derived"),
        temporal("near2", "near(2)", "derived"),
        temporal("hit1", "hit(1)"),
        temporal("hit2", "hit(2)"),
        temporal("damage", "damage(D)"),
        temporal("hp", "hp(H)"),
        temporal("dead", "dead", "query"),
        temporal("moved", "moved", "derived"),
        temporal("wall", "wall", "observed"),
    ),
    edges=(
        Edge("start", "agent", first=0, last=0),
        Edge("theta", "hit1"),
        Edge("theta", "hit2"),
        Edge("action", "agent", label="policy"),
        Edge("agent", "agent", lag=1),
        Edge("agent", "near1"),
        Edge("agent", "near2"),
        Edge("enemy1", "near1"),
        Edge("enemy2", "near2"),
        Edge("near1", "hit1"),
        Edge("near2", "hit2"),
        Edge("hit1", "damage"),
        Edge("hit2", "damage"),
        Edge("damage", "hp"),
        Edge("hp", "hp", lag=1),
        Edge("hp", "dead"),
        Edge("agent", "moved"),
        Edge("agent", "wall"),
        Edge("agent", "image", label="decoder"),
        Edge("enemy1", "image"),
        Edge("enemy2", "image"),
        Edge("moved", "dead"),
    ),
    title="dungeon",
)

# Lagged edges whose ends have nodes beside them, and one that skips a step.
LAGGED = Graph(
    DUNGEON.nodes,
    (
        *DUNGEON.edges,
        Edge("enemy1", "enemy1", lag=1),
        Edge("enemy2", "enemy2", lag=1),
        Edge("agent", "enemy1", lag=1),
        Edge("agent", "enemy2", lag=2),
        Edge("hp", "agent", lag=1),
    ),
    "dungeon with more lags",
)

ALARM = Graph(
    nodes=(
        Node("burglary", "burglary"),
        Node("earthquake", "earthquake"),
        Node("alarm", "alarm", kind="derived"),
        Node("john", "calls(john)", kind="observed"),
        Node("mary", "calls(mary)", kind="query"),
        Node("image", "image", kind="input"),
        Node("digit", "digit(X)"),
    ),
    edges=(
        Edge("burglary", "alarm"),
        Edge("earthquake", "alarm"),
        Edge("alarm", "john"),
        Edge("alarm", "mary"),
        Edge("image", "digit", label="cnn"),
        Edge("digit", "mary"),
    ),
    title="alarm",
)

# Positive recursion within a step, and a static node that depends on temporal ones.
CYCLE = Graph(
    nodes=(temporal("a"), temporal("b"), temporal("c"), Node("ever", "ever"), Node("s", "s")),
    edges=(
        Edge("a", "b"),
        Edge("b", "c"),
        Edge("c", "a"),
        Edge("c", "ever"),
        Edge("s", "ever"),
        Edge("b", "b"),
    ),
    title="cycle",
)

ONE = Graph((Node("x", "x"),), (), "one")
CHAIN = Graph((temporal("x"),), (Edge("x", "x", lag=1),), "")
EMPTY = Graph((), (), "empty")


def random_graph(seed: int, size: int = 18) -> Graph:
    rng = random.Random(seed)
    static = size // 4
    nodes = tuple(
        Node(f"n{i}", "x" * rng.randint(1, 14), kind="variable", temporal=i >= static)
        for i in range(size)
    )
    edges = [
        Edge(f"n{j}", f"n{i}", label=rng.choice(["", "", "net"]))
        for i in range(1, size)
        for j in rng.sample(range(i), min(i, rng.randint(0, 3)))
    ]
    for _ in range(4):
        a, b = rng.randrange(static, size), rng.randrange(static, size)
        edges.append(Edge(f"n{a}", f"n{b}", lag=rng.randint(1, 2)))
    return Graph(nodes, tuple(edges), f"random {seed}")


GRAPHS = {
    "game": GAME,
    "dungeon": DUNGEON,
    "lagged": LAGGED,
    "alarm": ALARM,
    "cycle": CYCLE,
    "one": ONE,
    "chain": CHAIN,
    "empty": EMPTY,
} | {f"random{seed}": random_graph(seed) for seed in range(4)}
DRAWINGS = {"plate": plate, "unrolled": unrolled, "both": both}

graphs = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
drawings = pytest.mark.parametrize("draw", DRAWINGS.values(), ids=DRAWINGS)

Box = tuple[float, float, float, float]
SVG = "{http://www.w3.org/2000/svg}"


@cache
def drawn(draw: Callable[..., str], graph: Graph, **options: int) -> ElementTree.Element:
    return ElementTree.fromstring(render(draw(graph, **options), "svg"))


def classed(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [e for e in root.iter(f"{SVG}g") if name in e.get("class", "").split()]


def numbers(text: str) -> list[tuple[float, float]]:
    found = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", text)]
    return list(zip(found[::2], found[1::2], strict=True))


def drawn_nodes(root: ElementTree.Element) -> list[ElementTree.Element]:
    """Without the legend, and the dots after the last step."""
    others = (*classed(root, "legend"), *classed(root, "later"))
    return [group for group in classed(root, "node") if group not in others]


def box(group: ElementTree.Element) -> Box:
    """Around the shapes of a node, or the frame of a cluster."""
    corners = []
    for shape in group:
        if shape.tag == f"{SVG}ellipse":
            x, y, rx, ry = (float(shape.attrib[k]) for k in ("cx", "cy", "rx", "ry"))
            corners += [(x - rx, y - ry), (x + rx, y + ry)]
        elif shape.tag in (f"{SVG}path", f"{SVG}polygon"):
            corners += numbers(shape.get("d") or shape.attrib["points"])
    xs, ys = zip(*corners, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def words(group: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in group.iter(f"{SVG}text")]


def labels(root: ElementTree.Element) -> list[str]:
    """The label and subscript of every node."""
    return ["_".join(words(group)) for group in drawn_nodes(root)]


def nodes(root: ElementTree.Element) -> list[Box]:
    return [box(group) for group in drawn_nodes(root)]


def captions(root: ElementTree.Element) -> list[str]:
    return ["".join(words(group)) for group in classed(root, "edge") if words(group)]


def points(edge: ElementTree.Element) -> list[tuple[float, float]]:
    """Points along the curve of an edge."""
    path = next(edge.iter(f"{SVG}path"))
    ends = numbers(path.attrib["d"])
    found = [ends[0]]
    for k in range(1, len(ends), 3):
        a, b, c, d = ends[k - 1], *ends[k : k + 3]
        for i in range(1, 21):
            t = i / 20
            w = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            found.append(
                tuple(sum(w[j] * p[i] for j, p in enumerate((a, b, c, d))) for i in (0, 1))
            )
    return found


@drawings
@graphs
def test_well_formed(graph: Graph, draw) -> None:
    root = drawn(draw, graph)
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}g/{SVG}title", "") == graph.title


@drawings
@graphs
def test_everything_is_on_the_canvas(graph: Graph, draw) -> None:
    root = drawn(draw, graph)
    _, (width, height) = numbers(root.attrib["viewBox"])
    move = re.search(r"translate\((\S+) (\S+)\)", root[0].attrib["transform"])
    assert move is not None
    dx, dy = float(move[1]), float(move[2])
    corners = [p for edge in classed(root, "edge") for p in points(edge)]
    for kind in ("node", "plate", "column", "legend"):
        for group in classed(root, kind):
            if words(group) not in (["…"], ["dashed: from t−1"]):
                left, top, right, bottom = box(group)
                corners += [(left, top), (right, bottom)]
    for x, y in corners:
        assert 0 < x + dx < width
        assert 0 < y + dy < height


@drawings
@graphs
def test_deterministic(graph: Graph, draw) -> None:
    text = draw(graph)
    assert draw(graph) == text
    assert render(text, "svg") == render(text, "svg")


@graphs
def test_plate_shows_every_label_once(graph: Graph) -> None:
    expected = [f"{n.label}_t" if n.temporal else n.label for n in graph.nodes]
    assert sorted(labels(drawn(plate, graph))) == sorted(expected)


@graphs
def test_unrolled_shows_temporal_nodes_once_per_step(graph: Graph) -> None:
    expected = [n.label for n in graph.nodes if not n.temporal]
    expected += [f"{n.label}_{t}" for n in graph.nodes if n.temporal for t in range(4)]
    assert sorted(labels(drawn(unrolled, graph, steps=4))) == sorted(expected)


@drawings
@graphs
def test_nodes_do_not_overlap(graph: Graph, draw) -> None:
    for a, b in combinations(nodes(drawn(draw, graph)), 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, f"{a} overlaps {b}"


@drawings
@graphs
def test_edges_avoid_nodes(graph: Graph, draw) -> None:
    root = drawn(draw, graph)
    shapes = nodes(root)
    for edge in classed(root, "edge"):
        for x, y in points(edge)[2:-2]:
            for left, top, right, bottom in shapes:
                rx, ry = (right - left) / 2, (bottom - top) / 2
                u, v = (x - left - rx) / rx, (y - top - ry) / ry
                assert u * u + v * v > 0.9, f"an edge passes through the node at {left}, {top}"


@graphs
def test_temporal_nodes_are_inside_the_plate(graph: Graph) -> None:
    root = drawn(plate, graph)
    plates = classed(root, "plate")
    assert len(plates) == any(n.temporal for n in graph.nodes)
    inside = 0
    for a, b, c, d in nodes(root) if plates else ():
        left, top, right, bottom = box(plates[0])
        within = left < a and top < b and c < right and d < bottom
        outside = c < left or right < a or d < top or bottom < b
        assert within or outside
        inside += within
    assert inside == sum(n.temporal for n in graph.nodes)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_number_of_columns(steps: int) -> None:
    root = drawn(unrolled, GAME, steps=steps)
    columns = [box(column) for column in classed(root, "column")]
    assert len(columns) == steps
    assert all(a[2] < b[0] for a, b in pairwise(columns))
    assert words(classed(root, "later")[0]) == ["…"]


def test_edges_exist_only_at_their_steps() -> None:
    # 1 from image to monster, 1 to player at 0 only, 2 from monster to player from 1 on,
    # 8 others in each of 3 steps, and the lag: 2 between steps and 1 to the dots.
    assert len(classed(drawn(unrolled, GAME), "edge")) == 1 + 1 + 2 + 3 * 8 + 3
    assert len(classed(drawn(plate, GAME), "edge")) == len(GAME.edges)


def test_captions_name_networks_and_lags() -> None:
    found = captions(drawn(plate, GAME))
    assert sorted(found) == ["φnoisy_monster", "φnoisy_player t=0"]
    assert captions(drawn(plate, LAGGED)).count("t−2") == 1


def test_edges_across_time_look_different() -> None:
    root = drawn(plate, LAGGED)
    dashed = [e for e in root.iter(f"{SVG}path") if e.get("stroke-dasharray")]
    assert len(dashed) == sum(edge.across for edge in LAGGED.edges)
    assert len({e.get("stroke") for e in dashed}) == 1
    assert ["dashed: from t−1"] in [words(g) for g in classed(root, "legend")]


def test_kinds_look_different() -> None:
    def looks(group: ElementTree.Element) -> tuple[object, ...]:
        shapes = [e for e in group if e.tag in (f"{SVG}ellipse", f"{SVG}path")]
        return shapes[0].tag, shapes[0].get("fill"), shapes[0].get("fill-opacity"), len(shapes)

    root = drawn(plate, DUNGEON)
    kinds = ("input", "variable", "derived", "observed", "query")
    found = {kind: {looks(group) for group in classed(root, kind)} for kind in kinds}
    # Of each kind, all nodes and the entry of the legend look the same.
    assert all(len(styles) == 1 for styles in found.values())
    assert len(set.union(*found.values())) == len(kinds)


def test_static_model_has_no_plate_no_columns_and_no_lags() -> None:
    for draw in DRAWINGS.values():
        root = drawn(draw, ALARM)
        assert not classed(root, "plate")
        assert not classed(root, "column")
        assert not classed(root, "later")
        assert not any(e.get("stroke-dasharray") for e in root.iter())
        assert len(drawn_nodes(root)) == len(ALARM.nodes)
    assert both(ALARM) == plate(ALARM)


def test_both_holds_the_plate_and_the_columns() -> None:
    root = drawn(both, GAME, steps=2)
    assert len(classed(root, "plate")) == 1
    assert len(classed(root, "column")) == 2


def test_text_is_escaped() -> None:
    nasty = "a<b> & \"c\" 'd' \x00\ud800 \\"
    graph = Graph((Node("n", nasty), temporal("m", "é日本")), (Edge("n", "m", label="<&>"),), nasty)
    clean = nasty.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    for draw in DRAWINGS.values():
        root = drawn(draw, graph)
        assert clean in labels(root)
        assert "φ<&>" in captions(root)
        assert clean in words(root)


def test_formats() -> None:
    text = plate(GAME)
    assert render(text, "png").startswith(b"\x89PNG")
    assert render(text, "pdf").startswith(b"%PDF")
    assert render(text, "dot").decode() == text
    assert text.startswith('digraph "markov_game" {')


def test_what_graphviz_cannot_draw_is_reported() -> None:
    with pytest.raises(NesymmError, match="Graphviz cannot draw the model: "):
        render("digraph {", "svg")


def test_shapes_grow_with_their_labels() -> None:
    widths = []
    for label in ("P", "hit(E)", "position(agent,X,Y)"):
        ((left, top, right, bottom),) = nodes(drawn(plate, Graph((Node("n", label),), (), "")))
        widths.append(right - left)
        assert 40 < bottom - top < 46
    assert widths == sorted(set(widths))


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        (Edge("x", "z"), "an edge mentions 'z', which is not a node of the graph"),
        (Edge("x", "y", lag=-1), "the edge to 'y' has the negative lag -1"),
        (
            Edge("x", "y", lag=1),
            "the edge from 'x' to 'y' has a lag, but not both ends are temporal",
        ),
    ],
)
def test_mistaken_edges_are_reported(edge: Edge, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        plate(Graph((Node("x", "x"), temporal("y")), (edge,), ""))


def test_mistaken_nodes_and_steps_are_reported() -> None:
    with pytest.raises(ValueError, match="two nodes of the graph have the same id"):
        plate(Graph((Node("x", "x"), Node("x", "y")), (), ""))
    with pytest.raises(ValueError, match="cannot unroll over 0 steps: at least 1 is needed"):
        unrolled(GAME, steps=0)
