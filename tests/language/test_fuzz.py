"""Whatever the text, only our own errors come out, and they can be shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fuzzing import CORPUS, mutants

from nesymm.errors import NesymmError
from nesymm.language.parser import parse

# Each takes program text. Later stages add themselves: check, compile.
TARGETS: list[Callable[[str], object]] = [parse]


def survive(target: Callable[[str], object], text: str) -> None:
    try:
        target(text)
    except NesymmError as error:
        message = str(error)
        message.encode("utf-8")  # a lone surrogate would break the terminal
        assert message
    except Exception as error:
        pytest.fail(f"{type(error).__name__}: {error}\nfor the program {text!r}")


@pytest.mark.parametrize("text", CORPUS)
def test_the_corpus_is_read(text: str) -> None:
    assert parse(text).statements


@pytest.mark.parametrize("target", TARGETS)
def test_broken_programs(target: Callable[[str], object]) -> None:
    for text in mutants(2_000, seed=1):
        survive(target, text)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_broken_programs(target: Callable[[str], object]) -> None:
    for text in mutants(100_000, seed=2):
        survive(target, text)


def test_mutants_are_reproducible() -> None:
    assert list(mutants(50, seed=3)) == list(mutants(50, seed=3))
    assert list(mutants(50, seed=3)) != list(mutants(50, seed=4))
