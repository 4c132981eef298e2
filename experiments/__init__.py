"""Experiments on top of `nesymm`; not part of the installed package."""
