"""Variable trees: in which order, and how nested, a circuit decides its variables.

The leaves are *items*: the formula's variables, and after them the recursive atoms, which
need a bit each while they are being eliminated. A variable with `n` values has
`ceil(log2 n)` bits that stay together, so that whatever a diagram says inside such a block
is a set of values, and no constraint "exactly one value" is needed anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

Code = tuple[tuple[int, bool], ...]


def bit_count(size: int) -> int:
    return (size - 1).bit_length()


def split(low: int, high: int) -> int:
    """Where a bit divides the values `low..high - 1`."""
    return (low + high + 1) // 2


@lru_cache(maxsize=64)
def value_codes(size: int) -> list[Code]:
    """The bits, and their values, that say each of `size` values: a complete prefix code.

    Every assignment of the bits says exactly one value. Neighbouring values share
    prefixes, so intervals are small diagrams.
    """
    codes: list[Code] = [()] * size
    stack: list[tuple[int, int, Code]] = [(0, size, ())]
    while stack:
        low, high, code = stack.pop()
        if high - low == 1:
            codes[low] = code
        else:
            middle = split(low, high)
            stack.append((low, middle, (*code, (len(code), False))))
            stack.append((middle, high, (*code, (len(code), True))))
    return codes


@dataclass(frozen=True)
class Vtree:
    """A binary tree over the bits of items; node ids are such that children come first.

    `bit[node]` is the bit at a leaf (from 1 on) and 0 elsewhere; `item[node]` the item
    whose block the node is in, or -1 above the blocks.
    """

    left: list[int]
    right: list[int]
    bit: list[int]
    item: list[int]
    bits: dict[int, list[int]]

    def __len__(self) -> int:
        return len(self.bit)

    @cached_property
    def order(self) -> list[int]:
        """The nodes from left to right, each between its children."""
        order: list[int] = []
        stack: list[int] = []
        node = len(self) - 1
        while stack or node >= 0:
            while node >= 0:
                stack.append(node)
                node = self.left[node]
            node = stack.pop()
            order.append(node)
            node = self.right[node]
        return order

    @cached_property
    def _by_position(self) -> tuple[list[int], list[int], list[int]]:
        position = [0] * len(self)
        for i, node in enumerate(self.order):
            position[node] = i
        parent = [-1] * len(self)
        depth = [0] * len(self)
        for node in range(len(self) - 1, -1, -1):
            for child in (self.left[node], self.right[node]):
                if child >= 0:
                    parent[position[child]] = position[node]
                    depth[position[child]] = depth[position[node]] + 1
        return parent, depth, [self.item[node] for node in self.order]

    @property
    def items_by_position(self) -> list[int]:
        return self._by_position[2]

    @property
    def height(self) -> int:
        return max(self._by_position[1], default=0) + 1

    def common_depth(self, a: int, b: int) -> int:
        """The depth of the lowest node above both positions."""
        parent, depth, _ = self._by_position
        while a != b:
            if depth[a] >= depth[b]:
                a = parent[a]
            else:
                b = parent[b]
        return depth[a]

    def text(self) -> str:
        """The file format of the SDD library."""
        lines = [f"vtree {len(self)}"]
        for node, bit in enumerate(self.bit):
            if bit:
                lines.append(f"L {node} {bit}")
            else:
                lines.append(f"I {node} {self.left[node]} {self.right[node]}")
        return "\n".join(lines) + "\n"


class Builder:
    """Makes a vtree bottom-up; the last node made must be its root."""

    def __init__(self, sizes: Sequence[int]):
        self.sizes = sizes
        self.tree = Vtree([], [], [], [], {})
        self._bits = 0

    def leaf(self, item: int) -> int:
        """The block of an item. Items past the variables have one bit."""
        count = bit_count(self.sizes[item]) if item < len(self.sizes) else 1
        bits = list(range(self._bits + 1, self._bits + 1 + count))
        self._bits += count
        self.tree.bits[item] = bits
        node = self._add(-1, -1, bits[-1], item)
        for bit in reversed(bits[:-1]):
            node = self._add(self._add(-1, -1, bit, item), node, 0, item)
        return node

    def inner(self, left: int, right: int) -> int:
        return self._add(left, right, 0, -1)

    def _add(self, left: int, right: int, bit: int, item: int) -> int:
        tree = self.tree
        tree.left.append(left)
        tree.right.append(right)
        tree.bit.append(bit)
        tree.item.append(item)
        return len(tree) - 1


Shape = Callable[[Builder], int]


def balanced(order: Sequence[int], build: Builder) -> int:
    """Halves of halves: shallow circuits."""
    if len(order) == 1:
        return build.leaf(order[0])
    middle = (len(order) + 1) // 2
    left = balanced(order[:middle], build)
    return build.inner(left, balanced(order[middle:], build))


def right_linear(order: Sequence[int], build: Builder) -> int:
    """One item after the other: decision diagrams, deep and dependable."""
    node = build.leaf(order[-1])
    for item in reversed(order[:-1]):
        node = build.inner(build.leaf(item), node)
    return node
