"""SVG elements: nodes, edges, captions where there is room, and the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from math import hypot

from nesymm.draw.layout import RADIUS, Caption, Item, Layout, Point, text_width
from nesymm.draw.model import Graph, Kind
from nesymm.draw.paths import Path, num, pt

_FONT = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
_INK = "#2A2A2A"
BLUE = "#277DA1"
_GREEN = "#61b876"
GREY = "#A5A5A5"
DARK_GREY = "#757575"
_Box = tuple[float, float, float, float]


def _clean(text: str) -> str:
    """Escaped for XML, with what XML cannot hold replaced."""

    def allowed(char: str) -> bool:
        code = ord(char)
        return char in "\t\n\r" or (code >= 0x20 and not 0xD800 <= code <= 0xDFFF and code < 0xFFFE)

    return escape("".join(c if allowed(c) or ord(c) > 0xFFFF else "\ufffd" for c in text))


def text_svg(pieces: Caption, x: float, y: float, color: str, anchor: float = 0.5) -> str:
    """Pieces of text on one line, `anchor` (0 start, 1 end) of their width at `x`."""
    x -= anchor * sum(text_width(text, size) for text, _, size in pieces)
    body = ""
    for text, shift, size in pieces:
        width = text_width(text, size)
        if text.isspace():
            x += width
            continue
        place = f'x="{num(x)}" y="{num(y + shift)}" font-size="{num(size)}"'
        body += f'<text {place} fill="{color}">{_clean(text)}</text>'
        x += width
    return body


@dataclass
class Picture:
    """SVG elements and their extent."""

    body: list[str] = field(default_factory=list)
    box: list[float] = field(default_factory=lambda: [1e9, 1e9, -1e9, -1e9])

    left = property(lambda self: self.box[0])
    top = property(lambda self: self.box[1])
    width = property(lambda self: max(0.0, self.box[2] - self.box[0]))
    height = property(lambda self: max(0.0, self.box[3] - self.box[1]))

    def cover(self, *points: Point) -> None:
        for x, y in points:
            self.box = [
                min(self.box[0], x),
                min(self.box[1], y),
                max(self.box[2], x),
                max(self.box[3], y),
            ]

    def add(self, other: Picture, dx: float, dy: float) -> None:
        inner = "\n".join(other.body)
        self.body.append(f'<g transform="translate({num(dx)} {num(dy)})">\n{inner}\n</g>')
        self.cover((other.box[0] + dx, other.box[1] + dy), (other.box[2] + dx, other.box[3] + dy))


def rect_svg(name: str, box: _Box, style: str) -> str:
    left, top, right, bottom = box
    return (
        f'<rect class="{name}" x="{num(left)}" y="{num(top)}" width="{num(right - left)}" '
        f'height="{num(bottom - top)}" rx="12" {style}/>'
    )


@dataclass
class Stroke:
    """An edge, ready to be drawn. Its caption goes near its `last` curves (None: all)."""

    path: Path
    caption: Caption
    color: str = _INK
    dashed: bool = False
    last: int | None = None


def paint(
    picture: Picture, layout: Layout, strokes: list[Stroke], fence: Sequence[Point] = ()
) -> None:
    """Add edges, then captions where there is room, then nodes."""
    nodes = [item for row in layout.rows for item in row if item.node and not item.hidden]
    busy: list[_Box] = [
        (n.x - n.half - 2, n.y - RADIUS - 2, n.x + n.half + 2, n.y + RADIUS + 2) for n in nodes
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
            text = text_svg(stroke.caption, x, y, stroke.color)
            halo = text.replace("<text ", '<text stroke="white" stroke-width="3.5" ')
            picture.body.append(f'<g class="caption">{halo}{text}</g>')
    for item in nodes:
        picture.cover((item.x - item.half, item.y - RADIUS), (item.x + item.half, item.y + RADIUS))
        picture.body.append(_node_svg(item))


class _Ink:
    """Points that captions should not cover, sorted into cells."""

    size = 48.0

    def __init__(self, points: Iterable[Point]):
        self.cells: dict[tuple[int, int], list[Point]] = defaultdict(list)
        for x, y in points:
            self.cells[int(x // self.size), int(y // self.size)].append((x, y))

    def near(self, box: _Box) -> Iterable[Point]:
        low_x, low_y, high_x, high_y = (int(side // self.size) for side in box)
        for column in range(low_x, high_x + 1):
            for row in range(low_y, high_y + 1):
                for x, y in self.cells.get((column, row), ()):
                    if box[0] < x < box[2] and box[1] < y < box[3]:
                        yield x, y


def _free_box(stroke: Stroke, busy: list[_Box], ink: _Ink) -> _Box:
    """A place for the caption beside the edge that covers little else."""
    width = sum(text_width(text, size) for text, _, size in stroke.caption) + 4
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


def _edge_svg(stroke: Stroke) -> str:
    """The curve and its arrow head, whose tip touches the node."""
    path = stroke.path
    start, end = ([path.start, *(c[2] for c in path.curves)][-2], path.end)
    first, second, _ = path.curves[-1]
    tail = next(p for p in (second, first, start) if hypot(p[0] - end[0], p[1] - end[1]) > 0.5)
    length = hypot(end[0] - tail[0], end[1] - tail[1])
    ux, uy = (end[0] - tail[0]) / length, (end[1] - tail[1]) / length
    base = (end[0] - 7.5 * ux, end[1] - 7.5 * uy)
    head = [end, (base[0] - 3.2 * uy, base[1] + 3.2 * ux), (base[0] + 3.2 * uy, base[1] - 3.2 * ux)]
    short = Path(
        path.start,
        [
            *path.curves[:-1],
            (first, (second[0] - 5 * ux, second[1] - 5 * uy), (end[0] - 5 * ux, end[1] - 5 * uy)),
        ],
    )
    dashes = ' stroke-dasharray="5 4"' if stroke.dashed else ""
    return (
        f'<g class="edge"><path d="{short.svg()}" fill="none" stroke="{stroke.color}" '
        f'stroke-width="1.3"{dashes}/><path d="M{"L".join(map(pt, head))}Z" '
        f'fill="{stroke.color}" stroke="{stroke.color}" stroke-linejoin="round"/></g>'
    )


_FILLS = {
    "input": (GREY, 0.4),
    "variable": (BLUE, 0.35),
    "derived": (BLUE, 0.12),
    "observed": (_GREEN, 0.45),
    "query": (BLUE, 0.35),
}


_MEANING = {
    "input": "input",
    "variable": "random variable",
    "derived": "derived",
    "observed": "observed",
    "query": "query",
}


def _shape(
    kind: Kind, x: float, y: float, half: float, high: float, name: str, ring: bool = False
) -> str:
    color, opacity = _FILLS[kind]
    if kind == "input":
        place = (
            f'rect class="{name}" x="{num(x - half)}" y="{num(y - high)}" '
            f'width="{num(2 * half)}" height="{num(2 * high)}" rx="{num(high / 3)}"'
        )
    else:
        place = (
            f'ellipse class="{name}" cx="{num(x)}" cy="{num(y)}" rx="{num(half)}" ry="{num(high)}"'
        )
    shape = f'<{place} fill="{color}" fill-opacity="{opacity}"/>'
    if ring:
        inset = 0.14 * high
        shape += (
            f'<ellipse cx="{num(x)}" cy="{num(y)}" rx="{num(half - inset)}" '
            f'ry="{num(high - inset)}" fill="none" stroke="{color}" stroke-width="1.2"/>'
        )
    return shape


def _node_svg(item: Item) -> str:
    node = item.node
    assert node is not None
    pieces: Caption = [(node.label, 0, 14)]
    if item.subscript:
        pieces.append((item.subscript, 4, 10))
    shape = _shape(node.kind, item.x, item.y, item.half, RADIUS, "shape", node.ringed)
    return f'<g class="node {node.kind}">{shape}{text_svg(pieces, item.x, item.y + 4.5, _INK)}</g>'


def legend_of(graph: Graph) -> Picture:
    """What the shapes mean, for the kinds that occur."""
    picture = Picture()
    kinds = {node.kind for node in graph.nodes}
    if any(node.ringed for node in graph.nodes):
        kinds.add("query")
    x = 0.0
    for kind, meaning in _MEANING.items():
        if kind in kinds:
            half = 7.0
            picture.body.append(_shape(kind, x + half, 0, half, half, "swatch", kind == "query"))
            picture.body.append(text_svg([(meaning, 0, 11)], x + 20, 4, DARK_GREY, 0))
            end = x + 20 + text_width(meaning, 11)
            picture.cover((x, -8), (end, 8))
            x = end + 22
    return picture


def document(title: str, picture: Picture, legend: Picture) -> str:
    """An SVG document: the title, the picture, and the legend below it."""
    margin = 20.0
    page = Picture()
    head = 34.0 if title else 0.0
    inner = max(picture.width, legend.width, text_width(title, 14))
    page.add(picture, (inner - picture.width) / 2 - picture.left, head - picture.top)
    if title:
        page.body.insert(0, text_svg([(title, 0, 14)], 0, 11, DARK_GREY, 0))
    if legend.body:
        page.add(legend, 0, head + picture.height + 34)
    foot = 42.0 if legend.body else 0.0
    width, height = inner + 2 * margin, head + picture.height + foot + 2 * margin
    x, y = num(-margin), num(-margin)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{num(width)}" height="{num(height)}" '
        f'viewBox="{x} {y} {num(width)} {num(height)}" font-family="{_FONT}">\n'
        f"<title>{_clean(title)}</title>\n"
        f'<rect x="{x}" y="{y}" width="{num(width)}" height="{num(height)}" fill="white"/>\n'
        + "\n".join(page.body)
        + "\n</svg>\n"
    )
