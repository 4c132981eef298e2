"""Runs what JAX traces with NumPy, without compiling it.

XLA takes seconds to compile a program that runs for a millisecond. Tests and the fuzzer run most
programs once, so here `jax.jit` evaluates its trace by the table below: one NumPy function per
primitive. Keys of random numbers are single 64-bit integers, and the numbers come from NumPy's
generators: the draws differ from JAX's, their distribution does not.

A primitive that the table lacks runs through XLA, alone. What the fuzzer finds is run again by the
real compiler before anybody hears of it (see `differential/routes.py`); tests about compiled code
are marked `compiled`, and `make test-slow` compiles everything.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import jax
import numpy as np
import scipy.special as special
from jax._src import core, pjit

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
MASK = (1 << 64) - 1


# ---------------------------------------------------------------- the loop


def evaluate(jaxpr: core.Jaxpr, consts: Any, *args: Any) -> list[Any]:
    """The outputs of a trace, as NumPy arrays."""
    env: dict[Any, Any] = {v: constant(c, v) for v, c in zip(jaxpr.constvars, consts, strict=True)}
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return constant(atom.val, atom) if isinstance(atom, core.Literal) else env[atom]

    for eqn, over in zip(jaxpr.eqns, _last_uses(jaxpr), strict=True):
        inputs = [read(a) for a in eqn.invars]
        rule = RULES.get(eqn.primitive.name)
        if rule is not None:
            out = rule(*inputs, **eqn.params)
        else:
            out = _by_xla(eqn, inputs)
        if not eqn.primitive.multiple_results:
            out = [out]
        for var, value in zip(eqn.outvars, out, strict=True):
            env[var] = value
        for var in over:
            env.pop(var, None)
    return [read(a) for a in jaxpr.outvars]


@lru_cache(maxsize=1024)
def _last_uses(jaxpr: core.Jaxpr) -> list[list[Any]]:
    """What no equation after each reads: kept, the tables of a step would take gigabytes."""
    seen = {v for v in jaxpr.outvars if not isinstance(v, core.Literal)}
    found: list[list[Any]] = []
    for eqn in reversed(jaxpr.eqns):
        named = [*(v for v in eqn.invars if not isinstance(v, core.Literal)), *eqn.outvars]
        found.append([v for v in dict.fromkeys(named) if v not in seen])
        seen.update(named)
    return found[::-1]


def _by_xla(eqn: Any, inputs: list[Any]) -> Any:
    given = [from_numpy(x, a.aval) for x, a in zip(inputs, eqn.invars, strict=True)]
    with compiled():
        # A function of its own: JAX may be on its way through one for this very primitive.
        out = jax.jit(lambda *args: eqn.primitive.bind(*args, **eqn.params))(*given)
    return [to_numpy(x) for x in out] if eqn.primitive.multiple_results else to_numpy(out)


def to_numpy(value: Any) -> Any:
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return _join_key(np.asarray(jax.random.key_data(value)))
    return np.asarray(value)


def constant(value: Any, atom: Any) -> Any:
    """What a trace holds or is given, in the precision that XLA gives it."""
    known, dtype = to_numpy(value), atom.aval.dtype
    is_key = jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
    return known if is_key else known.astype(dtype, copy=False)


def from_numpy(value: Any, aval: Any) -> jax.Array:
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
        with compiled():
            return jax.random.wrap_key_data(jax.device_put(_split_key(np.asarray(value))))
    value = np.asarray(value)
    return jax.device_put(value.astype(aval.dtype).reshape(aval.shape))


_by_compiler = pjit._pjit_call_impl_python


def _by_numpy(*args: Any, jaxpr: Any, **_: Any) -> tuple[list[jax.Array], None, None, list[Any]]:
    with np.errstate(all="ignore"):
        given = map(constant, args, jaxpr.jaxpr.invars)
        out = evaluate(jaxpr.jaxpr, jaxpr.consts, *given)
    return [from_numpy(x, a) for x, a in zip(out, jaxpr.out_avals, strict=True)], None, None, []


def _installed() -> bool:
    return pjit._pjit_call_impl_python is _by_numpy


def install() -> None:
    """Let NumPy run whatever is jitted from now on."""
    pjit._pjit_call_impl_python = _by_numpy


def uninstall() -> None:
    """Back to XLA."""
    pjit._pjit_call_impl_python = _by_compiler


@contextlib.contextmanager
def interpreted() -> Iterator[None]:
    """NumPy runs what is jitted, while this lasts."""
    before = _installed()
    install()
    try:
        yield
    finally:
        if not before:
            uninstall()


@contextlib.contextmanager
def compiled() -> Iterator[None]:
    """XLA runs what is jitted, while this lasts."""
    before = _installed()
    uninstall()
    try:
        yield
    finally:
        if before:
            install()


# ---------------------------------------------------------------- elementwise


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def note(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return note


def _plain(function: Rule) -> Rule:
    return lambda *args, **_: function(*args)


def _like(function: Rule) -> Rule:
    """NumPy may widen: the result has the type of the first argument."""

    def run(x: Any, *rest: Any, **_: Any) -> Any:
        return np.asarray(function(x, *rest)).astype(np.asarray(x).dtype, copy=False)

    return run


def _divide(x: Any, y: Any) -> Any:
    if np.issubdtype(x.dtype, np.integer):
        return np.trunc(x / np.where(y == 0, 1, y)).astype(x.dtype)
    return x / y


def _remainder(x: Any, y: Any) -> Any:
    return (
        np.fmod(x, np.where(y == 0, 1, y)) if np.issubdtype(x.dtype, np.integer) else np.fmod(x, y)
    )


for _name, _function in {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply,
    "max": np.maximum, "min": np.minimum, "neg": np.negative,
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log1p": np.log1p, "expm1": np.expm1,
    "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan2": np.arctan2,
    "atan": np.arctan, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "sign": np.sign,
    "abs": np.abs, "square": np.square, "nextafter": np.nextafter, "logistic": special.expit,
    "erf": special.erf, "erfc": special.erfc, "erf_inv": special.erfinv,
    "lgamma": special.gammaln, "digamma": special.digamma,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shift_left": np.left_shift, "shift_right_logical": np.right_shift,
    "rsqrt": lambda x: 1 / np.sqrt(x), "div": _divide, "rem": _remainder, "pow": np.power,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "not": np.bitwise_not,
}.items():  # fmt: skip
    RULES[_name] = _like(_function) if _name != "clamp" else _plain(_function)

for _name, _function in {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "is_finite": np.isfinite, "stop_gradient": lambda x: x,
    "name": lambda x: x, "copy": lambda x: x, "copy_p": lambda x: x,
    "reduce_precision": lambda x: x, "sharding_constraint": lambda x: x,
    "optimization_barrier": lambda *xs: list(xs),
    "lt_to": np.less, "le_to": np.less_equal, "eq_to": np.equal, "stage": lambda x: x,
}.items():  # fmt: skip
    RULES[_name] = _plain(_function)


@_rule("integer_pow")
def _integer_pow(x: Any, *, y: int) -> Any:
    return np.asarray(x**y if y >= 0 else 1 / x**-y).astype(x.dtype)


@_rule("round")
def _round(x: Any, *, rounding_method: Any) -> Any:
    if int(rounding_method) == 1:
        return np.rint(x)
    return (np.sign(x) * np.floor(np.abs(x) + 0.5)).astype(x.dtype)


@_rule("select_n")
def _select(which: Any, *cases: Any) -> Any:
    if len(cases) == 2:
        return np.where(which.astype(bool), cases[1], cases[0])
    return np.choose(which, cases)


@_rule("convert_element_type")
def _convert(x: Any, *, new_dtype: Any, **_: Any) -> Any:
    if np.issubdtype(x.dtype, np.floating) and np.issubdtype(new_dtype, np.integer):
        info = np.iinfo(new_dtype)
        inside = np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf)
        low, high = inside <= info.min, inside >= info.max
        plain = np.where(low | high, 0, inside).astype(new_dtype)
        return np.where(low, info.min, np.where(high, info.max, plain)).astype(new_dtype)
    return np.asarray(x).astype(new_dtype)


@_rule("bitcast_convert_type")
def _bitcast(x: Any, *, new_dtype: Any) -> Any:
    return np.ascontiguousarray(x).view(new_dtype).reshape(np.shape(x))


# ---------------------------------------------------------------- shapes


@_rule("broadcast_in_dim")
def _broadcast(x: Any, *_: Any, shape: Any, broadcast_dimensions: Any, **__: Any) -> Any:
    x = np.asarray(x)
    own = [1] * len(shape)
    for size, at in zip(x.shape, broadcast_dimensions, strict=True):
        own[at] = size
    return np.broadcast_to(x.reshape(own), shape)


@_rule("reshape")
def _reshape(x: Any, *_: Any, new_sizes: Any, **__: Any) -> Any:
    return np.reshape(x, new_sizes)


@_rule("squeeze")
def _squeeze(x: Any, *, dimensions: Any) -> Any:
    return np.squeeze(x, axis=tuple(dimensions))


@_rule("expand_dims")
def _expand_dims(x: Any, *, dimensions: Any) -> Any:
    return np.expand_dims(x, tuple(dimensions))


@_rule("transpose")
def _transpose(x: Any, *, permutation: Any) -> Any:
    return np.transpose(x, permutation)


@_rule("concatenate")
def _concatenate(*xs: Any, dimension: int) -> Any:
    return np.concatenate(xs, axis=dimension)


@_rule("stack")
def _stack(*xs: Any, axis: int = 0, **_: Any) -> Any:
    return np.stack(xs, axis=axis)


@_rule("unstack")
def _unstack(x: Any, *, axis: int = 0, **_: Any) -> Any:
    return [np.take(x, i, axis) for i in range(np.shape(x)[axis])]


@_rule("split")
def _split(x: Any, *, sizes: Any, axis: int) -> Any:
    return np.split(x, np.cumsum(sizes)[:-1], axis=axis)


@_rule("slice")
def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    steps = strides or (1,) * len(start_indices)
    where = zip(start_indices, limit_indices, steps, strict=True)
    return x[tuple(slice(*one) for one in where)]


@_rule("rev")
def _rev(x: Any, *, dimensions: Any) -> Any:
    return np.flip(x, tuple(dimensions))


@_rule("pad")
def _pad(x: Any, value: Any, *, padding_config: Any) -> Any:
    x = np.asarray(x)
    shape = [max(0, lo + hi + n + max(0, n - 1) * inner)
             for n, (lo, hi, inner) in zip(x.shape, padding_config, strict=True)]  # fmt: skip
    out = np.full(shape, value, x.dtype)
    target, source = [], []
    for n, size, (low, _, inner) in zip(x.shape, shape, padding_config, strict=True):
        at = low + np.arange(n) * (inner + 1)
        inside = (at >= 0) & (at < size)
        target.append(at[inside])
        source.append(np.flatnonzero(inside))
    out[np.ix_(*target)] = x[np.ix_(*source)]
    return out


@_rule("iota")
def _iota(*_: Any, dtype: Any, shape: Any, dimension: int, **__: Any) -> Any:
    own = [1] * len(shape)
    own[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension], dtype=dtype).reshape(own), shape)


def _start(x: Any, starts: Any, sizes: Any) -> tuple[slice, ...]:
    at = [int(np.clip(s, 0, n - k)) for s, n, k in zip(starts, np.shape(x), sizes, strict=True)]
    return tuple(slice(s, s + k) for s, k in zip(at, sizes, strict=True))


@_rule("dynamic_slice")
def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Any, **_: Any) -> Any:
    return x[_start(x, starts, slice_sizes)]


@_rule("dynamic_update_slice")
def _dynamic_update_slice(x: Any, update: Any, *starts: Any, **_: Any) -> Any:
    out = np.array(x)
    out[_start(x, starts, np.shape(update))] = update
    return out


# ---------------------------------------------------------------- reductions


def _reduction(function: Any) -> Rule:
    def run(x: Any, *, axes: Any, **_: Any) -> Any:
        x = np.asarray(x)
        if x.size == 0 and function in (np.max, np.min):
            shape = [n for i, n in enumerate(x.shape) if i not in axes]
            worst = -np.inf if function is np.max else np.inf
            if not np.issubdtype(x.dtype, np.floating):
                info = np.iinfo(x.dtype)
                worst = info.min if function is np.max else info.max
            return np.full(shape, worst, x.dtype)
        return np.asarray(function(x, axis=tuple(axes))).astype(x.dtype)

    return run


for _name, _function in {
    "reduce_sum": np.sum, "reduce_max": np.max, "reduce_min": np.min, "reduce_prod": np.prod,
    "reduce_and": np.all, "reduce_or": np.any,
}.items():  # fmt: skip
    RULES[_name] = _reduction(_function)


@_rule("argmax")
def _argmax(x: Any, *, axes: Any, index_dtype: Any, **_: Any) -> Any:
    return np.argmax(x, axis=axes[0]).astype(index_dtype)


@_rule("argmin")
def _argmin(x: Any, *, axes: Any, index_dtype: Any, **_: Any) -> Any:
    return np.argmin(x, axis=axes[0]).astype(index_dtype)


def _cumulative(function: Any) -> Rule:
    def run(x: Any, *, axis: int, reverse: bool) -> Any:
        x = np.asarray(x)
        if reverse:
            return np.flip(function(np.flip(x, axis), axis=axis), axis).astype(x.dtype)
        return function(x, axis=axis).astype(x.dtype)

    return run


for _name, _function in {
    "cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate, "cumlogsumexp": np.logaddexp.accumulate,
}.items():  # fmt: skip
    RULES[_name] = _cumulative(_function)


@_rule("sort")
def _sort(*xs: Any, dimension: int, num_keys: int, **_: Any) -> Any:
    order = np.argsort(xs[0], axis=dimension, kind="stable")
    if num_keys > 1:
        order = np.lexsort(tuple(reversed(xs[:num_keys])), axis=dimension)
    return [np.take_along_axis(x, order, dimension) for x in xs]


@_rule("dot_general")
def _dot_general(x: Any, y: Any, *, dimension_numbers: Any, **_: Any) -> Any:
    (cx, cy), (bx, by) = dimension_numbers
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in range(x.ndim)]
    right: list[str] = [""] * y.ndim
    for i, j in [*zip(cx, cy, strict=True), *zip(bx, by, strict=True)]:
        right[j] = left[i]
    right = [r or next(letters) for r in right]
    batch = [left[i] for i in bx]
    own = [c for i, c in enumerate(left) if i not in (*cx, *bx)]
    other = [c for j, c in enumerate(right) if j not in (*cy, *by)]
    out = "".join([*batch, *own, *other])
    return np.einsum(f"{''.join(left)},{''.join(right)}->{out}", x, y)


# ---------------------------------------------------------------- gather and scatter


def _places(
    indices: Any, starts: Any, batching: Any, index_batching: Any, window: list[int],
    window_dims: list[int], rank: int, batch_shape: tuple[int, ...],
) -> list[Any]:  # fmt: skip
    """One index array per dimension of the operand, over (batch dims, window dims)."""
    depth = len(batch_shape) + len(window)
    out: list[Any] = [np.zeros((1,) * depth, np.int64) for _ in range(rank)]
    for column, dim in enumerate(starts):
        part = np.asarray(indices[..., column]).astype(np.int64)
        out[dim] = out[dim] + part.reshape((*batch_shape, *(1,) * len(window)))
    for dim, at in zip(batching, index_batching, strict=True):
        shape = [1] * depth
        shape[at] = batch_shape[at]
        out[dim] = out[dim] + np.arange(batch_shape[at]).reshape(shape)
    for i, dim in enumerate(window_dims):
        shape = [1] * depth
        shape[len(batch_shape) + i] = window[i]
        out[dim] = out[dim] + np.arange(window[i]).reshape(shape)
    return out


def _mode(mode: Any) -> str:
    return str(getattr(mode, "name", mode)).lower()


@_rule("gather")
def _gather(
    x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Any, mode: Any,
    fill_value: Any, **_: Any,
) -> Any:  # fmt: skip
    d = dimension_numbers
    x = np.asarray(x)
    batch = indices.shape[:-1]
    gone = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    window_dims = [i for i in range(x.ndim) if i not in gone]
    window = [slice_sizes[i] for i in window_dims]
    indices = np.asarray(indices).astype(np.int64)
    limit = np.array([x.shape[i] - slice_sizes[i] for i in d.start_index_map], np.int64)
    inside = np.all((indices >= 0) & (indices <= limit), axis=-1)
    indices = np.clip(indices, 0, np.maximum(limit, 0))
    places = _places(indices, d.start_index_map, d.operand_batching_dims,
                     d.start_indices_batching_dims, window, window_dims, x.ndim, batch)  # fmt: skip
    full = (*batch, *window)
    if x.size == 0:
        out = np.zeros(full, x.dtype)
        inside = np.zeros(batch, bool)
    else:
        out = np.broadcast_to(x[tuple(places)] if x.ndim else x, full)
    if "fill" in _mode(mode) and not inside.all():
        if fill_value is None:
            if np.issubdtype(x.dtype, np.floating):
                fill_value = np.nan
            elif x.dtype == bool:
                fill_value = True
            else:
                info = np.iinfo(x.dtype)
                fill_value = info.min if info.min < 0 else info.max
        shaped = inside.reshape((*batch, *(1,) * len(window)))
        out = np.where(shaped, out, np.asarray(fill_value, x.dtype))
    order: list[int] = [0] * len(full)
    free = iter(range(len(batch)))
    offsets = iter(range(len(batch), len(full)))
    for i in range(len(full)):
        order[i] = next(offsets) if i in d.offset_dims else next(free)
    return np.transpose(out, order)


def _scatter(function: Any) -> Rule:
    def run(x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, **_: Any) -> Any:
        d = dimension_numbers
        out = np.array(x)
        updates = np.asarray(updates)
        batch = indices.shape[:-1]
        gone = {*d.inserted_window_dims, *d.operand_batching_dims}
        window_dims = [i for i in range(out.ndim) if i not in gone]
        behind = list(d.update_window_dims)
        front = [i for i in range(updates.ndim) if i not in behind]
        updates = np.transpose(updates, [*front, *behind])
        window = list(updates.shape[len(batch) :])
        places = _places(np.asarray(indices), d.scatter_dims_to_operand_dims,
                         d.operand_batching_dims, d.scatter_indices_batching_dims, window,
                         window_dims, out.ndim, batch)  # fmt: skip
        places = [np.broadcast_to(p, updates.shape) for p in places]
        inside = np.ones(updates.shape, bool)
        for place, size in zip(places, out.shape, strict=True):
            inside &= (place >= 0) & (place < size)
        at = tuple(p[inside] for p in places)
        if out.ndim == 0:
            flat = updates.reshape(-1)
            for one in flat:
                out = np.asarray(one if function is None else function(out, one)).astype(out.dtype)
            return out
        if function is None:
            out[at] = updates[inside]
        else:
            function.at(out, at, updates[inside])
        return out

    return run


for _name, _ufunc in {
    "scatter": None, "scatter-add": np.add, "scatter_add": np.add, "scatter-mul": np.multiply,
    "scatter_mul": np.multiply, "scatter-max": np.maximum, "scatter_max": np.maximum,
    "scatter-min": np.minimum, "scatter_min": np.minimum,
}.items():  # fmt: skip
    RULES[_name] = _scatter(_ufunc)


# ---------------------------------------------------------------- control


@_rule("jit", "pjit", "closed_call", "core_closed_call", "custom_jvp_call", "custom_vjp_call")
def _call(*args: Any, **params: Any) -> Any:
    inner = params.get("jaxpr", params.get("call_jaxpr"))
    return evaluate(inner.jaxpr, inner.consts, *args)


@_rule("remat2", "checkpoint", "remat")
def _remat(*args: Any, jaxpr: Any, **_: Any) -> Any:
    return evaluate(jaxpr, (), *args)


@_rule("cond")
def _cond(index: Any, *args: Any, branches: Any, **_: Any) -> Any:
    chosen = branches[int(np.clip(index, 0, len(branches) - 1))]
    return evaluate(chosen.jaxpr, chosen.consts, *args)


@_rule("while")
def _while(
    *args: Any, cond_nconsts: int, cond_jaxpr: Any, body_nconsts: int, body_jaxpr: Any, **_: Any
) -> Any:
    c, b = args[:cond_nconsts], args[cond_nconsts : cond_nconsts + body_nconsts]
    state = list(args[cond_nconsts + body_nconsts :])
    while bool(evaluate(cond_jaxpr.jaxpr, cond_jaxpr.consts, *c, *state)[0]):
        state = evaluate(body_jaxpr.jaxpr, body_jaxpr.consts, *b, *state)
    return state


@_rule("scan")
def _scan(*args: Any, jaxpr: Any, length: int, reverse: bool, **how: Any) -> Any:
    if "ft_in" in how:  # since jax 0.11
        num_consts, num_carry, _ = map(len, how["ft_in"].unpack())
    else:
        num_consts, num_carry = how["num_consts"], how["num_carry"]
    consts, carry = args[:num_consts], list(args[num_consts : num_consts + num_carry])
    xs = args[num_consts + num_carry :]
    rows: list[list[Any]] = []
    for i in reversed(range(length)) if reverse else range(length):
        out = evaluate(jaxpr.jaxpr, jaxpr.consts, *consts, *carry, *(x[i] for x in xs))
        carry = out[:num_carry]
        rows.append(out[num_carry:])
    if reverse:
        rows.reverse()
    stacked = []
    for i, aval in enumerate(jaxpr.out_avals[num_carry:]):
        if rows:
            stacked.append(np.stack([r[i] for r in rows]))
        else:
            key = jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key)
            stacked.append(np.zeros((0, *aval.shape), np.uint64 if key else aval.dtype))
    return [*carry, *stacked]


# ---------------------------------------------------------------- random numbers


def _join_key(data: np.ndarray) -> np.ndarray:
    wide = np.asarray(data).astype(np.uint64)
    return np.asarray((wide[..., 0] << np.uint64(32)) | wide[..., 1])


def _split_key(key: np.ndarray) -> np.ndarray:
    high = (key >> np.uint64(32)).astype(np.uint32)
    return np.stack([high, (key & np.uint64(0xFFFFFFFF)).astype(np.uint32)], -1)


def _mix(a: int, b: int) -> int:
    """SplitMix64's finaliser on two numbers."""
    x = (a + 0x9E3779B97F4A7C15 * (b + 1)) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


