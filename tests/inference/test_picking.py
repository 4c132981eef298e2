"""Rows of tables at drawn positions: against NumPy, and how much is made on the way."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from nesymm.inference.elimination.choices import BATCH, PARTICLE, Choice
from nesymm.inference.elimination.factors import pick_at
from nesymm.inference.named import Named

SEQUENCES, PARTICLES = 3, 50
SIZES = [(10, 10, 2), (4, 3, 5), (20, 9, 7), (5, 1, 2)]


def case(sizes: tuple[int, ...], by_particle: bool) -> tuple[Named, dict[Choice, Named]]:
    """A table over choices and lanes, and positions for all choices but the first."""
    rng = np.random.default_rng(sum(sizes))
    dims = [Choice("rv", name, (), size) for name, size in zip("xyz", sizes, strict=True)]
    lanes = (SEQUENCES, PARTICLES) if by_particle else (SEQUENCES,)
    table = rng.normal(size=(*sizes, *lanes)).astype(np.float32)
    drawn = {
        d: Named(rng.integers(0, d.size, (SEQUENCES, PARTICLES)), (BATCH, PARTICLE))
        for d in dims[1:]
    }
    return Named(table, (*dims, *(BATCH, PARTICLE)[: len(lanes)])), drawn


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("by_particle", [False, True])
def test_rows_are_those_that_were_drawn(sizes: tuple[int, ...], by_particle: bool) -> None:
    table, drawn = case(sizes, by_particle)
    found = pick_at(table, drawn)
    first = table.dims[0]
    assert set(found.dims) == {first, BATCH, PARTICLE}
    array = np.moveaxis(
        found.array, [found.dims.index(d) for d in (first, BATCH, PARTICLE)], [0, 1, 2]
    )
    y, z = (i.array for i in drawn.values())
    for sequence in range(SEQUENCES):
        for particle in range(PARTICLES):
            lanes = (sequence, particle) if by_particle else (sequence,)
            row = table.array[:, y[sequence, particle], z[sequence, particle], *lanes]
            np.testing.assert_array_equal(array[:, sequence, particle], row)


@pytest.mark.parametrize("sizes", SIZES[:2])
def test_only_the_rows_are_spread_over_particles(sizes: tuple[int, ...]) -> None:
    """A table that all particles share is not copied for each of them."""
    table, drawn = case(sizes, by_particle=False)
    traced = jax.make_jaxpr(lambda array: pick_at(Named(array, table.dims), drawn).array)(
        table.array
    )
    largest = max(v.aval.size for e in traced.eqns for v in e.outvars)
    assert largest <= sizes[0] * SEQUENCES * PARTICLES
