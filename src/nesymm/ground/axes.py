"""Axes while grounding: which places of the program they come from, and when they are split.

In programs with time a variable over many values runs along an axis, and what is derived for it is
derived once. What cannot be computed for all values at once (a list that is spelt out, a cycle)
splits the axis: the round starts again with the values listed one by one where the axis came from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

from nesymm.errors import Span, fail
from nesymm.ir.algebra import axis_value
from nesymm.ir.expr import Axis, Expr, in_order


class Split(Exception):
    """An axis met something that needs its values one by one: enumerate it at its source."""

    def __init__(self, sites: Iterable[str]):
        self.sites = frozenset(sites)


class Axes:
    """The axes of one round. Programs without time have none: they are grounded atom by atom, as
    their users expect."""

    def __init__(self, temporal: bool, split: frozenset[str]):
        self.temporal = temporal
        self.enumerated = split
        self._sites: dict[Axis, frozenset[str]] = {}
        # The axes that the derivation under way was called with.
        self.given: frozenset[Axis] = frozenset()

    def wanted(self, site: str) -> bool:
        """Whether values found at this place run along an axis."""
        return self.temporal and site not in self.enumerated

    def note(self, axis: Axis, sites: Iterable[str]) -> Axis:
        """An axis that comes from these places of the program."""
        self._sites[axis] = self._sites.get(axis, frozenset()) | frozenset(sites)
        return axis

    def fresh(self, axis: Axis, sites: Iterable[str]) -> Axis:
        """The same for a variable that is bound now. A recursion comes back to a place with the
        axis that it had there before, which is another variable."""
        while axis in self.given:
            axis = replace(axis, site=f"{axis.site}'")
        return self.note(axis, sites)

    def sites(self, axes: Iterable[Axis]) -> set[str]:
        return {site for axis in axes for site in self._sites.get(axis, ())}

    def renamed(self, axes: Iterable[Axis], site: str) -> dict[Axis, Expr]:
        """Axes of their own for one use, at `site`, of what runs along these."""
        fresh: dict[Axis, Axis] = {}
        for axis in in_order(axes):
            own = self.fresh(replace(axis, site=site), self.sites([axis]))
            if own in fresh.values():
                own = self.fresh(replace(axis, site=f"{site}.{len(fresh)}"), self.sites([axis]))
            fresh[axis] = own
        return {old: axis_value(new) for old, new in fresh.items()}

    def split(self, axes: Iterable[Axis], span: Span | None) -> NoReturn:
        """Start again with the values of these axes one by one."""
        sites = self.sites(axes)
        if not sites:
            fail(
                "E306",
                "the same random variable is used with keys of different domains",
                span,
                "declare the domain of the value with `:- domain(…)`",
            )
        raise Split(sites)
