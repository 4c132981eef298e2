"""A compiler that computes wrongly is refused, not believed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nesymm.errors import NesymmError
from nesymm.inference import devices as backend

pytestmark = pytest.mark.compiled


def test_this_device_is_trusted() -> None:
    backend.check_device(np.float32)


def test_a_device_that_miscounts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = backend._distances

    def wrong(places: Any) -> Any:
        return right(places) + (not isinstance(places, np.ndarray))

    monkeypatch.setattr(backend, "_distances", wrong)
    backend.trust.cache_clear()
    with pytest.raises(NesymmError, match="whole numbers wrongly"):
        backend.trust("abacus", np.int32)
    backend.trust.cache_clear()
