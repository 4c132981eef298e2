"""Draw a model as a graphical model in SVG: with a plate, or unrolled over time.

The layout is layered. Rows come from longest paths; static nodes sit above the temporal
ones. An edge that spans several rows bends in each row between, next to the nodes and never
through them, and the edges of one source share their bends. Rows are ordered to cross few
edges (barycentres, then swaps) and spread out by least squares. The unrolled drawing repeats
the temporal rows of the plate once per step. Everything is deterministic.

`model` says what a graph is, `layout` and `place` find rows and positions, `paths` the curves
of the edges, `paint` the SVG elements, and `pictures` puts the drawings together.
"""

from nesymm.draw.model import Edge, Graph, Node
from nesymm.draw.pictures import both_svg, plate_svg, unrolled_svg

__all__ = ["Edge", "Graph", "Node", "both_svg", "plate_svg", "unrolled_svg"]
