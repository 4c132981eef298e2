"""A setting of XLA that has to be made before JAX compiles anything."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

# On CPUs these versions of jaxlib fuse reductions in a way that crashes the process on arrays of
# high rank, such as the gradients of exact beliefs have, and that is slow. What is left of such
# fusions here are single products of matrices. Other versions may not know the flag, and an
# unknown flag is fatal.
_CRASHING = {"0.10.2"}
_FLAG = "--xla_cpu_experimental_ynn_fusion_type"
_ONLY = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"


def avoid_crashing_fusions() -> None:
    """Switch them off, unless the user has chosen; in vain if JAX has compiled something before."""
    flags = os.environ.get("XLA_FLAGS", "")
    try:
        crashes = version("jaxlib") in _CRASHING
    except PackageNotFoundError:
        return
    if crashes and _FLAG not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_FLAG}={_ONLY}".strip()
