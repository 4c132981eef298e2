"""One exception hierarchy, and the rendering of located messages.

A mistake in a program is a `Diagnostic`: a code, a cause, a place and a cure. A
`ProgramError` carries all the diagnostics that one stage found, so that a user sees
every mistake of a file at once. `docs/errors.md` explains each code.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from types import FrameType
from typing import NoReturn

# Lines longer than this are shown as a window around the caret.
_WINDOW = 96


@dataclass(frozen=True, eq=False)
class Source:
    """Program text and the name to show for it."""

    name: str
    text: str

    @cached_property
    def line_starts(self) -> list[int]:
        starts = [0]
        starts.extend(i + 1 for i, char in enumerate(self.text) if char == "\n")
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of a character offset."""
        from bisect import bisect_right

        line = bisect_right(self.line_starts, offset) - 1
        return line + 1, offset - self.line_starts[line] + 1

    def line(self, number: int) -> str:
        start = self.line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]


@dataclass(frozen=True, eq=False, slots=True)
class Span:
    """A stretch of a source: character offsets, the end exclusive."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.start)[1]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake: what is wrong, where, and what to write instead; or a mere note."""

    code: str
    message: str
    span: Span | None = None
    cure: str | None = None
    notes: tuple[str, ...] = field(default=())
    level: str = "error"

    def render(self) -> str:
        lines = [f"{self.level}[{self.code}]: {self.message}"]
        if self.span is not None:
            lines += _excerpt(self.span)
        lines += [f"  = note: {note}" for note in self.notes]
        if self.cure:
            lines.append(f"  = help: {self.cure}")
        return "\n".join(lines)


def located(message: str, span: Span | None) -> str:
    """A message with the place in a program that it is about."""
    return message if span is None else "\n".join([message, *_excerpt(span)])


def _excerpt(span: Span) -> list[str]:
    line, column = span.source.position(span.start)
    text = span.source.line(line).replace("\t", " ")
    width = max(1, min(span.end - span.start, len(text) - column + 1))
    first = 0
    if len(text) > _WINDOW:
        first = max(0, column - 1 - _WINDOW // 2)
        shown = text[first : first + _WINDOW]
        width = max(1, min(width, first + len(shown) - (column - 1)))
        text = ("…" if first else "") + shown + ("…" if first + _WINDOW < len(text) else "")
    indent = column - 1 - first + (1 if first else 0)
    gutter = " " * len(str(line))
    return [
        f"{gutter}--> {span.source.name}:{line}:{column}",
        f"{gutter} |",
        f"{line} | {text}",
        f"{gutter} | {' ' * indent}{'^' * width}",
    ]


class NesymmError(Exception):
    """Everything nesymm raises on purpose."""


class NesymmWarning(UserWarning):
    """A result that is worth less than it seems: what was found where, why it matters, and what
    to do. `kind` is a short name of it."""

    def __init__(self, kind: str, found: str, cause: str, cure: str):
        self.kind = kind
        super().__init__(f"{kind}: {found}\n  = note: {cause}\n  = help: {cure}")


def warn(warning: NesymmWarning) -> None:
    """Issue a warning about the line of the user's code that called the library."""
    frame: FrameType | None = sys._getframe()
    level = outermost = 1
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "nesymm":
            outermost = level
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=outermost + 1)


class ProgramError(NesymmError):
    """One or more located mistakes in a program."""

    def __init__(self, *diagnostics: Diagnostic):
        self.diagnostics = diagnostics
        super().__init__("\n\n".join(d.render() for d in diagnostics))

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(d.code for d in self.diagnostics)


def fail(
    code: str, message: str, span: Span | None, cure: str | None = None, *notes: str
) -> NoReturn:
    """Refuse a program for one mistake."""
    raise ProgramError(Diagnostic(code, message, span, cure, notes))
