"""The command line."""

from nesymm.cli.main import main

__all__ = ["main"]
