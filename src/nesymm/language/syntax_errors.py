"""What the grammar refused, in the words of the person who wrote it.

The parser knows that a token cannot follow; here the refused statement is cut into rough
pieces once more, to find the mistake that people actually make: a missing full stop, an
open bracket, `p@t(X)`, an upper-case predicate, `!=`. Only broken programs pay for this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nesymm.errors import Diagnostic, Source, Span

if TYPE_CHECKING:
    from lark.exceptions import UnexpectedInput

_RAW = re.compile(
    r"""(?P<blank>\s+|%[^\n]*|/\*[\s\S]*?\*/)
    |(?P<comment>/\*[\s\S]*)
    |(?P<quoted>'(?:[^'\\\n]|\\.|'')*'|"(?:[^"\\\n]|\\.|"")*")
    |(?P<quote>['"])
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |(?P<variable>[A-Z_]\w*)
    |(?P<word>\w+)
    |(?P<end>\.(?=\s|%|\Z))
    |(?P<open>[(\[])
    |(?P<close>[)\]])
    |(?P<symbol>=\.\.|=:=|=\\=|\\==|@=<|@>=|[?:]-|<-|->|::|:=|=<|==|=>|!=|\\=|\\\+|@<|@>
        |>=|<=|<>|<<|>>|//|\*\*|\.\.|&&|\|\||[\s\S])""",
    re.VERBOSE,
)

# fmt: off
_COMPARISONS = frozenset((
    "~", "=", "\\=", "==", "\\==", "is", "=:=", "=\\=", "<", ">", "=<", ">=", "<=", "=..",
    "@<", "@>", "@=<", "@>=",
))
# fmt: on
_OPERANDS = ("word", "variable", "number", "quoted")
_CLOSING = {"(": ")", "[": "]"}

# What people write who come from elsewhere, and what it is here.
_FOREIGN = {
    "?-": "ask with `query(...)`",
    "&&": "`,` means and",
    "&": "`,` means and",
    "||": "`;` means or",
    "|": "`;` means or; `|` stands in lists only",
    "!=": "write `\\=` for different terms, `=\\=` for different numbers",
    "<>": "write `\\=` for different terms, `=\\=` for different numbers",
    "=>": "write `>=` to compare, `:-` for a rule",
    ":=": "write `is` to compute, `=` to unify, `~` to draw",
    "{": "braces have no meaning here; use parentheses",
    "}": "braces have no meaning here; use parentheses",
    "#": "a comment starts with `%`",
}


@dataclass(frozen=True, slots=True)
class _Raw:
    """A piece of refused text."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def shown(self) -> str:
        if self.kind == "end":
            return "a full stop" if self.text else "the end of the text"
        if len(self.text) == 1 and not self.text.isprintable():
            return f"the character U+{ord(self.text):04X}"
        return f"`{self.text}`" if len(self.text) <= 30 else f"`{self.text[:29]}…`"


def chained(span: Span) -> Diagnostic:
    return Diagnostic(
        "E001", "comparisons do not chain", span, "write two comparisons: `A < B, B < C`"
    )


def _statement_at(text: str, since: int, at: int) -> list[_Raw]:
    """The pieces of the statement around an offset, through its full stop."""
    pieces: list[_Raw] = []
    for match in _RAW.finditer(text, since):
        kind = match.lastgroup or ""
        if kind == "blank":
            continue
        pieces.append(_Raw(kind, match[0], match.start()))
        if kind == "end":
            if match.end() > at:
                return pieces
            pieces.clear()
    pieces.append(_Raw("end", "", len(text)))
    return pieces


def explain(source: Source, since: int, error: UnexpectedInput) -> tuple[Diagnostic, int | None]:
    """A message for what the parser refused, and where reading continues."""
    text = source.text
    at: int = error.pos_in_stream or 0
    if getattr(getattr(error, "token", None), "type", "") == "$END":
        at = len(text)
    pieces = _statement_at(text, since, at)
    index = next((i for i, piece in enumerate(pieces) if piece.end > at), len(pieces) - 1)
    last = pieces[-1]
    resume = last.end if last.text else None
    return _Refusal(source, pieces, index, resume, error).explain()


@dataclass(frozen=True, slots=True)
class _Refusal:
    """One statement, the piece of it that was refused, and the rules that explain it."""

    source: Source
    pieces: list[_Raw]
    index: int
    resume: int | None
    error: UnexpectedInput

    def explain(self) -> tuple[Diagnostic, int | None]:
        for rule in (
            self._quotes,
            self._less_than_minus,
            self._full_stop,
            self._brackets,
            self._arguments,
            self._operators,
        ):
            found = rule()
            if found is not None:
                return found
        return self._anything()

    @property
    def found(self) -> _Raw:
        return self.pieces[self.index]

    def before(self, steps: int = 1) -> _Raw:
        """An earlier piece of the statement; an empty one where there is none."""
        at = self.index - steps
        return self.pieces[at] if at >= 0 else _Raw("", "", self.pieces[0].start)

    def _at(
        self, piece: _Raw, message: str, cure: str | None, *notes: str
    ) -> tuple[Diagnostic, int | None]:
        span = Span(self.source, piece.start, piece.end)
        return Diagnostic("E001", message, span, cure, notes), self.resume

    def _starts_line(self, piece: _Raw) -> bool:
        text = self.source.text
        return not text[text.rfind("\n", 0, piece.start) + 1 : piece.start].strip()

    def _unclosed(self, upto: int) -> list[_Raw]:
        """The brackets that are open in front of a piece."""
        stack: list[_Raw] = []
        for piece in self.pieces[:upto]:
            if piece.kind == "open":
                stack.append(piece)
            elif piece.kind == "close" and stack and _CLOSING[stack[-1].text] == piece.text:
                stack.pop()
        return stack

    def _quotes(self) -> tuple[Diagnostic, int | None] | None:
        found = self.found
        if found.kind == "comment":
            span = Span(self.source, found.start, found.start + 2)
            cure = "close it with `*/`"
            return Diagnostic("E001", "this comment is never closed", span, cure), None
        if found.kind != "quote":
            return None
        what = "quoted atom" if found.text == "'" else "string"
        cure = f"close it with `{found.text}` on the same line"
        problem, _ = self._at(found, f"this {what} is never closed", cure)
        # What follows on the line is text rather than program, full stops included.
        text = self.source.text
        end_of_line = text.find("\n", found.end)
        if end_of_line < 0:
            return problem, None
        if text[:end_of_line].rstrip().endswith("."):
            return problem, end_of_line
        rest = _statement_at(text, end_of_line, end_of_line)[-1]
        return problem, rest.end if rest.text else None

    def _less_than_minus(self) -> tuple[Diagnostic, int | None] | None:
        found, after = self.found, self.pieces[min(self.index + 1, len(self.pieces) - 1)]
        left = self.before().text
        glued = self.before().end == found.start and found.end == after.start
        value = after.kind == "number" or (after.kind == "variable" and glued)
        if found.text != "<-" or not value:
            return None
        cure = f"for less than minus, write `{left} < -{after.text}` with a space"
        return self._at(found, "found `<-`, which makes a rule like `:-`", cure)

    def _full_stop(self) -> tuple[Diagnostic, int | None] | None:
        found, before = self.found, self.before()
        complete = before.kind in (*_OPERANDS, "close")
        if found.kind == "end" and not found.text and not self._unclosed(self.index):
            if not before.text:
                code, message = "E002", "the text is empty: expected a term"
                span = Span(self.source, found.start, found.start)
                return Diagnostic(code, message, span, "write a term"), None
            if complete:
                place = _Raw("symbol", "", before.end)
                cure = f"write `.` after {before.shown}"
                return self._at(place, "the last statement does not end in a full stop", cure)
        if found.kind == "end" and not before.text:
            return self._at(found, "a full stop with no statement before it", "remove it")
        if found.text == "." and found.kind == "symbol" and complete:
            cure = "write a space or a new line after the full stop"
            return self._at(found, "a full stop ends a statement only before a space", cure)
        if self._unclosed(self.index):
            return None
        starts = found.kind in _OPERANDS or found.text == ":-"
        if complete and starts and self._starts_line(found):
            problem, _ = self._at(
                _Raw("symbol", "", before.end),
                f"a full stop is missing between {before.shown} and {found.shown}",
                f"write `.` after {before.shown}",
            )
            return problem, found.start
        return self._second_neck() if found.text in (":-", "<-") else None

    def _second_neck(self) -> tuple[Diagnostic, int | None]:
        # The line on which the second rule starts, if the line before broke off in a comma.
        first = self.index - 1
        while first > 0 and not self._starts_line(self.pieces[first]):
            first -= 1
        separator = self.pieces[first - 1] if first > 0 else None
        if separator is not None and separator.text in (",", ";"):
            problem, _ = self._at(
                separator,
                f"found {separator.shown} where the statement should end: the rule for "
                f"{self.pieces[first].shown} starts after it",
                f"write `.` instead of {separator.shown}",
            )
            return problem, self.pieces[first].start
        cure = "end the first clause with a full stop"
        return self._at(self.found, f"a second {self.found.shown} in one statement", cure)

    def _brackets(self) -> tuple[Diagnostic, int | None] | None:
        found, stack = self.found, self._unclosed(self.index)
        if found.kind == "close":
            if not stack:
                cure = "remove it, or add the bracket that it should close"
                return self._at(found, f"this {found.shown} closes nothing", cure)
            wanted = _CLOSING[stack[-1].text]
            if wanted != found.text:
                line, column = self.source.position(stack[-1].start)
                message = f"found {found.shown}, but {stack[-1].shown} is open"
                note = f"{stack[-1].shown} was opened at line {line}, column {column}"
                return self._at(found, message, f"write `{wanted}`", note)
            return None
        left_open = self._unclosed(len(self.pieces))
        if stack and found.text in (":-", "<-") and stack[-1] not in left_open:
            message = f"a rule cannot stand inside brackets: found {found.shown}"
            return self._at(found, message, "make it a statement of its own")
        suspicious = found.kind == "end" or found.text == ":-" or self._starts_line(found)
        if not (stack and suspicious and stack[-1] in left_open):
            return None
        end = self.pieces[-1]
        line, column = self.source.position(end.start)
        what = "statement" if end.text else "text"
        note = f"the {what} ends at line {line}, column {column}"
        cure = f"add `{_CLOSING[stack[-1].text]}`"
        return self._at(stack[-1], f"this {stack[-1].shown} is never closed", cure, note)

    def _arguments(self) -> tuple[Diagnostic, int | None] | None:
        found, before = self.found, self.before()
        adjacent = before.end == found.start
        if found.text == ")" and before.text == "(" and self.before(2).kind == "word":
            name = self.before(2).text
            cure = f"write `{name}` without brackets"
            return self._at(found, f"`{name}()` has no arguments", cure)
        if found.text != "(":
            return None
        if self.before(2).text == "@":
            owner, group = self.before(3), self._group()
            known = owner.kind in ("word", "quoted") and group and len(group) < 60
            example = f"{owner.text}{group}@{before.text}" if known else "p(X)@t"
            message = "the arguments come before the time"
            return self._at(found, message, f"write `{example}`")
        if before.kind == "variable" and adjacent:
            bare = before.text.lstrip("_") or "p"
            message = f"{before.shown} is a variable and takes no arguments"
            cure = f"a name starts in lower case: write `{bare[0].lower()}{bare[1:]}(`"
            return self._at(before, message, cure)
        if before.kind == "word" and not adjacent:
            cure = f"write `{before.text}(` without a space, or put a comma between"
            return self._at(found, f"found `(` behind {before.shown} and a space", cure)
        return None

    def _group(self) -> str:
        """The text from the refused bracket to the one that closes it."""
        depth = 0
        for piece in self.pieces[self.index :]:
            depth += {"open": 1, "close": -1}.get(piece.kind, 0)
            if depth == 0 and piece.kind == "close":
                return self.source.text[self.found.start : piece.end]
        return ""

    def _operators(self) -> tuple[Diagnostic, int | None] | None:
        found, before = self.found, self.before()
        in_list = found.text == "|" and [p.text for p in self._unclosed(self.index)][-1:] == ["["]
        if found.text in _FOREIGN and not in_list:
            return self._at(found, f"{found.shown} is no operator here", _FOREIGN[found.text])
        if found.text == "::" and before.text:
            cure = "a probability stands before one head; separate heads by `;`"
            return self._at(found, f"found a second `::` after {before.shown}", cure)
        if found.text == "//" and not before.text:
            return self._at(found, "found `//`", "a comment starts with `%`")
        if found.kind in ("word", "variable") and not found.text.isascii():
            cure = f"quote it: `'{found.text}'`"
            return self._at(found, f"{found.shown} has letters other than a-z and A-Z", cure)
        if found.text in ("**", "^") and before.kind == "number" and self.before(2).text == "-":
            base = before.text
            cure = f"write `(-{base}){found.text}2` or `-({base}{found.text}2)`"
            return self._at(found, "a power of a negative number can be read in two ways", cure)
        adjacent = before.end == found.start
        if found.kind in ("word", "variable") and before.kind == "number" and adjacent:
            cure = "start the name with a letter, or write an operator between"
            both = f"`{before.text}{found.text}`"
            return self._at(found, f"{both} is neither a number nor a name", cure)
        if before.text == "@":
            cure = "write a time: `@t`, `@T`, `@3` or `@(t-1)`"
            return self._at(found, f"found {found.shown} after `@`", cure)
        if found.text in _COMPARISONS or before.text in _COMPARISONS:
            operators = [piece for piece in self._goal() if piece.text in _COMPARISONS]
            if len(operators) > 1:
                span = Span(self.source, operators[-1].start, operators[-1].end)
                return chained(span), self.resume
        return None

    def _goal(self) -> list[_Raw]:
        """The pieces back to where the present goal or argument starts, brackets skipped."""
        pieces: list[_Raw] = []
        depth = 0
        for piece in reversed(self.pieces[: self.index + 1]):
            depth += {"close": 1, "open": -1}.get(piece.kind, 0)
            if depth < 0 or (depth == 0 and piece.text in (",", ";", ":-", "<-", "->", "|")):
                break
            if depth == 0:
                pieces.append(piece)
        return pieces[::-1]

    def _anything(self) -> tuple[Diagnostic, int | None]:
        found, before = self.found, self.before()
        after = f" after {before.shown}" if before.text else ""
        message = f"found {found.shown}{after}, expected {self._expected()}"
        cure = None
        if found.kind in ("end", "close") and before.text in (",", ";", "|"):
            cure = f"remove {before.shown}, or add what should follow it"
        elif found.kind in ("end", "close", "symbol") and before.text == "not":
            cure = "`not` is an operator; the atom is written `'not'`"
        elif found.kind in ("end", "close") and before.kind == "symbol":
            cure = f"add the right-hand side of {before.shown}"
        elif found.kind in (*_OPERANDS, "open") and before.kind in (*_OPERANDS, "close"):
            cure = f"write `,` or an operator between {before.shown} and {found.shown}"
        return self._at(found, message, cure)

    def _expected(self) -> str:
        from lark.exceptions import UnexpectedToken

        error = self.error
        terminals: set[str] = set(getattr(error, "allowed", None) or ())
        if isinstance(error, UnexpectedToken):
            terminals = set(error.expected)
        parser = getattr(error, "interactive_parser", None)
        # Exact, but it tries every terminal on a copy of the stack.
        if parser is not None and len(parser.parser_state.state_stack) < 1000:
            terminals = parser.accepts()
        words = [words for names, words in _PLAIN if names & terminals]
        if len(words) < 2:
            return words[0] if words else "something else"
        return ", ".join(words[:-1]) + " or " + words[-1]


_PLAIN: Sequence[tuple[frozenset[str], str]] = (
    (frozenset({"FUNCTOR"}), "a term"),
    (frozenset({"MULTIPLIES", "COMPARES"}), "an operator"),
    (frozenset({"COMMA"}), "`,`"),
    (frozenset({"RPAR"}), "`)`"),
    (frozenset({"RSQB"}), "`]`"),
    (frozenset({"END"}), "a full stop"),
    (frozenset({"$END"}), "the end of the text"),
)
