"""Text to `Program`: the first stage.

`grammar.lark` says what a term is; this file turns the pieces into terms as they are
recognised (no parse tree in between). What the grammar refuses, `syntax_errors.py` puts
into words. After a mistake, reading continues behind the next full stop, so that one run
reports the mistakes of several statements.

Codes: E001 syntax, E002 empty, E003 not UTF-8, E004 nested too deeply, E005 a character
or number that cannot be kept, E006 unknown escape in quotes, E007 unreadable file,
E008 a name with and without quotes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from math import copysign, isinf
from pathlib import Path
from sys import intern
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from nesymm.errors import Diagnostic, ProgramError, Source, Span, fail
from nesymm.language.syntax_errors import chained, explain
from nesymm.language.terms import ListTerm, Num, Program, Str, Struct, Term, Var, children

if TYPE_CHECKING:
    from lark import Lark

MAX_DEPTH = 200
# Each level of a term is printed with at most two brackets, so this many are enough for
# everything `pprint` writes.
MAX_BRACKETS = 2 * MAX_DEPTH
MAX_ERRORS = 20
MAX_DIGITS = 4300  # Python refuses to read and to show longer whole numbers.
MAX_BITS = 14_000

_PATH = re.compile(r"\S+\.(?:nsl|pl)")
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def parse(text: str, name: str = "<program>") -> Program:
    """Reads a program; `name` is shown in messages."""
    source = _source(text, name)
    if _PATH.fullmatch(text):
        fail(
            "E001",
            f"expected the text of a program, found the path `{text}`",
            Span(source, 0, len(source.text)),
            f'`nesymm.compile(Path("{text}"))` reads the file',
        )
    statements = _run(source, "program")
    if not statements:
        fail(
            "E002",
            "the program is empty: it has no statement",
            Span(source, 0, 0),
            "write at least one statement and end it with a full stop",
        )
    return Program(tuple(statements), source)


def parse_term(text: str, name: str = "<term>") -> Term:
    """Reads one term; its full stop may be left out."""
    source = _source(text, name)
    terms = _run(source, "lone")
    return terms[0]


def read(path: str | Path) -> Program:
    """Reads a program from a UTF-8 file."""
    return parse(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file."""
    name = str(path)
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ProgramError(
            Diagnostic("E007", f"cannot read `{name}`: {reason}", cure="check the path")
        ) from None
    body = data.removeprefix(codecs.BOM_UTF8)
    try:
        return _normalised(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        before = _normalised(body[: error.start].decode("utf-8"))
        rest = body[error.start :].decode("utf-8", "replace")
        source = Source(name, _FORBIDDEN.sub("\ufffd", _normalised(before + rest)))
        offset = error.start + len(data) - len(body)
        raise ProgramError(
            Diagnostic(
                "E003",
                f"the file is not UTF-8: byte 0x{body[error.start]:02x} at offset {offset}",
                Span(source, len(before), len(before) + 1),
                "save the file as UTF-8",
            )
        ) from None


def _normalised(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _source(text: str, name: str) -> Source:
    """The text in the form that offsets count in, free of what no token may hold."""
    source = clean(text, name)
    _check_brackets(source)
    return source


def clean(text: str, name: str) -> Source:
    """A text from outside that can be shown. Raises where it holds what a terminal would obey."""
    text = _normalised(text.removeprefix("\ufeff"))
    found = [match.start() for match in _FORBIDDEN.finditer(text)][:MAX_ERRORS]
    if found:
        # The message shows the line, and a terminal must survive that.
        shown = Source(name, _FORBIDDEN.sub("\ufffd", text))
        raise ProgramError(
            *(
                Diagnostic(
                    "E005",
                    f"the character U+{ord(text[at]):04X} is not allowed in a program",
                    Span(shown, at, at + 1),
                    "remove it",
                )
                for at in found
            )
        )
    return Source(name, text)


_BRACKETS = re.compile(
    r"""%[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|'(?:[^'\\\n]|\\.|'')*'|"(?:[^"\\\n]|\\.|"")*"
    |[()\[\]]|\.(?=\s|%|\Z)""",
    re.VERBOSE,
)


def _check_brackets(source: Source) -> None:
    """Refuses deep brackets before the parser piles them up."""
    depth = 0
    for match in _BRACKETS.finditer(source.text):
        char = match[0]
        if char == "(" or char == "[":
            depth += 1
            if depth > MAX_BRACKETS:
                raise ProgramError(_too_deep(Span(source, match.start(), match.end())))
        elif char == ")" or char == "]":
            depth = max(0, depth - 1)
        elif char == ".":
            depth = 0


def _too_deep(span: Span | None) -> Diagnostic:
    return Diagnostic(
        "E004",
        f"nested too deeply: a term has at most {MAX_DEPTH} levels",
        span,
        "split it: compute it in steps, give its parts names of their own, or use a list",
    )


# --- Running the parser ------------------------------------------------------------------


@cache
def _lark() -> tuple[Lark, _Builder]:
    from lark import Lark

    grammar = resources.files("nesymm.language").joinpath("grammar.lark").read_text("utf-8")
    builder = _Builder()
    # Lark asks for a Transformer but only looks its methods up by name.
    transformer: Any = builder
    lark = Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        start=["program", "lone"],
        transformer=transformer,
    )
    return lark, builder


# The builder is called back by the one parser, so one text is read at a time.
_LOCK = Lock()


def _run(source: Source, start: Literal["program", "lone"]) -> list[Term]:
    from lark.exceptions import UnexpectedInput

    with _LOCK:
        lark, builder = _lark()
        builder.begin(source)
        position: int | None = 0
        try:
            while position is not None and len(builder.problems) < MAX_ERRORS:
                try:
                    # Blanks in place of what was read keep the offsets right.
                    lark.parse(" " * position + source.text[position:], start=start)
                    break
                except UnexpectedInput as error:
                    since = max(position, builder.reached)
                    problem, position = explain(source, since, error)
                    builder.problems.append(problem)
                    if start == "lone":
                        break
        except (RecursionError, MemoryError):
            builder.problems.append(_too_deep(None))
        statements, problems = builder.end()
    if problems:
        problems.sort(key=lambda problem: problem.span.start if problem.span else 0)
        if len(problems) >= MAX_ERRORS:
            note = f"only the first {MAX_ERRORS} mistakes are shown"
            problems[MAX_ERRORS - 1 :] = [replace(problems[MAX_ERRORS - 1], notes=(note,))]
        raise ProgramError(*problems)
    return statements


def _has_minus(value: int | float) -> bool:
    # A whole number may be too large for `copysign`; only zero needs it.
    return value < 0 or (value == 0 and copysign(1, value) < 0)


class _Builder:
    """The callbacks of the grammar: each takes the children of a rule, tokens included."""

    def begin(self, source: Source | None) -> None:
        self.source: Any = source
        self.statements: list[Term] = []
        self.problems: list[Diagnostic] = []
        self.reached = 0
        # Names as they stand, and names in quotes that do not need them.
        self.plain: set[str] = set()
        self.needless: dict[str, Span] = {}

    def end(self) -> tuple[list[Term], list[Diagnostic]]:
        for name, span in self.needless.items():
            if name in self.plain:
                # ProbLog takes the two for different names in some places, not in others.
                message = f"`{name}` is written with and without quotes"
                cure = f"write `{name}` without quotes everywhere"
                self.problems.append(Diagnostic("E008", message, span, cure))
        result = self.statements, self.problems
        self.begin(None)
        return result

    def program(self, parts: list[Any]) -> None:
        pass

    def statement(self, parts: list[Any]) -> None:
        term: Term = parts[0]
        self.reached = parts[-1].end_pos if len(parts) > 1 else 0
        level = [term]
        for _ in range(MAX_DEPTH):
            level = [child for parent in level for child in children(parent)]
            if not level:
                self.statements.append(term)
                return
        self.problems.append(_too_deep(level[0].span))

    lone = statement

    def _span(self, parts: list[Any]) -> Span:
        """From the first of some tokens and terms to the last."""
        first, last = parts[0], parts[-1]
        start = first.span.start if hasattr(first, "span") else first.start_pos
        return Span(self.source, start, last.span.end if hasattr(last, "span") else last.end_pos)

    def infix(self, parts: list[Any]) -> Term:
        left, token, right = parts
        functor = ":-" if token == "<-" else intern(str(token))
        return Struct(functor, (left, right), self._span(parts))

    at = infix

    def prefix(self, parts: list[Any]) -> Term:
        token, term = parts
        span = self._span(parts)
        if token == "-" and isinstance(term, Num) and not _has_minus(term.value):
            return Num(-term.value, span)  # `- 3` is the number
        return Struct(intern(str(token)), (term,), span)

    def directive(self, parts: list[Any]) -> Term:
        term, span = parts[1], self._span(parts)
        if isinstance(term, Struct) and term.functor in ("consult", "csv_load"):
            # The names of files and tables are quoted by custom.
            kept = {n: s for n, s in self.needless.items() if s.start < span.start}
            self.needless = kept
        return Struct(intern(str(parts[0])), (term,), span)

    def negated(self, parts: list[Any]) -> Term:
        return Struct("not", (parts[1],), self._span(parts))

    def both(self, parts: list[Any]) -> Term:
        functor = intern(str(parts[1]))
        return Struct(functor, _flat(functor, parts[::2]), self._span(parts))

    either = both

    def aggregate(self, parts: list[Any]) -> Term:
        name, _, term, token = parts
        if not isinstance(name, Struct) or name.args:
            self.problems.append(chained(self._span([token])))
        return Struct("<>", (name, term), self._span(parts))

    def parenthesised(self, parts: list[Any]) -> Term:
        return replace(parts[1], span=self._span(parts))

    def atom(self, parts: list[Any]) -> Term:
        name = intern(str(parts[0]))
        self.plain.add(name)
        return Struct(name, (), self._span(parts))

    def quoted(self, parts: list[Any]) -> Term:
        return Struct(self._quoted_name(parts[0]), (), self._span(parts))

    def string(self, parts: list[Any]) -> Term:
        return Str(self._unquoted(parts[0]), self._span(parts))

    def variable(self, parts: list[Any]) -> Term:
        return Var(intern(str(parts[0])), self._span(parts))

    def compound(self, parts: list[Any]) -> Term:
        token, args, span = parts[0], parts[2:-1:2], self._span(parts)
        if token[0] != "'":
            name = intern(str(token))
            self.plain.add(name)
            return Struct(name, tuple(args), span)
        functor = self._quoted_name(token)
        # `','(a, b)` is the conjunction `(a, b)`, and a conjunction is flat.
        flat = functor in (",", ";") and len(args) > 1
        return Struct(functor, _flat(functor, args) if flat else tuple(args), span)

    def listing(self, parts: list[Any]) -> Term:
        return ListTerm(tuple(parts[1:-1:2]), None, self._span(parts))

    def listing_with_tail(self, parts: list[Any]) -> Term:
        items, tail = tuple(parts[1:-3:2]), parts[-2]
        if isinstance(tail, ListTerm):
            items, tail = items + tail.items, tail.tail
        return ListTerm(items, tail, self._span(parts))

    def number(self, parts: list[Any]) -> Term:
        token, span = parts[0], self._span(parts)
        if token.isdigit() or token[1:].isdigit():
            short = len(token.lstrip("-")) <= MAX_DIGITS
            return Num(int(token), span) if short else self._too_long(span)
        if _BASED.match(token):
            whole = int(token, 0)
            return Num(whole, span) if whole.bit_length() <= MAX_BITS else self._too_long(span)
        value = float(token)
        if isinf(value):
            message = "this number is too large for a 64-bit real number"
            self.problems.append(Diagnostic("E005", message, span, "write a smaller number"))
        return Num(value, span)

    def _too_long(self, span: Span) -> Term:
        message = f"a whole number has at most {MAX_DIGITS} digits"
        self.problems.append(Diagnostic("E005", message, span, "write a real number"))
        return Num(0, span)

    def _quoted_name(self, token: Any) -> str:
        name = self._unquoted(token)
        if _PLAIN.fullmatch(name):
            self.needless.setdefault(name, self._span([token]))
        return name

    def _unquoted(self, token: Any) -> str:
        def decoded(match: re.Match[str]) -> str:
            char = match[0][1]
            if char not in _ESCAPES:
                at = token.start_pos + 1 + match.start()
                self.problems.append(
                    Diagnostic(
                        "E006",
                        f"unknown escape `{match[0]}`",
                        Span(self.source, at, at + 2),
                        "the escapes are \\n \\t \\r \\' \\\" and \\\\ (a backslash)",
                    )
                )
                return char
            return _ESCAPES[char]

        pattern = r"\\.|''" if token[0] == "'" else r'\\.|""'
        return intern(re.sub(pattern, decoded, token[1:-1]))


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "'": "'", '"': '"', "\\": "\\"}
_BASED = re.compile("-?0[xob]")
_PLAIN = re.compile("[a-z][A-Za-z0-9_]*")


def _flat(functor: str, parts: Sequence[Term]) -> tuple[Term, ...]:
    """`a, (b, c)` is `a, b, c`; as a term, `(a, b), c` is another one."""
    *first, last = parts
    if isinstance(last, Struct) and last.functor == functor and last.arity > 1:
        return (*first, *last.args)
    return tuple(parts)
