"""A command that can be interrupted, also where these tests run in the background.

A process that a shell starts in the background ignores interrupts, and so do all that it
starts: Python then never hears of them.
"""

from __future__ import annotations

import sys

_HEAR = (
    "import runpy, signal; "
    "signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runpy.run_module('nesymm.cli', run_name='__main__')"
)
NESYMM = [sys.executable, "-c", _HEAR]
