"""Compiling a formula: several vtrees compete, under budgets that grow.

Which vtree suits a formula cannot be known in advance, and a bad one is exponentially
worse. So all are tried with a small budget, and again with a larger one as long as none
succeeds. Of those that succeed in the same round the cheapest circuit to evaluate wins.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from nesymm.errors import NesymmError
from nesymm.inference.circuits.diagrams import Budget, Diagrams, OutOfBudget, Plan
from nesymm.inference.circuits.export import export
from nesymm.inference.circuits.formula import Formula
from nesymm.inference.circuits.graph import Graph
from nesymm.inference.circuits.minfill import min_fill
from nesymm.inference.circuits.vtrees import Builder, Shape, Vtree, balanced, right_linear

MAX_NODES = 200_000
MAX_SECONDS = 120.0

# How many nodes a vtree may take in each round but the last, and how many times that may
# be made on the way.
_ROUNDS = (5_000, 50_000)
_WORK = 10

# A circuit that costs less than this is taken without a look at other vtrees.
_SMALL = 3_000

# Up to so many nodes of a formula, the min-fill vtree is found in no time.
_QUICK = 3_000

# Evaluating one more layer costs about as much as this many more products.
_LAYER = 50

# The library keeps tables of about 48 KiB on the stack for every level of the vtree.
_STACK_PER_LEVEL = 64 * 1024
_TALLEST = 20_000

T = TypeVar("T")


class TooLarge(NesymmError):
    """A formula whose circuit would be too large, or would take too long to find."""


def compile_graph(
    formula: Formula,
    roots: Sequence[int],
    *,
    max_nodes: int = MAX_NODES,
    max_seconds: float = MAX_SECONDS,
) -> Graph:
    """The circuit of several formulas; raises `TooLarge` if there is no small one."""
    plan = Plan.of(formula, roots)
    items = plan.items()
    if not items:
        # The library needs a variable, even for constants.
        items = [len(formula.sizes)]
    shapes = _shapes(plan, items)
    # Elimination suits sparse recursion over many variables; where everything depends on
    # everything but on few variables, only iteration gets through.
    ways = [(name, iterate) for name in shapes for iterate in (False, True)[: 1 + bool(plan.atoms)]]
    trees: dict[str, Vtree] = {}
    deadline = time.monotonic() + max_seconds
    reached = 0
    # Large formulas get more nodes, because just reading them takes some.
    rounds = [nodes + 4 * len(formula) for nodes in _ROUNDS]
    for nodes in [*(limit for limit in rounds if limit < max_nodes), max_nodes]:
        best: tuple[int, Graph] | None = None
        work = math.inf if nodes == max_nodes else _WORK * nodes
        for name, iterate in ways:
            if name not in trees:
                if best is not None and name == "min-fill" and len(formula) > _QUICK:
                    continue
                trees[name] = _tree(formula, shapes[name])
            if trees[name].height > _TALLEST:
                continue
            budget = Budget(nodes, work, deadline)
            graph = _attempt(plan, trees[name], budget, iterate)
            reached = max(reached, budget.reached)
            if graph is not None:
                cost = _cost(graph)
                if best is None or cost < best[0]:
                    best = cost, graph
                if cost < _SMALL or nodes == max_nodes:
                    break
                # There is a circuit; a better one should not take more work.
                work = min(work, budget.worked)
            elif best is None and time.monotonic() > deadline:
                raise _too_large(plan, items, reached, f"{max_seconds:g} seconds")
        if best is not None:
            return best[1]
    raise _too_large(plan, items, reached, f"{max_nodes:,} nodes")


def _shapes(plan: Plan, items: list[int]) -> dict[str, Shape]:
    """The vtrees to try, those with the best prospects first."""
    structure = partial(min_fill, plan.formula, plan.roots, items, plan.atoms)
    shapes: dict[str, Shape] = {
        "balanced": partial(balanced, items),
        "right-linear": partial(right_linear, items),
        "min-fill": structure,
        "right-linear, backwards": partial(right_linear, items[::-1]),
    }
    # Depth-first order is natural for chains, and of no meaning where there are cycles.
    return {"min-fill": structure, **shapes} if plan.atoms else shapes


def _tree(formula: Formula, shape: Shape) -> Vtree:
    build = Builder(formula.sizes)
    shape(build)
    return build.tree


def _attempt(plan: Plan, vtree: Vtree, budget: Budget, iterate: bool = False) -> Graph | None:
    def work() -> Graph | None:
        try:
            roots = Diagrams(plan, vtree, budget, iterate).compile()
        except OutOfBudget:
            return None
        return export(vtree, plan.formula.sizes, roots)

    return _with_stack(work, vtree.height, budget)


def _cost(graph: Graph) -> int:
    layers = int(graph.depths.max(initial=-1)) + 1
    return len(graph.primes) + _LAYER * layers


def _with_stack(work: Callable[[], T], height: int, budget: Budget) -> T:
    """Runs `work` in a thread with a stack that is deep enough for a vtree's height.

    The library recurses along the vtree. On the usual stack of 8 MiB it would crash at a
    height of about 170, and no exception would say so.
    """
    results: list[T] = []
    failures: list[BaseException] = []

    def target() -> None:
        try:
            results.append(work())
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=target, name="nesymm-compile")
    with _stack_lock:
        usual = threading.stack_size((height + 100) * _STACK_PER_LEVEL)
        try:
            thread.start()
        finally:
            threading.stack_size(usual)
    try:
        thread.join()
    except BaseException:
        # An interrupted caller does not leave a thread behind.
        budget.cancelled = True
        thread.join()
        raise
    if failures:
        raise failures[0]
    return results[0]


_stack_lock = threading.Lock()


def _too_large(plan: Plan, items: list[int], reached: int, limit: str) -> TooLarge:
    sizes = plan.formula.sizes
    variables = [item for item in items if item < len(sizes)]
    gates = sum(len(component) for component in plan.components)
    recursive = f", {len(plan.atoms)} recursive atoms" if plan.atoms else ""
    return TooLarge(
        f"no circuit within {limit} was found for a formula of {gates:,} nodes over "
        f"{len(variables):,} variables with {sum(sizes[v] for v in variables):,} values"
        f"{recursive}; the largest attempt reached {reached:,} nodes"
    )
