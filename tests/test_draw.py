"""Drawings: well-formed, complete, deterministic, and without overlaps."""

from __future__ import annotations

import random
import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest

from nesymm.draw import Edge, Graph, Node, both_svg, plate_svg, unrolled_svg


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
DRAWINGS = {"plate": plate_svg, "unrolled": unrolled_svg, "both": both_svg}

graphs = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
drawings = pytest.mark.parametrize("draw", DRAWINGS.values(), ids=DRAWINGS)

Box = tuple[float, float, float, float]


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def classed(svg: str, name: str) -> list[ElementTree.Element]:
    return [e for e in parse(svg).iter() if name in e.get("class", "").split()]


def box(shape: ElementTree.Element) -> Box:
    if shape.tag.endswith("ellipse"):
        x, y, rx, ry = (float(shape.attrib[k]) for k in ("cx", "cy", "rx", "ry"))
        return x - rx, y - ry, x + rx, y + ry
    x, y, width, height = (float(shape.attrib[k]) for k in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def labels(svg: str) -> list[str]:
    """The label and subscript of every node."""
    return ["_".join(text.itertext()) for text in (joined(g) for g in classed(svg, "node"))]


def joined(group: ElementTree.Element) -> ElementTree.Element:
    keep = ElementTree.Element("g")
    keep.extend(e for e in group if e.tag.endswith("text"))
    return keep


def points(path: ElementTree.Element) -> list[tuple[float, float]]:
    """Points along a path of cubic curves."""
    numbers = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", path.attrib["d"])]
    ends = list(zip(numbers[::2], numbers[1::2], strict=True))
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
    root = parse(draw(graph))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.attrib["viewBox"].split()[2:] == [root.attrib["width"], root.attrib["height"]]
    assert root.findtext("{http://www.w3.org/2000/svg}title") == graph.title


@drawings
@graphs
def test_everything_is_on_the_canvas(graph: Graph, draw) -> None:
    root = parse(draw(graph))
    x, y, width, height = (float(n) for n in root.attrib["viewBox"].split())

    def visit(element: ElementTree.Element, dx: float, dy: float) -> None:
        if move := re.match(r"translate\((\S+) (\S+)\)", element.get("transform", "")):
            dx, dy = dx + float(move[1]), dy + float(move[2])
        corners: list[tuple[float, float]] = []
        if element.get("class") in ("shape", "plate", "column"):
            left, top, right, bottom = box(element)
            corners = [(left, top), (right, bottom)]
        elif element.get("class") == "edge":
            corners = points(element[0])
        for u, v in corners:
            assert x < u + dx < x + width
            assert y < v + dy < y + height
        for child in element:
            visit(child, dx, dy)

    visit(root, 0, 0)


@drawings
@graphs
def test_deterministic(graph: Graph, draw) -> None:
    assert draw(graph) == draw(graph)


@graphs
def test_plate_shows_every_label_once(graph: Graph) -> None:
    expected = [f"{n.label}_t" if n.temporal else n.label for n in graph.nodes]
    assert sorted(labels(plate_svg(graph))) == sorted(expected)


@graphs
def test_unrolled_shows_temporal_nodes_once_per_step(graph: Graph) -> None:
    expected = [n.label for n in graph.nodes if not n.temporal]
    expected += [f"{n.label}_{t}" for n in graph.nodes if n.temporal for t in range(4)]
    assert sorted(labels(unrolled_svg(graph, steps=4))) == sorted(expected)


@pytest.mark.parametrize("draw", [plate_svg, unrolled_svg])
@graphs
def test_nodes_do_not_overlap(graph: Graph, draw) -> None:
    boxes = [box(shape) for shape in classed(draw(graph), "shape")]
    for a, b in combinations(boxes, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, f"{a} overlaps {b}"


@pytest.mark.parametrize("draw", [plate_svg, unrolled_svg])
@graphs
def test_edges_avoid_nodes(graph: Graph, draw) -> None:
    svg = draw(graph)
    shapes = [box(shape) for shape in classed(svg, "shape")]
    for group in classed(svg, "edge"):
        for x, y in points(group[0])[2:-2]:
            for left, top, right, bottom in shapes:
                rx, ry = (right - left) / 2, (bottom - top) / 2
                u, v = (x - left - rx) / rx, (y - top - ry) / ry
                assert u * u + v * v > 0.9, f"an edge passes through the node at {left}, {top}"


@graphs
def test_temporal_nodes_are_inside_the_plate(graph: Graph) -> None:
    svg = plate_svg(graph)
    plates = classed(svg, "plate")
    assert len(plates) == any(n.temporal for n in graph.nodes)
    inside = 0
    for shape in classed(svg, "shape") if plates else ():
        (a, b, c, d), (left, top, right, bottom) = box(shape), box(plates[0])
        within = left < a and top < b and c < right and d < bottom
        outside = c < left or right < a or d < top or bottom < b
        assert within or outside
        inside += within
    assert inside == sum(n.temporal for n in graph.nodes)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_number_of_columns(steps: int) -> None:
    svg = unrolled_svg(GAME, steps=steps)
    columns = [box(column) for column in classed(svg, "column")]
    assert len(columns) == steps
    assert all(a[2] < b[0] for a, b in pairwise(columns))
    assert "…" in svg


def test_edges_exist_only_at_their_steps() -> None:
    # 1 from image to monster, 1 to player at 0 only, 2 from monster to player from 1 on,
    # 8 others in each of 3 steps, and the lag: 2 between steps and 1 to the dots.
    assert len(classed(unrolled_svg(GAME), "edge")) == 1 + 1 + 2 + 3 * 8 + 3
    assert len(classed(plate_svg(GAME), "edge")) == len(GAME.edges)


def test_captions_name_networks_and_lags() -> None:
    captions = {"".join(joined(g).itertext()) for g in classed(plate_svg(GAME), "caption")}
    assert all("φ" in c or "t−1" in c for c in captions)
    assert any("noisy_player" in c and "t=0" in c for c in captions)
    assert any("noisy_monster" in c and "t=" not in c for c in captions)


def test_static_model_has_no_plate_no_columns_and_no_lags() -> None:
    for svg in (plate_svg(ALARM), unrolled_svg(ALARM), both_svg(ALARM)):
        assert not classed(svg, "plate")
        assert not classed(svg, "column")
        assert "stroke-dasharray" not in svg
        assert "…" not in svg
        assert len(classed(svg, "node")) == len(ALARM.nodes)
    assert both_svg(ALARM) == plate_svg(ALARM)


def test_both_holds_the_plate_and_the_columns() -> None:
    svg = both_svg(GAME, steps=2)
    assert len(classed(svg, "plate")) == 1
    assert len(classed(svg, "column")) == 2


def test_text_is_escaped() -> None:
    nasty = "a<b> & \"c\" 'd' \x00\ud800"
    graph = Graph((Node("n", nasty), temporal("m", "é日本")), (Edge("n", "m", label="<&>"),), nasty)
    clean = nasty.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")
    for draw in DRAWINGS.values():
        svg = draw(graph)
        assert clean in labels(svg)
        assert any("<&>" in "".join(g.itertext()) for g in classed(svg, "caption"))
        svg.encode("utf-8")


def test_shapes_grow_with_their_labels() -> None:
    widths = []
    for label in ("P", "hit(E)", "position(agent,X,Y)"):
        left, top, right, bottom = box(
            classed(plate_svg(Graph((Node("n", label),), (), "")), "shape")[0]
        )
        widths.append(right - left)
        assert bottom - top == 44
    assert widths[0] == 44
    assert widths == sorted(widths)


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
        plate_svg(Graph((Node("x", "x"), temporal("y")), (edge,), ""))


def test_mistaken_nodes_and_steps_are_reported() -> None:
    with pytest.raises(ValueError, match="two nodes of the graph have the same id"):
        plate_svg(Graph((Node("x", "x"), Node("x", "y")), (), ""))
    with pytest.raises(ValueError, match="cannot unroll over 0 steps: at least 1 is needed"):
        unrolled_svg(GAME, steps=0)
