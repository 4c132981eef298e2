"""Programs in several files: `:- consult(…)` and `:- csv_load(…)`.

Only files in the folder of the program are read, or in folders inside it: neither `..` nor a
symbolic link leads out of it. A program that is a text has no folder and reads nothing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from math import isfinite
from pathlib import Path

from nesymm.errors import Diagnostic, NesymmError, ProgramError, Source, Span, fail
from nesymm.language.parser import MAX_DIGITS, clean, parse, read, read_text
from nesymm.language.printer import pprint
from nesymm.language.terms import Num, Program, Str, Struct, Term, children, quoted, subterms

_ENDINGS = ("", ".pl", ".nsl")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def load(path: str | Path) -> Program:
    """Read a program from a file, with what its directives load from its folder.

    Raises:
        ProgramError: With the mistakes of all files.
    """
    path = Path(path)
    loader = _Loader(path)
    program = loader.whole(read(path), path.parent)
    loader.refuse_mixed_names(program)
    if loader.mistakes:
        raise ProgramError(*loader.mistakes)
    return program


def parse_source(source: str | Path, name: str = "<program>") -> Program:
    """Read a program text, or the file at a path."""
    if isinstance(source, Path):
        return load(source)
    if isinstance(source, str):
        return parse(source, name)
    raise NesymmError(
        f"source: expected a text or a pathlib.Path, received {type(source).__name__}"
    )


class _Loader:
    def __init__(self, path: Path) -> None:
        self.folder = path.parent.resolve()
        self.seen = {path.resolve()}
        self.mistakes: list[Diagnostic] = []
        # The tables, and the names that they hold.
        self.tables: set[Source] = set()
        self.cells: set[str] = set()

    def whole(self, program: Program, folder: Path) -> Program:
        """A program with the statements of the files that it names in the place of the names."""
        statements: list[Term] = []
        loaded: list[tuple[Span, str]] = []
        for statement in program.statements:
            try:
                found = self._loaded(statement, folder)
            except ProgramError as error:
                self.mistakes += error.diagnostics
                continue
            if found is None:
                statements.append(statement)
                continue
            statements += found.statements
            if statement.span is not None:
                loaded.append((statement.span, found.text or _text(found)))
        return replace(program, statements=tuple(statements), loaded=tuple(loaded))

    def _loaded(self, statement: Term, folder: Path) -> Program | None:
        """What a directive loads; None for any other statement."""
        match statement:
            case Struct(":-", (Struct("consult", (Struct(name, ()) | Str(name),)),)):
                return self._consulted(name, folder, statement.span)
            case Struct(
                ":-",
                (Struct("csv_load", (Struct(name, ()) | Str(name), Struct(pred, ()) | Str(pred))),),
            ):
                path = self._found(name, folder, ("",), statement.span)
                facts = tuple(_facts(path, pred, statement.span))
                self.cells |= {name for fact in facts for name in _names(fact)}
                self.tables |= {fact.span.source for fact in facts if fact.span is not None}
                return Program(facts)
            case Struct(":-", (Struct("consult" | "csv_load" as kind),)):
                cure = "write `:- consult('rules.pl').` or `:- csv_load('edges.csv', edge).`"
                fail("E106", f"this {kind} directive is malformed", statement.span, cure)
        return None

    def refuse_mixed_names(self, program: Program) -> None:
        """A name with and without quotes in several files; those of a table are in quotes."""
        quoted_names, plain = set(self.cells), dict[str, Span]()
        for term in (t for s in program.statements if program.loaded for t in subterms(s)):
            if not isinstance(term, Struct) or term.span is None or term.span.source in self.tables:
                continue
            if term.span.text.startswith("'"):
                quoted_names.add(term.functor)
            elif term.span.text.startswith(term.functor):
                plain.setdefault(term.functor, term.span)
        self.mistakes += [
            Diagnostic(
                "E008",
                f"`{name}` is written with and without quotes",
                span,
                f"write `'{name}'`, as it is in a table or in quotes elsewhere"
                if name in self.cells
                else f"write `{name}` without quotes everywhere",
            )
            for name, span in plain.items()
            if name in quoted_names
        ]

    def _consulted(self, name: str, folder: Path, span: Span | None) -> Program:
        path = self._found(name, folder, _ENDINGS, span)
        if path in self.seen:
            return Program(())  # as in ProbLog, a file is read once
        self.seen.add(path)
        return self.whole(read(path), path.parent)

    def _found(self, name: str, folder: Path, endings: tuple[str, ...], span: Span | None) -> Path:
        """The file of a name, inside the folder of the program."""
        written = Path(name)
        cure = "name a file in the folder of the program, or in a folder inside it"
        if written.is_absolute() or written.drive or ".." in written.parts:
            fail("E007", f"`{name}` leads out of the folder of the program", span, cure)
        for ending in endings:
            try:
                path = folder.joinpath(name + ending).resolve()
                there = path.is_file()
            except (OSError, RuntimeError, ValueError):
                continue
            if not path.is_relative_to(self.folder):
                fail("E007", f"`{name}` leads out of the folder of the program", span, cure)
            if there:
                return path
        fail("E007", f"there is no file `{name}` in the folder of the program", span, cure)


# ---------------------------------------------------------------- tables


def _names(fact: Term) -> Iterator[str]:
    return (t.functor for t in children(fact) if isinstance(t, Struct))


def _text(facts: Program) -> str:
    """The facts of a table as a program, all names in quotes."""
    lines = []
    for fact in facts.statements:
        assert isinstance(fact, Struct)
        cells = (quoted(c.functor, "'") if isinstance(c, Struct) else pprint(c) for c in fact.args)
        lines.append(f"{pprint(Struct(fact.functor))}({', '.join(cells)}).\n")
    return "".join(lines)


def _facts(path: Path, pred: str, span: Span | None) -> Iterator[Term]:
    """A fact for each row of a table, below the names of the columns."""
    source = clean(read_text(path), str(path))
    rows = _rows(source)
    header = next(rows, None)
    first = next(rows, None)
    if header is None or first is None:
        fail(
            "E007",
            f"the table `{path.name}` has no rows",
            span,
            "write the names of the columns in the first line, and a row in each of the others",
        )
    readers = [_kind(cell) for cell in first[1]]
    yield _fact(pred, first, header[1], readers)
    for row in rows:
        yield _fact(pred, row, header[1], readers)


def _rows(source: Source) -> Iterator[tuple[Span, list[str]]]:
    """The rows that are not empty, each with its place."""
    reader = csv.reader(StringIO(source.text))
    line = 0
    while True:
        start, line = line, reader.line_num
        try:
            cells = next(reader, None)
        except csv.Error as error:
            place = source.line_starts[min(line, len(source.line_starts) - 1)]
            end = place + max(1, len(source.line(line + 1)))
            fail("E007", f"this row cannot be read: {error}", Span(source, place, end))
        if cells is None:
            return
        start, line = line, reader.line_num
        place = source.line_starts[start]
        if cells:
            end = place + max(1, len(source.line(start + 1)))
            yield Span(source, place, end), [cell.strip() for cell in cells]


def _kind(cell: str) -> str:
    """What a column holds, by its first cell."""
    if _WHOLE.fullmatch(cell):
        return "whole numbers"
    return "numbers" if _REAL.fullmatch(cell) else "texts"


def _fact(pred: str, row: tuple[Span, list[str]], header: list[str], kinds: list[str]) -> Term:
    span, cells = row
    if len(cells) != len(header) or len(cells) != len(kinds):
        fail(
            "E007",
            f"this row has {len(cells)} cells, and there are {len(header)} columns",
            span,
            "write one cell for each column",
        )
    args = tuple(
        _cell(cell, kind, name, span) for cell, kind, name in zip(cells, kinds, header, strict=True)
    )
    return Struct(pred, args, span)


def _cell(cell: str, kind: str, column: str, span: Span) -> Term:
    if kind == "texts":
        return Struct(cell, (), span)
    if kind == "whole numbers" and _WHOLE.fullmatch(cell) and len(cell) <= MAX_DIGITS:
        return Num(int(cell), span)
    if kind == "numbers" and _REAL.fullmatch(cell) and isfinite(float(cell)):
        return Num(float(cell), span)
    fail(
        "E007",
        f"the column {column} begins with {kind}, and this row has `{cell}` there",
        span,
        "let all cells of a column be of one kind; the first one says which",
    )
