"""Log-masses, log-densities and draws of random variables over named dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from nesymm.inference.arrays import stop_gradient
from nesymm.inference.arrays import xp as jnp
from nesymm.inference.densities import (
    DENSITIES,
    by_logit,
    constrain,
    draw_vectors,
    log_masses,
    make_distribution,
    special,
)
from nesymm.inference.elimination.choices import Choice
from nesymm.inference.elimination.factors import Factor
from nesymm.inference.named import Named, apply, apply_all, deepen, expand, only, reduce, union
from nesymm.inference.tables import Tables
from nesymm.inference.world import outcome_codes
from nesymm.ir.algebra import and_
from nesymm.ir.expr import TRUE, Expr, leaves
from nesymm.ir.step import Param, Proposal, RandomVariable, flat
from nesymm.language.families import FAMILIES

# What stands in for a parameter where the variable is not drawn: no NaN may come of it.
_HARMLESS = {"unit": 0.5, "simplex": 0.5, "positive": 1.0, "real": 0.0, "fixed": 1.0, "log": 0.0}


def masses(
    low: Tables,
    variable: RandomVariable,
    dim: Choice,
    guard: Expr,
    params: tuple[Param, ...],
) -> Named:
    """Log-probabilities of the outcomes of a finite variable, along `dim`.

    Where the variable is not drawn, it is fixed to its first outcome, which nobody reads.
    """
    holds = None if guard is TRUE else low.value(guard)
    table = _masses(low, variable, dim, holds is not None, params)
    return _where_drawn(low, holds, table, dim)


def masses_apart(low: Tables, variable: RandomVariable) -> list[Factor]:
    """The same, one factor for each outcome, as if the variable were drawn everywhere."""
    dim = Choice("rv", variable.name, variable.axes, len(variable.outcomes))
    table = _masses(low, variable, dim, variable.guard is not TRUE, variable.params)
    kept = table.dims[:-1]
    return [Factor(table.array[..., i], kept, table.plain[..., i]) for i in range(dim.size)]


def _masses(
    low: Tables,
    variable: RandomVariable,
    dim: Choice,
    guarded: bool,
    params: tuple[Param, ...],
) -> Factor:
    """The probabilities of the outcomes where the variable is drawn; `dim` is the last."""
    if variable.family == "categorical":
        params = params[:1]
        known = low.world.log_masses(low, params[0], dim.size)
        if known is not None:
            plain = low.world.plain_masses(low, params[0], dim.size)
            assert plain is not None
            return Factor(known.array, (*known.dims, dim), plain.array)
    unknown: list[Named] = []
    logits = by_logit(variable.family, params)
    params = logits or params
    if variable.neural:
        whole = low.value(params[0])  # type: ignore[arg-type]
        array, dims = whole.array, whole.dims
        if variable.family == "bernoulli" and array.ndim > len(dims):
            array = array.reshape((*array.shape[: len(dims)], -1))[..., 0]
        arrays: tuple[Any, ...] = (array,)
    else:
        families = FAMILIES.get(variable.family)
        by_log = variable.family == "intervals"
        limits = families.constraints if families else ("log" if by_log else "simplex",)
        flat_params: list[Named] = []
        for limit, param in zip(limits, params, strict=False):
            for e in param if isinstance(param, tuple) else (param,):
                value = low.value(e)
                if guarded or variable.family == "binomial":
                    unknown += _unknown(e, value)
                if guarded:
                    # Not by the guard, which may depend on much: the table stays small.
                    ok = ~jnp.isnan(value.array) if by_log else jnp.isfinite(value.array)
                    value = Named(jnp.where(ok, value.array, _HARMLESS[limit]), value.dims)
                flat_params.append(value)
        dims = union(v.dims for v in flat_params)
        aligned = [expand(v, dims) for v in flat_params]
        if variable.family in ("choice", "categorical", "intervals"):
            arrays = (tuple(jnp.asarray(a, low.real) for a in aligned),)
        elif variable.family == "bernoulli":
            arrays = (jnp.asarray(aligned[0], low.real),)
        else:
            arrays = tuple(a[..., None] for a in aligned)
    neural = variable.neural or logits is not None
    family, outcomes = variable.family, variable.outcomes
    edges = low.edges and bool(leaves(flat(params), "param"))
    table = log_masses(jnp, family, arrays, outcomes, neural, edges, _network(params))
    table = table.astype(low.real)
    for value in unknown:
        table = _unless_nan(table, expand(value, dims)[..., None])
    return Factor(table, (*dims, dim), jnp.exp(table))


def _network(params: tuple[Param, ...]) -> str:
    """How a message names the network that gives the parameters."""
    whole = params[0]
    named = isinstance(whole, Expr) and whole.op == "neural"
    return f"the network {whole.data[0]}" if named else "a network"  # type: ignore[union-attr]


def by_network(variable: RandomVariable) -> bool:
    """Whether a network has a say in how a variable is drawn."""
    return bool(variable.neural or leaves(flat(variable.params), "neural"))


def invalid_parameters(low: Tables, variable: RandomVariable) -> tuple[Named, Any] | None:
    """Where a variable is to be drawn by NaN that a network gave, and that NaN."""
    values = [v for p in flat(variable.params) for v in _unknown(p, low.value(p))]
    if not values:
        return None
    total = apply_all(jnp.add, values)
    where = apply(lambda g, v: g & jnp.isnan(v), low.value(variable.guard), total)
    return where, jnp.sum(total.array)


def _unknown(param: Expr, value: Named) -> list[Named]:
    """A parameter that a network gives, one number for all that lies behind: where it is NaN,
    what stands in for it may not pass for an answer."""
    if not leaves([param], "neural"):
        return []
    behind = tuple(range(len(value.dims), value.array.ndim))
    return [Named(jnp.sum(stop_gradient(value.array), behind), value.dims)]


def _unless_nan(result: Any, value: Any) -> Any:
    # Not by a constant NaN: a compiler may take that for a case that never comes.
    return jnp.where(jnp.isnan(value), value, result)


def _where_drawn(low: Tables, holds: Named | None, table: Factor, dim: Choice) -> Named:
    if holds is None:
        return table
    first = jnp.arange(dim.size) == 0
    absent = Named(jnp.where(first, 0.0, -jnp.inf).astype(low.real), (dim,))
    logs = apply(jnp.where, holds, table, absent)
    plain = Named(table.plain, table.dims)
    sure = Named(first.astype(low.real), (dim,))
    return Factor(logs.array, logs.dims, apply(jnp.where, holds, plain, sure).array)


def mass_at(low: Tables, variable: RandomVariable, index: Named) -> Named | None:
    """The log-probability of one outcome where a table has it at hand; else None."""
    if variable.family != "categorical":
        return None
    known = low.world.log_masses(low, variable.params[0], len(variable.outcomes), index)
    if known is None or variable.guard is TRUE:
        return known
    absent = Named(jnp.where(index.array == 0, 0.0, -jnp.inf).astype(low.real), index.dims)
    return apply(jnp.where, low.value(variable.guard), known, absent)


def family_params(low: Tables, law: Proposal, guarded: bool) -> tuple[Named, ...]:
    """The parameters of an infinite family; outputs of networks are mapped to constraints.

    A guarded variable is drawn whether or not its guard holds (nobody reads it where it does
    not), so its parameters are kept valid.
    """
    about = FAMILIES[law.family]
    if not law.neural:
        values = []
        for limit, param in zip(about.constraints, law.params, strict=True):
            value = low.value(param)  # type: ignore[arg-type]
            if guarded:
                value = Named(_valid(value.array, limit), value.dims)
            values.append(value)
        return tuple(values)
    whole = low.value(law.params[0])  # type: ignore[arg-type]
    columns = jnp.split(whole.array, len(about.params), axis=-1)
    return tuple(
        Named(
            constrain(jnp, c, column[..., 0] if column.shape[-1:] == (1,) else column), whole.dims
        )
        for c, column in zip(about.constraints, columns, strict=True)
    )


def _valid(value: Any, limit: str) -> Any:
    if limit == "covariance" and isinstance(value, np.ndarray):
        return value  # It is constant, and was checked by the compiler.
    if limit == "covariance":
        factor = jnp.linalg.cholesky(stop_gradient(value))
        ok = jnp.isfinite(factor).all((-2, -1), keepdims=True)
        return jnp.where(ok, value, jnp.eye(value.shape[-1], dtype=value.dtype))
    ok = jnp.isfinite(value)
    if limit == "positive":
        ok = ok & (value > 0)
    elif limit == "unit":
        ok = ok & (value >= 0) & (value <= 1)
    return jnp.where(ok, value, _HARMLESS[limit])


def density(
    low: Tables,
    variable: RandomVariable,
    value: Named,
    proposal: Proposal | None = None,
    unguarded: bool = False,
) -> Named:
    """The log-density of an infinite variable at a value, by its prior or by a guide; 0 where it
    is not drawn, unless it counts `unguarded`."""
    law = proposal or variable.prior
    guard = and_(variable.guard, law.condition)
    named = law_density(low, law, value, guard is not TRUE)
    if guard is TRUE or unguarded:
        return named
    named = marked(low, law, named)
    return only(low.value(guard), named)


def marked(low: Tables, law: Proposal, density: Named) -> Named:
    """A density that is NaN where a network gave NaN, for which something else stood in."""
    for param in flat(law.params):
        for unknown in _unknown(param, low.value(param)):
            density = apply(_unless_nan, density, unknown)
    return density


def law_density(low: Tables, law: Proposal, value: Named, guarded: bool) -> Named:
    """The log-density of a family at a value, summed over the entries of a tensor; for `guarded`
    see `family_params`."""
    about, arrays = DENSITIES[law.family], family_params(low, law, guarded)
    log = about.log
    logits = law.params if law.neural else by_logit(law.family, law.params)
    if about.by_logit is not None and logits:
        raw = low.value(logits[0])  # type: ignore[arg-type]
        log = about.by_logit
        arrays = (Named(raw.array.reshape(raw.array.shape[: len(raw.dims)]), raw.dims),)
    dims = union(v.dims for v in (*arrays, value))
    aligned = [expand(v, dims) for v in (*arrays, value)]
    depth = max(a.ndim for a in aligned)
    vector = law.family == "multivariate_normal"
    *given, at = aligned if vector else [deepen(a, depth) for a in aligned]
    result = log(jnp, special(jnp), at, *given)
    if not vector:
        result = jnp.sum(result, axis=tuple(range(len(dims), result.ndim)))
    return Named(result.astype(low.real), dims)


def proposal_density(
    low: Tables, variable: RandomVariable, value: Named, unguarded: bool = False
) -> Named:
    """The log-density of what an infinite variable was drawn from: the guide that applies, and
    the prior where none does; see `density` for `unguarded`."""
    return _by_proposal(low, variable, lambda p: density(low, variable, value, p, unguarded))


def _by_proposal(
    low: Tables, variable: RandomVariable, found: Callable[[Proposal], Named]
) -> Named:
    """What is found for the first proposal of a variable that applies."""
    *guides, last = variable.proposals
    result = found(last)
    for guide in reversed(guides):
        result = apply(_where, low.value(guide.condition), found(guide), result)
    return result


def _where(condition: Any, a: Any, b: Any) -> Any:
    """`where` for values that may have dimensions behind the named ones."""
    behind = max(a.ndim, b.ndim) - condition.ndim
    return jnp.where(condition.reshape((*condition.shape, *(1,) * behind)), a, b)


def draw_infinite(
    low: Tables, variable: RandomVariable, key: Any, dims: tuple, shape: tuple[int, ...]
) -> Named:
    """A draw per element of `dims` from the prior of an infinite variable."""
    return _draw_from(low, variable, variable.prior, key, dims, shape)


def propose(
    low: Tables, variable: RandomVariable, key: Any, dims: tuple, shape: tuple[int, ...]
) -> Named:
    """The same from the guide that applies, and from the prior where none does."""
    laws = variable.proposals
    keys = [key] if len(laws) == 1 else list(jax.random.split(key, len(laws)))
    own = dict(zip(laws, keys, strict=True))
    return _by_proposal(
        low, variable, lambda law: _draw_from(low, variable, law, own[law], dims, shape)
    )


def _draw_from(
    low: Tables,
    variable: RandomVariable,
    law: Proposal,
    key: Any,
    dims: tuple,
    shape: tuple[int, ...],
) -> Named:
    guarded = and_(variable.guard, law.condition) is not TRUE
    arrays = family_params(low, law, guarded)
    aligned = [expand(v, dims) for v in arrays]
    if law.family == "multivariate_normal":
        noise = jax.random.normal(key, (*shape, *aligned[0].shape[len(dims) :]), low.real)
        return Named(draw_vectors(jnp, noise, *aligned), dims)
    sample = make_distribution(law.family, spread(low, arrays, dims, shape)).sample(key)
    if not jnp.issubdtype(sample.dtype, jnp.integer):
        sample = sample.astype(low.real)
    return Named(sample, dims)


def spread(
    low: Tables, values: tuple[Named, ...], dims: tuple, shape: tuple[int, ...]
) -> list[Any]:
    """Arrays over all of some dimensions of a shape, alike in those that lie behind."""
    aligned = [expand(v, dims) for v in values]
    depth = max(a.ndim for a in aligned)
    full = [deepen(jnp.asarray(a, low.real), depth) for a in aligned]
    behind = jnp.broadcast_shapes(*(a.shape[len(dims) :] for a in full))
    return [jnp.broadcast_to(a, (*shape, *behind)) for a in full]


def divergence(low: Tables, variable: RandomVariable) -> Named | None:
    """KL(guide || prior) of an infinite variable; None where there is no formula.

    It is 0 where the variable is not drawn, and where no guide applies.
    """
    total: Named | None = None
    for guide in reversed(variable.guides):
        found = _divergence(low, variable, guide)
        if found is None:
            return None
        if guide.condition is not TRUE:
            rest = Named(jnp.zeros((), low.real)) if total is None else total
            found = apply(jnp.where, low.value(guide.condition), found, rest)
        total = found
    assert total is not None
    if variable.guard is TRUE:
        return total
    return only(low.value(variable.guard), total)


def _divergence(low: Tables, variable: RandomVariable, law: Proposal) -> Named | None:
    from numpyro.distributions.kl import kl_divergence

    if "multivariate_normal" in (law.family, variable.family):
        return None
    guide = family_params(low, law, and_(variable.guard, law.condition) is not TRUE)
    prior = family_params(low, variable.prior, variable.guard is not TRUE)
    dims = union([variable.axes, *(v.dims for v in (*guide, *prior))])
    aligned = [expand(v, dims) for v in (*guide, *prior)]
    depth = max(a.ndim for a in aligned)
    full = jnp.broadcast_arrays(*(deepen(jnp.asarray(a, low.real), depth) for a in aligned))
    try:
        result = kl_divergence(
            make_distribution(law.family, full[: len(guide)]),
            make_distribution(variable.family, full[len(guide) :]),
        )
    except NotImplementedError:
        return None
    result = jnp.sum(result, axis=tuple(range(len(dims), result.ndim)))
    # One per element, also where all elements have the same.
    sizes = [d.size if d in variable.axes else n for d, n in zip(dims, result.shape, strict=True)]
    return Named(jnp.broadcast_to(result, sizes), dims)


def log_probability_at(
    low: Tables, variable: RandomVariable, value: Named, unguarded: bool = False
) -> Named:
    """The log-probability of the value of a variable; see `density` for `unguarded`."""
    if not variable.finite:
        return density(low, variable, value, unguarded=unguarded)
    dim = Choice("rv", variable.name, variable.axes, len(variable.outcomes))
    table = masses(low, variable, dim, variable.guard, variable.params)
    codes = Named(jnp.asarray(outcome_codes(variable)), (dim,))
    here = apply(jnp.equal, codes, value)
    return reduce(jnp.sum, only(here, table), [dim])
