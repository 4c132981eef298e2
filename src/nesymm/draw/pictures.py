"""The two drawings: with a plate, and unrolled over time."""

from __future__ import annotations

from collections import defaultdict

from nesymm.draw.layout import PAD, RADIUS, Item, Key, Layout, Point, caption_of
from nesymm.draw.model import Edge, Graph
from nesymm.draw.paint import (
    BLUE,
    DARK_GREY,
    GREY,
    Picture,
    Stroke,
    document,
    legend_of,
    paint,
    rect_svg,
    text_svg,
)
from nesymm.draw.paths import (
    Lag,
    Path,
    Ports,
    approach,
    find_lanes,
    find_ports,
    link_path,
    plate_lags,
    stack_rows,
    unrolled_lags,
)
from nesymm.draw.place import plate_layout, unrolled_layout


def plate_svg(graph: Graph) -> str:
    """Static nodes outside, temporal ones in a box; a lagged edge leaves the box and returns."""
    return document(graph.title, _plate_picture(graph), legend_of(graph))


def unrolled_svg(graph: Graph, steps: int = 3) -> str:
    """Static nodes once, temporal ones in one column per time step."""
    return document(graph.title, _unrolled_picture(graph, steps), legend_of(graph))


def both_svg(graph: Graph, steps: int = 3) -> str:
    """The plate and the unrolled model in one drawing; only the former if nothing is temporal."""
    plate = _plate_picture(graph)
    if not any(node.temporal for node in graph.nodes):
        return document(graph.title, plate, legend_of(graph))
    unrolled = _unrolled_picture(graph, steps)
    beside = plate.width + unrolled.width <= 1500
    both = Picture()
    if beside:
        both.add(plate, -plate.left, -plate.top)
        both.add(unrolled, plate.width + 72 - unrolled.left, -unrolled.top)
    else:
        both.add(plate, (unrolled.width - plate.width) / 2 - plate.left, -plate.top)
        both.add(unrolled, -unrolled.left, plate.height + 48 - unrolled.top)
    return document(graph.title, both, legend_of(graph))


def _since(edge: Edge) -> str:
    return "from t=0" if edge.latched else f"t−{edge.lag}"


def _frame(layout: Layout, lags: list[Lag]) -> tuple[float, float]:
    """The top and the bottom of the box around the temporal rows."""
    lanes = find_lanes(lags)
    first, last = layout.temporal.start, layout.temporal.stop - 1
    top = layout.rows[first][0].y - RADIUS - PAD - 8 * len(lanes[first, -1])
    bottom = layout.rows[last][0].y + RADIUS + PAD + 8 * len(lanes[last, 1])
    return top, bottom


def _plate_picture(graph: Graph) -> Picture:
    layout = plate_layout(graph)
    lags = plate_lags(graph, layout)
    stack_rows(layout, lags)
    ports, lanes = find_ports(layout, lags), find_lanes(lags)
    picture = Picture()
    strokes = _link_strokes(layout, ports)
    fence: list[Point] = []
    if layout.temporal:
        inner = [item for row in layout.temporal for item in layout.rows[row]]
        left = min(item.x - item.half for item in inner) - PAD
        right = max(item.x + item.half for item in inner) + PAD
        top, bottom = _frame(layout, lags)
        bottom += 10
        style = f'fill="none" stroke="{GREY}" stroke-width="2" stroke-opacity="0.6"'
        picture.body.append(rect_svg("plate", (left, top, right, bottom), style))
        picture.body.append(text_svg([("0:T", 0, 12)], right - 11, bottom - 10, DARK_GREY, 1))
        picture.cover((left - 1, top - 1), (right + 1, bottom + 1))
        border = Path((left, top))
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
            out = approach(lag.exit, lag.source, x, ports, lanes)
            back = approach(lag.entry, lag.target, x, ports, lanes)
            path = Path(out[0])
            path.rounded([*out[1:], *reversed(back)])
            strokes.append(Stroke(path, caption_of(lag.edge, _since(lag.edge)), BLUE, True))
    paint(picture, layout, strokes, fence)
    return picture


def _unrolled_picture(graph: Graph, steps: int) -> Picture:
    if steps < 1:
        raise ValueError(f"cannot unroll over {steps} steps: at least 1 is needed")
    layout = unrolled_layout(graph, steps)
    dots: dict[int, Item] = {}

    def dots_at(row: int) -> Item:
        x = layout.column_span(layout.columns)[0] + 14
        return dots.setdefault(row, Item(("", steps, row, steps), row, steps, half=14.0, x=x))

    lags = unrolled_lags(graph, layout, dots_at)
    stack_rows(layout, lags)
    if layout.temporal and not dots:
        dots_at(layout.temporal[len(layout.temporal) // 2])
    for item in dots.values():
        item.y = layout.rows[item.row][0].y
    ports, lanes = find_ports(layout, lags), find_lanes(lags)
    picture = Picture()
    strokes = _link_strokes(layout, ports)
    if layout.temporal:
        top, bottom = _frame(layout, lags)
        for column in range(steps):
            left, right = layout.column_span(column)
            style = f'fill="{GREY}" fill-opacity="0.1"'
            picture.body.append(rect_svg("column", (left, top, right, bottom), style))
            picture.cover((left, top), (right, bottom))
    for lag in lags:
        near = layout.column_span(lag.source.column)[1]
        far = layout.column_span(lag.source.column + 1)[0]
        out = approach(lag.exit, lag.source, near, ports, lanes)
        back = approach(lag.entry, lag.target, far, ports, lanes)
        path = Path(out[0])
        path.rounded(out[1:])
        path.horizontal(back[-1])
        path.rounded(back[-2::-1])
        strokes.append(Stroke(path, caption_of(lag.edge), BLUE))
    paint(picture, layout, strokes)
    for item in dots.values():
        picture.body.append(text_svg([("…", 0, 20)], item.x, item.y + 2, DARK_GREY))
        picture.cover((item.x + item.half, item.y))
    return picture


def _link_strokes(layout: Layout, ports: Ports) -> list[Stroke]:
    """The edges without lag. Where bends are shared, a caption belongs near the target."""
    uses: dict[Key, int] = defaultdict(int)
    for link in layout.links:
        for item in link.path[1:-1]:
            uses[item.key] += 1
    strokes = []
    for link in layout.links:
        shared = any(uses[item.key] > 1 for item in link.path[1:-1])
        last = 1 if shared else None
        strokes.append(Stroke(link_path(link, ports), caption_of(link.edge), last=last))
    return strokes