RULES["random_wrap"] = lambda data, **_: _join_key(data)
RULES["random_unwrap"] = lambda key, **_: _split_key(np.asarray(key))


@_rule("random_seed")
def _random_seed(seed: Any, **_: Any) -> Any:
    flat = [_mix(int(s) & MASK, 77) for s in np.ravel(seed)]
    return np.array(flat, np.uint64).reshape(np.shape(seed))


@_rule("random_fold_in")
def _random_fold_in(key: Any, number: Any, **_: Any) -> Any:
    key, number = np.broadcast_arrays(key, number)
    flat = [_mix(int(k), int(n) & MASK) for k, n in zip(key.ravel(), number.ravel(), strict=True)]
    return np.array(flat, np.uint64).reshape(key.shape)


@_rule("random_split")
def _random_split(key: Any, *, shape: Any) -> Any:
    count = math.prod(shape)
    flat = [[_mix(_mix(int(k), 1 << 40), i) for i in range(count)] for k in np.ravel(key)]
    return np.array(flat, np.uint64).reshape((*np.shape(key), *shape))


@_rule("random_bits")
def _random_bits(key: Any, *, bit_width: int, shape: Any) -> Any:
    dtype = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bit_width]
    top = (1 << bit_width) - 1
    flat = [
        np.random.Generator(np.random.PCG64(int(k))).integers(0, top, shape, dtype, endpoint=True)
        for k in np.ravel(key)
    ]
    return np.array(flat, dtype).reshape((*np.shape(key), *shape))


@_rule("threefry2x32")
def _threefry(k1: Any, k2: Any, x1: Any, x2: Any) -> Any:
    """Keys that were split and folded outside of a trace: any good mixture will do."""
    k1, k2, x1, x2 = np.broadcast_arrays(k1, k2, x1, x2)
    keys, counts = (_join_key(np.stack(pair, -1)).ravel() for pair in ((k1, k2), (x1, x2)))
    mixed = [_mix(int(k), int(c)) for k, c in zip(keys, counts, strict=True)]
    both = _split_key(np.array(mixed, np.uint64).reshape(np.shape(x1)))
    return [both[..., 0], both[..., 1]]
