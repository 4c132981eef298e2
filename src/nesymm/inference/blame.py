"""Which network gave NaN, found by trying again without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

Networks = Mapping[str, Callable[..., Any]]


def network_to_blame(networks: Networks, fails: Callable[[Networks], bool]) -> str | None:
    """The first network whose NaN alone makes a run fail; None where NaN comes from elsewhere."""
    calm = {n: lambda *a, f=f: jnp.nan_to_num(f(*a)) for n, f in networks.items()}
    if not networks or fails(calm):
        return None
    for name in networks:
        if len(networks) == 1 or fails({**calm, name: networks[name]}):
            return name
    return None
