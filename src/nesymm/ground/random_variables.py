"""Random variables: their identity, parameters and support.

A variable is identified by its clause and its keys; values never enter. Keys that are
constants are part of its name, keys that run along axes make it an array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from nesymm.errors import Span, fail
from nesymm.ground import tabling
from nesymm.ground.elements import element_of
from nesymm.ground.identity import Along, Identity, Owner, Whole, distinct, identify
from nesymm.ground.literals import ChoiceLit, DrawLit
from nesymm.ground.tabling import Answer, coincide
from nesymm.ground.unify import Env, resolve
from nesymm.ir.algebra import and_, axis_value, const, eq, is_const, item, le, lt, not_, or_, vector
from nesymm.ir.arithmetic import arithmetic
from nesymm.ir.axes import case, lookup, substitute
from nesymm.ir.expr import FALSE, TRUE, Axis, Expr, Table, leaves, make
from nesymm.ir.matrices import cholesky, is_symmetric
from nesymm.ir.step import Param, RandomVariable
from nesymm.ir.symbols import as_expr, has_symbol, is_ground, key_of, map_symbols
from nesymm.ir.terms import Compound, atom_text, compile_term, show
from nesymm.ir.types import BOOL, Int, Real, Tensor, Type, join, numbers
from nesymm.language.families import FAMILIES, Family
from nesymm.language.program import Atom, Clause, Pred, Rule
from nesymm.language.values import heads

if TYPE_CHECKING:
    from nesymm.ground.evaluate import Evaluator
    from nesymm.ground.grounder import Grounder


class Variables:
    """All random variables met while grounding."""

    def __init__(self, host: Grounder):
        self.host = host
        self.declared: dict[str, RandomVariable] = {}
        self.owner: dict[str, Owner] = {}
        self.names = _clause_names(host.program.clauses)

    # ------------------------------------------------------------ names

    def name(self, number: int, derivation: int, keys: tuple) -> str:
        """`hit`, `edge(a,b)`, `stress(ann)`; a constant key in a clause with variables is
        part of the name, a key along an axis is an index. Where two keys run along the same
        axis, its number tells them from independent ones: `edge(*1,*1)`."""
        base = self.names[number]
        if derivation:
            base += f"#{derivation + 1}"
        along = [k for k in keys if isinstance(k, Along)]
        repeated = len(set(along)) < len(along)
        if len(along) == len(keys) and not repeated:
            return base
        shown = [
            (f"*{k.axis + 1}" if repeated else "*") if isinstance(k, Along) else show(k)
            for k in keys
        ]
        return f"{base}({','.join(shown)})"

    def declare(
        self,
        pred: Pred,
        lit: ChoiceLit | DrawLit,
        derivation: int,
        identity: Identity,
        terms: tuple,
        call: Any,
        variable: RandomVariable,
    ) -> tuple[str, tuple[Expr, ...]]:
        """Register a variable; returns its name and the keys of this reference to it.

        `terms` is what the body is bound to, by an answer to `call`.
        """
        name = self.name(lit.number, derivation, identity.keys)
        own = tuple(
            Axis(n, axis.type)
            for n, axis in zip(distinct(identity.names), identity.axes, strict=True)
        )
        keys = tuple(axis_value(axis) for axis in identity.axes)
        mapping = {old: axis_value(new) for old, new in zip(identity.axes, own, strict=True)}
        memo: dict[int, Expr] = {}

        def move(expr: Expr) -> Expr:
            return substitute(expr, mapping, memo)

        moved = tuple(map_symbols(term, move) for term in terms)
        owner = Owner(pred, lit.pred, lit.number, identity.keys, own, moved, {call})
        known = self.owner.get(name)
        if known is not None:
            if element_of(owner, known) is not None:
                known.calls.add(call)
                return name, keys
            if element_of(known, owner) is None:
                raise Whole(owner)
            owner.calls |= known.calls
        self.declared[name] = replace(
            variable,
            name=name,
            axes=own,
            guard=move(variable.guard),
            params=tuple(
                tuple(move(e) for e in p) if isinstance(p, tuple) else move(p)
                for p in variable.params
            ),
        )
        self.owner[name] = owner
        return name, keys

    # ------------------------------------------------------------ choices

    def choose(self, lit: ChoiceLit, answer: Answer, table: tabling.Table | None) -> Expr:
        """The condition that a probabilistic clause picks one of its options.

        `table` has the derivations of its body; there is none while a cycle is open.
        """
        siblings = table.final if table is not None else []
        if not siblings and has_symbol(answer.terms):
            fail(
                "E305",
                "a recursion chooses at random along values only known at run time",
                lit.span,
                "let the recursion run over constants, or look one step back",
            )
        chosen = self._choice_variable(lit, answer, table)
        # Derivations with the same bindings are one grounding: it takes the draw of the
        # first of them that holds, whichever asks.
        # Those without symbols are not the same: a table has each atom once.
        alike = siblings if has_symbol(answer.terms) or table is None else table.with_symbols()
        earlier = list(takewhile(lambda s: s is not answer, alike))
        for other in reversed(earlier):
            equal = coincide(self.host, table.given if table else frozenset(), other, answer)
            if equal is not FALSE:
                chosen = case([(equal, self._choice_variable(lit, other, table)), (TRUE, chosen)])
        return chosen

    def _choice_variable(self, lit: ChoiceLit, answer: Answer, table: tabling.Table | None) -> Expr:
        # While a cycle is open, what it depends on has no meaning yet; a choice needs none.
        guard = answer.condition if table is not None else TRUE
        env: Env = [None] * (1 + max((v.i for v in lit.variables), default=-1))
        for variable, term in zip(lit.variables, answer.terms, strict=True):
            env[variable.i] = term
        evaluator = self.host.evaluator
        many = len(lit.probabilities) > 1
        params: list[Expr] = []
        for (term, head), compiled in zip(lit.clause.options, lit.probabilities, strict=True):
            value = resolve(compiled, env)
            params.append(self._probability(evaluator, value, term.span or head.span, many, guard))
        total = sum(p.data for p in params if is_const(p))
        if total > 1 + 1e-9:
            fail(
                "E112",
                f"the probabilities of this disjunction add up to {total:g}",
                lit.span,
                "let them add up to at most 1",
            )
        if many and _computed(params):
            self.host.must_not(
                "the probabilities of a disjunction add up to more than 1",
                and_(guard, lt(const(1 + 1e-9), _total(params))),
                lit.span,
            )
        option = params[lit.option]
        if is_const(option) and option.data == 0:
            return FALSE
        if not many and is_const(option) and option.data == 1:
            return TRUE
        head = lit.clause.options[0][1]
        label = "; ".join(_head_text(h) for _, h in lit.clause.options)
        if not many:
            type_: Type = BOOL
            support: tuple = (False, True)
            family = "bernoulli"
        else:
            certain = all(is_const(p) for p in params) and abs(total - 1) < 1e-12
            k = len(params) if certain else len(params) + 1
            type_ = Int(0, k - 1)
            support = tuple(range(k))
            family = "choice"
        variable = RandomVariable(
            "",
            family,
            guard,
            tuple(params) if not many else (tuple(params),),
            (),
            type_,
            support,
            head.time is None,
            False,
            label,
        )
        derivation = _derivation(answer, table, lit.names)
        identity = identify(answer.terms, lit.names)
        call = key_of(table.args) if table is not None else None
        name, keys = self.declare(
            head.pred, lit, derivation, identity, answer.terms, call, variable
        )
        rv = make("rv", keys, name, type_)
        return rv if not many else eq(rv, const(lit.option))

    def _probability(
        self, evaluator: Evaluator, term: Any, span: Span | None, many: bool, condition: Expr
    ) -> Expr:
        if not is_ground(term) and not (type(term) is Compound and term.functor == "$param"):
            fail(
                "E303",
                "this probability is not known when the clause is used",
                span,
                "bind its variable in the body",
            )
        if type(term) is Compound and term.functor in evaluator.networks:
            raw = evaluator.network(term, span, True)
            if not isinstance(raw, Expr) or raw.type != Real():
                fail(
                    "E110",
                    f"a probability is one number; {term.functor} has more outputs",
                    span,
                    f"declare `:- network({term.functor}, 1).`",
                )
            return make("sigmoid", (raw,), type_=Real(0, 1))
        evaluator.constraint = "simplex" if many else "unit"
        try:
            value = as_expr(evaluator.number(term, span))
        finally:
            evaluator.constraint = "real"
        if is_const(value) and not 0 <= value.data <= 1:
            fail(
                "E111",
                f"a probability lies between 0 and 1, this one is {value.data:g}",
                span,
                "write it as a fraction: 30 % is `0.3`",
            )
        if isinstance(value.type, Int | Real) and not (0 <= value.type.lo <= value.type.hi <= 1):
            inside = and_(le(const(0), value), le(value, const(1)))
            outside = and_(condition, not_(inside))
            self.host.must_not("a probability is not between 0 and 1", outside, span)
        return value

    # ------------------------------------------------------------ draws

    def draw(
        self, lit: DrawLit, answer: Answer, table: tabling.Table
    ) -> Iterator[tuple[tuple, Expr]]:
        """What a distributional clause binds its drawn arguments to."""
        n = len(lit.keys)
        keys, raw = answer.terms[:n], answer.terms[n:]
        key_names = [f"k{i}" for i in range(n)]
        for i, a in enumerate(
            x for j, x in enumerate(lit.clause.head.args) if j not in lit.clause.drawn
        ):
            key_names[i] = getattr(a, "name", key_names[i])
        identity = identify(keys, key_names)
        derivation = _derivation(answer, table, tuple(key_names))
        family = FAMILIES[lit.clause.family]
        span = lit.clause.span
        params, neural = self.parameters(family, raw, span, lit.clause.head.time is not None)
        type_, support = self.support(family, params, span)
        if not neural:
            for message, wrong in _wrong_parameters(family, params):
                self.host.must_not(message, and_(answer.condition, wrong), span)
        loose = {a for p in params for e in (p if isinstance(p, tuple) else (p,)) for a in e.axes}
        if loose - set(identity.axes):
            fail(
                "E307",
                "the parameters differ along an axis that is not a key of the variable",
                span,
                "make the variable that tells them apart an argument of the head",
            )
        variable = RandomVariable(
            "",
            family.name,
            answer.condition,
            params,
            (),
            type_,
            support,
            lit.clause.head.time is None,
            neural,
            lit.clause.head.pred.name,
        )
        call = key_of(table.args)
        name, refs = self.declare(
            lit.clause.head.pred, lit, derivation, identity, answer.terms, call, variable
        )
        rv = make("rv", refs, name, type_)
        yield from self._bind(rv, support, len(lit.drawn), family, span)

    def parameters(
        self, family: Family, raw: tuple, span: Span | None, timed: bool
    ) -> tuple[tuple[Param, ...], bool]:
        """The parameters as expressions, and whether one network gives them all."""
        evaluator = self.host.evaluator
        first = raw[0]
        if (
            type(first) is Compound
            and first.functor in evaluator.networks
            and (family.name == "categorical" or len(raw) == 1)
        ):
            whole = evaluator.whole_network(first, span, timed)
            shape = evaluator.networks[first.functor]
            self._check_outputs(family, first.functor, shape, raw, span)
            return (whole, *(self._fixed(r, span) for r in raw[1:])), True
        if family.name == "multivariate_normal":
            return self._vector_parameters(family, raw, span, timed), False
        out: list[Param] = []
        for term, constraint in zip(raw, family.constraints, strict=True):
            evaluator.constraint = constraint if constraint != "fixed" else "real"
            try:
                if constraint == "fixed" and (type(term) is tuple or family.name == "categorical"):
                    out.append(self._fixed(term, span))
                elif constraint == "simplex" and type(term) is not tuple:
                    fail(
                        "E110",
                        "the probabilities of a categorical are a list",
                        span,
                        f"for example `{family.example}`",
                    )
                elif type(term) is tuple:
                    out.append(tuple(as_expr(evaluator.number(t, span, timed)) for t in term))
                elif type(term) is Compound and term.functor in evaluator.networks:
                    out.append(self._network_parameter(term, constraint, span, timed))
                elif constraint == "real" and _is_tensor(term):
                    out.append(term)
                else:
                    out.append(as_expr(evaluator.number(term, span, timed)))
            finally:
                evaluator.constraint = "real"
        self._check_parameters(family, out, span)
        return tuple(out), False

    def _vector_parameters(
        self, family: Family, raw: tuple, span: Span | None, timed: bool
    ) -> tuple[Param, ...]:
        """The mean, a vector, and the covariance, a matrix of known size."""
        evaluator = self.host.evaluator

        def numbers(terms: tuple) -> Expr:
            return vector([as_expr(evaluator.number(t, span, timed)) for t in terms])

        mean, rows = raw
        if type(mean) is Compound and mean.functor in evaluator.networks:
            mean = evaluator.whole_network(mean, span, timed)
        elif type(mean) is tuple and mean:
            mean = numbers(mean)
        if not _is_tensor(mean):
            fail(
                "E110",
                f"the mean of {family.name} is a vector",
                span,
                f"for example `{family.example}`",
            )
        size = len(rows) if type(rows) is tuple else 0
        if not size or any(type(row) is not tuple or len(row) != size for row in rows):
            fail(
                "E110",
                f"the covariance of {family.name} is a list of rows, as many as each has numbers",
                span,
                f"for example `{family.example}`",
            )
        if mean.type.shape not in (None, (size,)):
            fail(
                "E110",
                f"the mean is {mean.type}, and the covariance has {size} rows",
                span,
                "give the covariance one row for each entry of the mean",
            )
        covariance = vector([numbers(row) for row in rows])
        _check_covariance(covariance, span)
        return mean, covariance

    def _network_parameter(
        self, term: Compound, constraint: str, span: Span | None, timed: bool
    ) -> Expr:
        """One network for one parameter: its output is mapped to what the family needs."""
        evaluator = self.host.evaluator
        raw = evaluator.network(term, span, timed)
        if not isinstance(raw, Expr):
            return evaluator.whole_network(term, span, timed)
        if constraint == "unit":
            return make("sigmoid", (raw,), type_=Real(0, 1))
        if constraint == "positive" and isinstance(raw.type, Real):
            return make("softplus", (raw,), type_=Real(0))
        return raw

    def _fixed(self, term: Any, span: Span | None) -> tuple[Expr, ...]:
        """A list of known values (the outcomes of a categorical)."""
        if type(term) is not tuple or not term:
            fail("E308", "a list of values is needed here", span, "for example `[up, down]`")
        if has_symbol(term):
            fail(
                "E308",
                "the values to choose from must be known when compiling",
                span,
                "draw a position and compute the value from it in a rule",
            )
        return tuple(const(t) for t in term)

    def _check_outputs(
        self,
        family: Family,
        net: str,
        shape: tuple[int, ...] | None,
        raw: tuple,
        span: Span | None,
    ) -> None:
        if shape is None:
            return
        outputs = 1
        for n in shape:
            outputs *= n
        if family.name == "categorical":
            wanted = len(raw[1]) if type(raw[1]) is tuple else outputs
            if outputs != wanted:
                fail(
                    "E110",
                    f"{net} has {outputs} outputs, but there are {wanted} values to choose from",
                    span,
                    f"declare `:- network({net}, {wanted}).`",
                )
        elif outputs % len(family.params):
            fail(
                "E110",
                f"{net} has {outputs} outputs; {family.name} needs "
                f"{len(family.params)} ({', '.join(family.params)})",
                span,
                f"declare `:- network({net}, {len(family.params)}).`",
            )

    def _check_parameters(self, family: Family, params: list[Param], span: Span | None) -> None:
        for name, constraint, param in zip(family.params, family.constraints, params, strict=True):
            if isinstance(param, tuple):
                numbers = [p.data for p in param if is_const(p)]
                if constraint == "simplex" and len(numbers) == len(param):
                    if any(x < 0 for x in numbers):
                        fail("E111", "a probability is negative", span, "write numbers from 0 to 1")
                    if abs(sum(numbers) - 1) > 1e-6:
                        fail(
                            "E112",
                            f"the probabilities of this categorical add up to {sum(numbers):g}",
                            span,
                            "let them add up to 1",
                        )
                continue
            if not is_const(param):
                continue
            value = param.data
            if constraint == "unit" and not 0 <= value <= 1:
                fail(
                    "E111",
                    f"a probability lies between 0 and 1, this one is {value:g}",
                    span,
                    "write it as a fraction: 30 % is `0.3`",
                )
            if constraint == "positive" and value <= 0:
                fail(
                    "E111",
                    f"the {name} of {family.name} must be positive, it is {value:g}",
                    span,
                    f"for example `{family.example}`",
                )
        if family.name == "categorical":
            ps, values = params
            if isinstance(ps, tuple) and isinstance(values, tuple) and len(ps) != len(values):
                fail(
                    "E110",
                    f"there are {len(ps)} probabilities for {len(values)} values",
                    span,
                    "give one probability per value",
                )
        if family.name in ("uniform", "uniform_int"):
            low, high = params
            if (
                isinstance(low, Expr)
                and isinstance(high, Expr)
                and is_const(low)
                and (is_const(high) and low.data > high.data)
            ):
                fail(
                    "E110",
                    f"{family.name} from {low.data:g} to {high.data:g} is empty",
                    span,
                    "write the smaller bound first",
                )

    def support(
        self, family: Family, params: tuple[Param, ...], span: Span | None
    ) -> tuple[Type, tuple | None]:
        if family.values is not None and any(isinstance(p, tuple) for p in params):
            fail(
                "E110",
                f"{family.name} takes numbers, and a parameter is a list",
                span,
                "for a vector use multivariate_normal, or pass the network itself: "
                "`normal(net(X), 0.1)`",
            )
        match family.name:
            case "bernoulli":
                return Int(0, 1), (0, 1)
            case "categorical":
                assert isinstance(params[1], tuple)
                values = tuple(v.data for v in params[1])
                if len({key_of(v) for v in values}) != len(values):
                    fail(
                        "E110",
                        "a value stands twice in this categorical",
                        span,
                        "write it once, with the sum of the probabilities",
                    )
                return self._value_type(values), values
            case "uniform_int" | "binomial":
                bounds = [p.type for p in params if isinstance(p, Expr)]
                whole = bounds[: 2 - (family.name == "binomial")]
                if not whole or not all(isinstance(b, Int) for b in whole):
                    fail(
                        "E308",
                        f"the bounds of {family.name} are whole numbers",
                        span,
                        f"for example `{family.example}`",
                    )
                if family.name == "binomial":
                    low, high = 0.0, bounds[0].hi  # type: ignore[union-attr]
                else:
                    low, high = bounds[0].lo, bounds[1].hi  # type: ignore[union-attr]
                if high - low > 10**7:
                    fail(
                        "E306",
                        f"the bounds of {family.name} are not known",
                        span,
                        "declare the domain of the value with `:- domain(…)`",
                    )
                type_ = Int(int(low), int(high))
                return type_, tuple(range(int(low), int(high) + 1))
            case "multivariate_normal":
                covariance = params[1]
                assert isinstance(covariance, Expr)
                return Tensor((len(covariance.args),)), None
        if any(isinstance(p, Expr) and isinstance(p.type, Tensor) for p in params) and not (
            len(params) == 1 and self._scalar(family, params[0])
        ):
            shapes = [
                p.type.shape for p in params if isinstance(p, Expr) and isinstance(p.type, Tensor)
            ]
            if len(params) == 1 and shapes[0] is not None:
                # One network gives all parameters, side by side along the last dimension.
                each = shapes[0][-1] // len(family.params)
                return Tensor((*shapes[0][:-1], each)), None
            return Tensor(shapes[0]), None
        assert family.values is not None
        return numbers(*family.values), None

    @staticmethod
    def _scalar(family: Family, param: Param) -> bool:
        """Whether a network gives exactly the parameters of one number."""
        if not isinstance(param, Expr) or not isinstance(param.type, Tensor):
            return False
        return param.type.shape == (len(family.params),)

    def _value_type(self, values: tuple) -> Type:
        """The type of the outcomes, or of their positions where they have none in common."""
        type_: Type | None = const(values[0]).type
        for value in values[1:]:
            type_ = join(type_, const(value).type) if type_ is not None else None
        if type_ is None or any(type(v) is tuple for v in values):
            return Int(0, len(values) - 1)
        if isinstance(type_, Real) and any(type(v) is int for v in values):
            return Int(0, len(values) - 1)
        return type_

    def _bind(
        self,
        rv: Expr,
        support: tuple | None,
        drawn: int,
        family: Family,
        span: Span | None,
    ) -> Iterator[tuple[tuple, Expr]]:
        if isinstance(rv.type, Tensor) and family.name == "multivariate_normal" and drawn > 1:
            if rv.type.shape not in (None, (drawn,)):
                fail(
                    "E110",
                    f"the mean is {rv.type}, the head draws {drawn} numbers",
                    span,
                    "draw as many arguments as the mean has entries, or one for the vector",
                )
            yield tuple(item(rv, i) for i in range(drawn)), TRUE
            return
        if drawn == 1 and (support is None or family.name != "categorical"):
            yield (rv,), TRUE
            return
        if support is None:
            fail(
                "E110",
                f"{family.name} draws one value, the head has {drawn}",
                span,
                "bind the other variables of the head in the body",
            )
        if drawn > 1:
            if any(type(v) is not tuple or len(v) != drawn for v in support):
                fail(
                    "E110",
                    f"the head draws {drawn} values at once, so each outcome must be a "
                    f"list of {drawn}",
                    span,
                    "for example `[[1, 1], [1, 2]]`",
                )
            columns = [[v[i] for v in support] for i in range(drawn)]
        elif any(type(v) is tuple for v in support) or rv.type != self._value_type(support):
            columns = [list(support)]
        elif (
            isinstance(rv.type, Int)
            and rv.type == Int(0, len(support) - 1)
            and not all(type(v) is int for v in support)
        ):
            # Outcomes of no common type: the variable is the position of the outcome.
            for i, value in enumerate(support):
                yield (value,), eq(rv, const(i))
            return
        else:
            yield (rv,), TRUE
            return
        if any(_common([const(v).type for v in column]) is None for column in columns):
            for i, value in enumerate(support):
                yield (value if drawn > 1 else (value,)), eq(rv, const(i))
            return
        domain = Int(0, len(support) - 1)
        out = []
        for i, column in enumerate(columns):
            table = Table(f"{rv.data}.{i + 1}", (domain,), {(k,): v for k, v in enumerate(column)})
            out.append(lookup(table, rv))
        yield tuple(out), TRUE


def _wrong_parameters(family: Family, params: tuple[Param, ...]) -> Iterator[tuple[str, Expr]]:
    """What must not hold of parameters that are only known in a run, and why."""
    for name, constraint, param in zip(family.params, family.constraints, params, strict=True):
        if constraint == "simplex" and isinstance(param, tuple) and _computed(param):
            off = arithmetic("abs", arithmetic("sub", _total(param), const(1)))
            yield f"the {name} of {family.name} do not add up to 1", lt(const(1e-6), off)
            yield "a probability is negative", or_(*(lt(p, const(0)) for p in param))
        if not isinstance(param, Expr) or not isinstance(param.type, Int | Real):
            continue
        if param.op in ("param", "softplus", "sigmoid"):
            continue  # learnt and mapped to what it must be
        low, high = param.type.lo, param.type.hi
        if constraint == "positive" and low <= 0:
            yield f"the {name} of {family.name} is not positive", le(param, const(0))
        if constraint == "unit" and not 0 <= low <= high <= 1:
            inside = and_(le(const(0), param), le(param, const(1)))
            yield "a probability is not between 0 and 1", not_(inside)
    if family.name in ("uniform", "uniform_int"):
        first, last = params
        if isinstance(first, Expr) and isinstance(last, Expr):
            empty = (le if family.name == "uniform" else lt)(last, first)
            yield f"the bounds of {family.name} leave nothing between them", empty


def _is_tensor(term: Any) -> bool:
    return isinstance(term, Expr) and isinstance(term.type, Tensor)


def _check_covariance(covariance: Expr, span: Span | None) -> None:
    """Refuse a matrix of known numbers that is no covariance."""
    rows = [row.args for row in covariance.args]
    if not all(is_const(entry) for row in rows for entry in row):
        return
    matrix = [[entry.data for entry in row] for row in rows]
    if is_symmetric(matrix) and cholesky(matrix) is not None:
        return
    wrong = "positive definite" if is_symmetric(matrix) else "symmetric"
    fail(
        "E111",
        f"the covariance of multivariate_normal is not {wrong}",
        span,
        "write variances on the diagonal, and beside it numbers small enough: "
        "`[[1, 0.5], [0.5, 1]]`",
    )


def _computed(params: Sequence[Expr]) -> bool:
    """Whether probabilities are computed in a run, and not learnt."""
    return not all(map(is_const, params)) and not (
        leaves(params, "param") or leaves(params, "neural")
    )


def _total(params: Sequence[Expr]) -> Expr:
    return reduce(lambda x, y: arithmetic("add", x, y), params)


def _head_text(head: Atom) -> str:
    return atom_text(head.pred.name, tuple(compile_term(a, {}, lambda: 0) for a in head.args))


def _clause_names(clauses: Iterable[Clause]) -> dict[int, str]:
    """A name for each random clause: its head if that is ground, else its predicate.

    Further clauses of the same name are numbered from 2 in the order of the text, so
    names stay when clauses are added behind.
    """
    names: dict[int, str] = {}
    used: Counter[str] = Counter()  # by name, and by predicate where a clause has variables
    open_clauses: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for number, clause in enumerate(clauses):
        if isinstance(clause, Rule):
            continue
        head = heads(clause)[0]
        args = tuple(compile_term(a, {}, lambda: 0) for a in head.args)
        ground = all(is_ground(a) for a in args) and not any(clause.body)
        base = atom_text(head.pred.name, args) if ground else head.pred.name
        total[head.pred.name] += 1
        clash = used[base] or (open_clauses[head.pred.name] if ground else total[base] > 1)
        names[number] = f"{base}:{total[head.pred.name]}" if clash else base
        used[base] += 1
        open_clauses[head.pred.name] += not ground
    return names


def _common(types: list[Type]) -> Type | None:
    joined: Type | None = types[0]
    for other in types[1:]:
        joined = join(joined, other) if joined is not None else None
    return joined


def _derivation(answer: Answer, table: tabling.Table | None, names: tuple[str, ...]) -> int:
    """Which of the answers that have the same constants and axes it is; `names` are those of the
    arguments that tell."""
    if table is None:
        return 0
    numbers = table.numbers.get(names)
    if numbers is None:
        alike: Counter[Any] = Counter()
        numbers = table.numbers[names] = {}
        for sibling in table.final:
            key = key_of(identify(sibling.terms[: len(names)], names).keys)
            numbers[id(sibling)] = alike[key]
            alike[key] += 1
    return numbers.get(id(answer), 0)
