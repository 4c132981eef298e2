"""Equal computations are compiled once: tests that fit the same small program share them."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache


@pytest.fixture(scope="module", autouse=True)
def shared_compilation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder of compiled code, for one module of tests."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    folder = tmp_path_factory.mktemp("compiled")
    for name, value in zip(names, (str(folder), 0.1), strict=True):
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
