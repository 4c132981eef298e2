"""What the command lines of the experiments have in common."""

from __future__ import annotations

import argparse


def seeds(text: str) -> tuple[int, ...]:
    """`0-4` or `0,2,3`."""
    first, dash, last = text.partition("-")
    numbers = (first, last) if dash else text.split(",")
    if all(number.isdecimal() for number in numbers):
        found = range(int(first), int(last) + 1) if dash else map(int, numbers)
        if listed := tuple(found):
            return listed
    raise argparse.ArgumentTypeError(f"expected seeds as in 0-4 or 0,2,3, received {text}")


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, received {text}")
    return int(text)
