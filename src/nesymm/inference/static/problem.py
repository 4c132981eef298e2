"""A step without state as one propositional problem: evidence, queries, weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

from nesymm.errors import Diagnostic, ProgramError, located
from nesymm.inference.circuits.enumerate import can_hold
from nesymm.inference.circuits.formula import AND
from nesymm.inference.intervals import eliminate, observed_value, substitute_observed
from nesymm.inference.static.propositional import Encoding
from nesymm.inference.static.sources import BUDGET, Drawn, TooManyCombinations
from nesymm.inference.static.weights import Weights
from nesymm.ir.algebra import conjuncts, const, eq
from nesymm.ir.axes import rebuild
from nesymm.ir.expr import TIME, Expr, make, postorder
from nesymm.ir.passes.apart import elements_apart
from nesymm.ir.passes.finish import fail_open
from nesymm.ir.passes.overflow import watch_sampled
from nesymm.ir.passes.phases import at_first
from nesymm.ir.step import Flag, ObservationDecl, QueryDecl, RandomVariable, StepProgram, flat
from nesymm.ir.symbols import map_symbols
from nesymm.ir.types import BOOL, Int

# More observations than this that mix point masses and densities are not sorted out.
_MAX_MIXED = 6


@dataclass(frozen=True)
class Asked:
    """One grounding of a query: its name and its formula.

    A `possible` grounding was found among the values of a query, and is only worth
    listing if it has some probability.
    """

    name: str
    formula: int
    possible: bool = False


class Problem:
    """Everything about a program without time, as a formula with weights.

    Roots, in this order: what always holds (it only weighs sampled values), the evidence,
    and the evidence with each query.

    With `worlds`, assignments in which `rules` hold are worlds, one to one, and their
    weights are those of the worlds; see `Encoding`.
    """

    def __init__(
        self,
        step: StepProgram,
        observed: frozenset[str] = frozenset(),
        *,
        worlds: bool = False,
    ):
        if step.temporal:
            raise ValueError("this is for programs without time")
        self._given_step = step
        # What data could say but does not is not known.
        evidence = [
            o
            for o in step.observations
            if (o.value is not None or o.name in observed) and not o.of_nothing
        ]
        # Guides are for the filters: here nothing is drawn from them.
        variables = tuple(replace(v, guides=()) for v in step.variables)
        step = replace(step, observations=tuple(evidence), variables=variables)
        if any(node is TIME or node.op == "slot" for node in postorder(step.roots())):
            step = at_first(step)  # Nothing came before.
        self.step = watch_sampled(eliminate(substitute_observed(elements_apart(step))))
        self.observed = observed
        self.encoding = Encoding(self.step, worlds=worlds)
        formula = self.encoding.formula
        self.prior = formula.and_([self._weigh_sampled(v) for v in self.sampled])
        # Of each observation: how it holds by truth or point mass, how by density, and that
        # its densities do not count.
        self.explained = [self._explain(o) for o in self.step.observations]
        self.evidences = self._evidences()
        found: dict[str, list[Asked]] = {}
        for query in self.step.queries:
            for asked in self._asked(query):
                found.setdefault(asked.name, []).append(asked)
        self.queries = [
            Asked(name, formula.or_([a.formula for a in ways]), all(a.possible for a in ways))
            for name, ways in found.items()
        ]
        # What must not happen, and the formulas under which it does.
        self.faults = [] if worlds else self._faults()
        self.rules = self.encoding.rules()

    @cached_property
    def worlds(self) -> Problem:
        """The same problem, with assignments that are worlds."""
        return Problem(self._given_step, self.observed, worlds=True)

    # ------------------------------------------------------------ what is sampled

    @cached_property
    def sampled(self) -> list[RandomVariable]:
        """Infinite variables without a closed form that are not observed."""
        observed = {
            v.data
            for o in self.step.observations
            for b in o.branches
            for v in b.values
            if v.op == "rv"
        }
        return [v for v in self.step.variables if not v.finite and v.name not in observed]

    def _weigh_sampled(self, variable: RandomVariable) -> int:
        """A sampled variable whose parameters depend on finite ones is evidence about these.

        It is drawn, and weighed, in all worlds: where its guard does not hold, too, for else
        its density would be evidence about the guard.
        """
        encoding = self.encoding
        if not any(encoding.kind(e)[0] for e in flat(variable.params)):
            return encoding.formula.true
        value = make("rv", (), variable.name, variable.type)
        return encoding.weigh(variable, (), value, encoding.formula.true)[0]

    # ------------------------------------------------------------ evidence

    def _evidences(self) -> list[int]:
        """The evidence, as formulas in order of precedence.

        A value that has positive probability by itself (a point mass) outweighs any
        density. So the ways of explaining the observed values are tried in order of how
        many densities they use, and the first that is possible counts.
        """
        formula = self.encoding.formula
        fixed: list[int] = []
        mixed: list[tuple[int, int]] = []
        for points, densities, _ in self.explained:
            if points == formula.false or densities == formula.false:
                fixed.append(formula.or_([points, densities]))
            else:
                mixed.append((points, densities))
        if len(mixed) > _MAX_MIXED:
            raise ProgramError(
                Diagnostic(
                    "E311",
                    f"{len(mixed)} observations mix point masses and densities",
                    self.step.observations[0].span,
                    "observe fewer of them at once",
                )
            )
        out = []
        for count in range(len(mixed) + 1):
            ways = []
            for chosen in combinations(range(len(mixed)), count):
                parts = [pair[i in chosen] for i, pair in enumerate(mixed)]
                ways.append(formula.and_(parts))
            out.append(formula.and_([self.prior, *fixed, formula.or_(ways)]))
        return out

    def _explain(self, observation: ObservationDecl) -> tuple[int, int, int]:
        formula, encoding = self.encoding.formula, self.encoding
        if not observation.is_value:
            holds = encoding.truth(observation.holds)
            if observation.value is None:
                observed = encoding.leaf(make("input", (), (observation.name, 0), BOOL))
                same = formula.or_(
                    [
                        formula.and_([holds, observed]),
                        formula.and_([formula.not_(holds), formula.not_(observed)]),
                    ]
                )
                return same, formula.false, formula.true
            holds = holds if observation.value else formula.not_(holds)
            return holds, formula.false, formula.true
        points: list[int] = []
        densities: list[int] = []
        masses: list[int] = []
        weighed: list[int] = []
        unweighed: list[int] = []
        ignored: list[int] = []
        for branch in observation.branches:
            where = encoding.truth(branch.condition)
            here = [where]
            by_density = False
            for i, value in enumerate(branch.values):
                seen = observed_value(observation, i)
                if value.op == "rv" and not encoding.variables[value.data].finite:
                    variable = encoding.variables[value.data]
                    on, off = encoding.weigh(variable, (), seen, where)
                    ignored.append(off)
                    if isinstance(variable.type, Int):
                        masses.append(on)
                    else:
                        by_density = True
                        weighed.append(on)
                        unweighed.append(off)
                else:
                    here.append(encoding.truth(eq(value, seen)))
            (densities if by_density else points).append(formula.and_(here))
        return (
            formula.and_([formula.or_(points), *masses, *unweighed]),
            formula.and_([formula.or_(densities), *masses, *weighed]),
            formula.and_(ignored),
        )

    # ------------------------------------------------------------ queries

    def _asked(self, query: QueryDecl) -> list[Asked]:
        encoding, formula = self.encoding, self.encoding.formula
        holds = encoding.truth(query.holds)
        if not query.values:
            return [Asked(query.name, holds)]
        for value in query.values:
            if not encoding.has_table(value):
                fail_open(query)
        tables = [encoding.values(v, {}) for v in query.values]
        found: dict[str, list[int]] = {}
        for combo in product(*(t.items() for t in tables)):
            here = formula.and_([holds, *(f for _, f in combo)])
            if here == formula.false:
                continue
            values = iter(v for v, _ in combo)
            terms = map_symbols(query.template, lambda _: next(values))  # noqa: B023
            found.setdefault(query.answer(terms), []).append(here)
        return [Asked(name, formula.or_(ways), possible=True) for name, ways in found.items()]

    def _faults(self) -> list[tuple[Flag, int]]:
        found = []
        for flag in self.step.flags:
            fault = self._fault(flag)
            if can_hold(self.encoding.formula, fault):
                found.append((flag, fault))
        return found

    def _fault(self, flag: Flag) -> int:
        """The formula under which a flag is raised."""
        parts: list[int] = []
        beyond: TooManyCombinations | None = None
        for condition in conjuncts(flag.condition):
            try:
                parts.append(self.encoding.truth(condition))
            except TooManyCombinations as error:
                whole = self._value_by_value(condition)
                parts.append(self.encoding.formula.true if whole is None else whole)
                beyond = error if whole is None else beyond
        fault = self.encoding.formula.and_(parts)
        if beyond is not None and can_hold(self.encoding.formula, fault):
            # Without the part that is too large it is possible: who knows.
            message = f"it cannot be checked whether {flag.message}: {beyond}"
            raise TooManyCombinations(located(message, flag.span)) from beyond
        return fault

    def _value_by_value(self, condition: Expr) -> int | None:
        """A condition whose parts depend on the same few variables: it is looked at for each
        of their joint values. None if there are too many of these, too."""
        formula = self.encoding.formula
        drawn = [node for node in postorder([condition]) if node.op == "rv"]
        if any(node.args or not self.encoding.variables[node.data].finite for node in drawn):
            return None
        tables = [self.encoding.values(node, {}) for node in drawn]
        if math.prod(map(len, tables)) > BUDGET:
            return None
        ways = []
        for combo in product(*(t.items() for t in tables)):
            known = {n: const(v) for n, (v, _) in zip(drawn, combo, strict=True)}
            for node in postorder([condition]):
                if node not in known:
                    known[node] = rebuild(node, tuple(known[a] for a in node.args))
            here = self.encoding.truth(known[condition])
            ways.append(formula.and_([here, *(f for _, f in combo)]))
        return formula.or_(ways)

    def roots(self, evidence: int) -> list[int]:
        formula = self.encoding.formula
        asked = [formula.and_([evidence, q.formula]) for q in self.queries]
        unweighed = formula.and_([self.prior, *(off for *_, off in self.explained)])
        return [unweighed, evidence, *asked]

    def largest_cluster(self, roots: Sequence[int]) -> dict[str, int]:
        """The random variables that depend on each other, with the numbers of their values:
        of all such sets the one with the most joint states."""
        formula = self.encoding.formula
        parts: list[set[int]] = []
        pending, seen = list(roots), set(roots)
        while pending:
            node = pending.pop()
            if formula.ops[node] == AND:
                # Conditions that must all hold only depend on each other by their variables.
                fresh = [child for child in formula.children(node) if child not in seen]
                seen.update(fresh)
                pending.extend(fresh)
                continue
            joined = set(formula.variable_order([node]))
            apart = [part for part in parts if part.isdisjoint(joined)]
            parts = [*apart, joined.union(*(p for p in parts if not p.isdisjoint(joined)))]
        clusters = [self.named(sorted(part)) for part in parts]
        return max(clusters, key=lambda c: sum(map(math.log, c.values())), default={})

    def named(self, variables: Iterable[int]) -> dict[str, int]:
        """Random variables by name. Several variables of a formula can be one of these: a
        choice for each value of its parameters."""
        found: dict[str, int] = {}
        for index in variables:
            source = self.encoding.sources[index]
            if isinstance(source, Drawn):
                found[source.name] = len(source.variable.outcomes)
        return found

    @cached_property
    def weights(self) -> Weights:
        return Weights(self.encoding.sources, self.step)

    @property
    def states(self) -> float:
        total = 1.0
        for size in self.encoding.formula.sizes:
            total *= size
        return total
