"""Reading: what text means as terms, and what is said about text that means nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import nesymm
from nesymm.errors import NesymmError, ProgramError
from nesymm.language.parser import MAX_DEPTH, parse, parse_term, read
from nesymm.language.terms import ListTerm, Num, Str, Struct, Term, Var, subterms


def s(functor: str, *args: Term) -> Struct:
    return Struct(functor, args)


a, b, c, t = s("a"), s("b"), s("c"), s("t")
X, Y, T = Var("X"), Var("Y"), Var("T")
ONE, TWO, THREE = Num(1), Num(2), Num(3)


def message(text: str) -> str:
    """What the user reads about a broken program."""
    with pytest.raises(ProgramError) as caught:
        parse(text, "x.nsm")
    return str(caught.value)


# --- Terms -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "term"),
    [
        # Constants.
        ("a", a),
        ("aB_1", s("aB_1")),
        ("'hello world'", s("hello world")),
        (r"'it\'s \\ \n'", s("it's \\ \n")),
        ("'it''s'", s("it's")),
        ("[]", ListTerm()),
        ("!", s("!")),
        ("_", Var("_")),
        ("_Foo", Var("_Foo")),
        ("12", Num(12)),
        ("1.5", Num(1.5)),
        ("1e-3", Num(1e-3)),
        ("1.0e5", Num(1e5)),
        ("-3", Num(-3)),
        ("-2.5e-1", Num(-0.25)),
        ("- 3", Num(-3)),
        ("- -0.0", s("-", Num(-0.0))),
        ("- " + "9" * 400, Num(-int("9" * 400))),  # too large for a real number
        ("-(3)", s("-", THREE)),
        ("-(3)**2", s("**", s("-", THREE), TWO)),
        ("-(X, 3)", s("-", X, THREE)),
        ("- X", s("-", X)),
        ("+ X", s("+", X)),
        ('"a \\"b\\" 100% /* */"', Str('a "b" 100% /* */')),
        # Compounds and lists.
        ("f(a, X)", s("f", a, X)),
        ("'f g'(a)", s("f g", a)),
        ("[a, b]", ListTerm((a, b))),
        ("[a, b | X]", ListTerm((a, b), X)),
        ("[a | [b]]", ListTerm((a, b))),
        ("[a | [b | [c | X]]]", ListTerm((a, b, c), X)),
        ("[a | []]", ListTerm((a,))),
        ("f((a, b))", s("f", s(",", a, b))),
        ("f(a :: b, not c, X ~ d)", s("f", s("::", a, b), s("not", c), s("~", X, s("d")))),
        ("is", s("is")),
        ("f(is, mod)", s("f", s("is"), s("mod"))),
        ("mod(X, 2)", s("mod", X, TWO)),
        # Clauses.
        ("a :- b", s(":-", a, b)),
        ("a <- b", s(":-", a, b)),
        (":- a", s(":-", a)),
        # Flat conjunctions and disjunctions.
        ("a, b, c", s(",", a, b, c)),
        ("a, (b, c)", s(",", a, b, c)),
        ("(a, b), c", s(",", s(",", a, b), c)),
        ("a, (b, c)", s(",", a, b, c)),
        ("','(a, ','(b, c))", s(",", a, b, c)),
        ("a; (b; c)", s(";", a, b, c)),
        ("a, b; c", s(";", s(",", a, b), c)),
        ("a, (b; c)", s(",", a, s(";", b, c))),
        ("a -> b; c", s(";", s("->", a, b), c)),
        # Negation.
        ("not a", s("not", a)),
        (r"\+ a", s("not", a)),
        ("not(a)", s("not", a)),
        (r"\+(a)", s("not", a)),
        ("not (a, b)", s("not", s(",", a, b))),
        ("not not a", s("not", s("not", a))),
        ("not X = a", s("not", s("=", X, a))),
        ("notable", s("notable")),
        ("not_a(X)", s("not_a", X)),
        # Probabilities and draws.
        ("0.3::a", s("::", Num(0.3), a)),
        ("1/6::a", s("::", s("/", ONE, Num(6)), a)),
        ("t(_)::a", s("::", s("t", Var("_")), a)),
        ("X::a(X) :- b", s(":-", s("::", X, s("a", X)), b)),
        (r"0.3::\+a", s("::", Num(0.3), s("not", a))),
        ("0.3::a; 0.7::b", s(";", s("::", Num(0.3), a), s("::", Num(0.7), b))),
        (
            "nn(m, [X], Y, [0, 1])::d(X, Y)",
            s("::", s("nn", s("m"), ListTerm((X,)), Y, ListTerm((Num(0), ONE))), s("d", X, Y)),
        ),
        ("a ~ b(1)", s("~", a, s("b", ONE))),
        ("a ~ b :- c", s(":-", s("~", a, b), c)),
        # Comparisons; those the language lacks are read too, for the checker to cure.
        ("X =< 2", s("=<", X, TWO)),
        ("X <= 2", s("<=", X, TWO)),
        ("X =.. Y", s("=..", X, Y)),
        ("X =\\= 2", s("=\\=", X, TWO)),
        ("X \\== Y", s("\\==", X, Y)),
        ("X @=< Y", s("@=<", X, Y)),
        ("X@<Y", s("@<", X, Y)),
        ("X is 1 + 2", s("is", X, s("+", ONE, TWO))),
        ("f(min<X>)", s("f", s("<>", s("min"), X))),
        # Ranges.
        ("0..12", s("..", Num(0), Num(12))),
        ("1..n", s("..", ONE, s("n"))),
        ("0:T", s(":", Num(0), T)),
        ("X = 1..2+3", s("=", X, s("..", ONE, s("+", TWO, THREE)))),
        # Arithmetic.
        ("1-2-3", s("-", s("-", ONE, TWO), THREE)),
        ("X-1", s("-", X, ONE)),
        ("X - -1", s("-", X, Num(-1))),
        ("X--1", s("-", X, Num(-1))),
        ("1+2*3", s("+", ONE, s("*", TWO, THREE))),
        ("(1+2)*3", s("*", s("+", ONE, TWO), THREE)),
        ("X mod 2 rem 3", s("rem", s("mod", X, TWO), THREE)),
        ("1 // 2 << 3", s("<<", s("//", ONE, TWO), THREE)),
        ("2**X**3", s("**", TWO, s("**", X, THREE))),
        ("-X**2", s("-", s("**", X, TWO))),
        ("(-1)**2", s("**", Num(-1), TWO)),
        ("2**-1", s("**", TWO, Num(-1))),
        ("2*-1", s("*", TWO, Num(-1))),
        ("-a*b", s("*", s("-", a), b)),
        # Time.
        ("a@t", s("@", a, t)),
        ("a@T", s("@", a, T)),
        ("a@0", s("@", a, Num(0))),
        ("a(X)@(t-1)", s("@", s("a", X), s("-", t, ONE))),
        ("a@(0:T)", s("@", a, s(":", Num(0), T))),
        ("f(a@0)", s("f", s("@", a, Num(0)))),
        ("0.9*a@t", s("*", Num(0.9), s("@", a, t))),
        ("X > a@0..2", s(">", X, s("..", s("@", a, Num(0)), TWO))),
    ],
)  # fmt: skip
def test_terms(text: str, term: Term) -> None:
    assert parse_term(text) == term
    assert parse(text + ".").statements == (term,)


def test_whole_and_real_numbers_differ() -> None:
    assert parse_term("1") != parse_term("1.0")


def test_a_full_stop_needs_a_blank_a_comment_or_the_end_behind_it() -> None:
    assert parse("a(1). b :- X = 1.% c\nc.").statements == (
        s("a", ONE),
        s(":-", b, s("=", X, ONE)),
        c,
    )


def test_comments_and_blanks_mean_nothing() -> None:
    text = "% one. two.\n/* a :- b. */ a /* x */ :-\t% y\n\n  b .\n/* end"
    assert parse(text + " */").statements == (s(":-", a, b),)


@pytest.mark.parametrize("text", ["a.\r\nb.\r\n", "a.\rb.\r", "\ufeffa.\nb."])
def test_line_endings_and_byte_order_marks(text: str) -> None:
    assert parse(text).statements == (a, b)


def test_parse_term_allows_a_full_stop() -> None:
    assert parse_term("a@0. ") == s("@", a, Num(0))


# --- Spans -------------------------------------------------------------------------------


def test_every_term_knows_its_place() -> None:
    text = "0.3::h(X, [a|T])@(t-1) :-\n    not b, 'c d'(-1), X = \"s\" + min, p(max<L>), (X; !)."
    program = parse(text, "x.nsm")
    spans = [term.span for term in subterms(program.statements[0])]
    assert all(span is not None for span in spans)
    shown = [span.text for span in spans if span is not None]
    for piece in (
        "h(X, [a|T])@(t-1)", "(t-1)", "[a|T]", "not b", "'c d'(-1)", "-1", 'X = "s" + min',
        "max<L>", "(X; !)", "!",
    ):  # fmt: skip
        assert piece in shown
    negation = next(
        term
        for term in subterms(program.statements[0])
        if isinstance(term, Struct) and term.functor == "not"
    )
    assert negation.span is not None
    assert (negation.span.line, negation.span.column) == (2, 5)
    assert program.source is not None and program.source.name == "x.nsm"


# --- Mistakes ----------------------------------------------------------------------------


def test_a_missing_full_stop_is_shown_where_it_belongs() -> None:
    assert message("a :- b\nc :- d.\n") == (
        "error[E001]: a full stop is missing between `b` and `c`\n"
        " --> x.nsm:1:7\n"
        "  |\n"
        "1 | a :- b\n"
        "  |       ^\n"
        "  = help: write `.` after `b`"
    )


def test_a_comma_in_place_of_a_full_stop() -> None:
    assert message("a :- b,\n    c,\nd :- e.\n") == (
        "error[E001]: found `,` where the statement should end: the rule for `d` starts after it\n"
        " --> x.nsm:2:6\n"
        "  |\n"
        "2 |     c,\n"
        "  |      ^\n"
        "  = help: write `.` instead of `,`"
    )


def test_an_open_bracket() -> None:
    assert message("a :- b(c, d.\ne.") == (
        "error[E001]: this `(` is never closed\n"
        " --> x.nsm:1:7\n"
        "  |\n"
        "1 | a :- b(c, d.\n"
        "  |       ^\n"
        "  = note: the statement ends at line 1, column 12\n"
        "  = help: add `)`"
    )


def test_several_mistakes_are_reported_at_once() -> None:
    text = "a :- .\nok(1).\nb(\nc :- d e.\nP(1).\nx(1e999).\nfine.\nlast"
    with pytest.raises(ProgramError) as caught:
        parse(text)
    found = [
        (d.code, d.span.line, d.span.column) for d in caught.value.diagnostics if d.span is not None
    ]
    assert found == [
        ("E001", 1, 6), ("E001", 3, 2), ("E001", 5, 1), ("E005", 6, 3), ("E001", 8, 5),
    ]  # fmt: skip


def test_reading_goes_on_after_a_missing_full_stop() -> None:
    text = message("a :- b\nc :- d\ne :- ).\n")
    assert text.count("a full stop is missing") == 2
    assert "this `)` closes nothing\n --> x.nsm:3:6" in text


def test_at_most_twenty_mistakes() -> None:
    text = message("a b.\n" * 100)
    assert text.count("error[E001]") == 20
    assert text.count("only the first 20 mistakes are shown") == 1


@pytest.mark.parametrize(
    ("text", "place", "cause", "cure"),
    [
        ("p@t(X, Y) :- q.", "1:4", "the arguments come before the time", "write `p(X, Y)@t`"),
        ("a.\nPlayer(X) :- q.", "2:1", "`Player` is a variable and takes no arguments",
         "a name starts in lower case: write `player(`"),
        ("foo (x).", "1:5", "found `(` behind `foo` and a space", "write `foo(` without a space"),
        ("a :- b c.", "1:8", "found `c` after `b`, expected an operator, `,` or a full stop",
         "write `,` or an operator between `b` and `c`"),
        ("a :- f(b c).", "1:10", "found `c` after `b`, expected an operator, `,` or `)`",
         "write `,` or an operator between `b` and `c`"),
        ("a :- b,.", "1:8", "found a full stop after `,`, expected a term",
         "remove `,`, or add what should follow it"),
        ("a :- X = .", "1:10", "found a full stop after `=`, expected a term",
         "add the right-hand side of `=`"),
        ("f(a,).", "1:5", "found `)` after `,`, expected a term", "remove `,`"),
        ("f().", "1:3", "`f()` has no arguments", "write `f` without brackets"),
        ("f(not).", "1:6", "found `)` after `not`", "the atom is written `'not'`"),
        ("a).", "1:2", "this `)` closes nothing", "remove it"),
        ("a(b].", "1:4", "found `]`, but `(` is open", "write `)`"),
        ("a :- [b, c", "1:6", "this `[` is never closed", "add `]`"),
        ("a", "1:2", "the last statement does not end in a full stop", "write `.` after `a`"),
        ("a. . b.", "1:4", "a full stop with no statement before it", "remove it"),
        ("a.b.", "1:2", "a full stop ends a statement only before a space", "write a space"),
        ("a :- 'b.\nc.", "1:6", "this quoted atom is never closed",
         "close it with `'` on the same line"),
        ('a :- "b.', "1:6", "this string is never closed", 'close it with `"`'),
        ("a. /* b.", "1:4", "this comment is never closed", "close it with `*/`"),
        ("a :- b /* c.", "1:8", "this comment is never closed", "close it with `*/`"),
        ("a :- X<-1.", "1:7", "found `<-`, which makes a rule", "write `X < -1` with a space"),
        ("a :- X<-Y.", "1:7", "found `<-`, which makes a rule", "write `X < -Y` with a space"),
        ("a :- b :- c.", "1:8", "a second `:-` in one statement", "end the first clause"),
        ("a :- (b :- c).", "1:9", "a rule cannot stand inside brackets", "statement of its own"),
        ("a :- 0 < X < 3.", "1:12", "comparisons do not chain", "`A < B, B < C`"),
        ("a :- 0 < X > 3.", "1:12", "comparisons do not chain", "`A < B, B < C`"),
        ("f(X+1<Y>).", "1:8", "comparisons do not chain", "`A < B, B < C`"),
        ("a::b::c.", "1:5", "found a second `::`", "separate heads by `;`"),
        ("a :- X is -3**2.", "1:13", "a power of a negative number can be read in two ways",
         "write `(-3)**2` or `-(3**2)`"),
        ("a :- X != 2.", "1:8", "`!=` is no operator here", "write `\\=`"),
        ("a :- X => 2.", "1:8", "`=>` is no operator here", "write `>=` to compare"),
        ("a :- X := 2.", "1:8", "`:=` is no operator here", "write `is` to compute"),
        ("a :- b && c.", "1:8", "`&&` is no operator here", "`,` means and"),
        ("a :- b | c.", "1:8", "`|` is no operator here", "`;` means or"),
        ("?- a.", "1:1", "`?-` is no operator here", "ask with `query(...)`"),
        ("# note\na.", "1:1", "`#` is no operator here", "a comment starts with `%`"),
        ("// note\na.", "1:1", "found `//`", "a comment starts with `%`"),
        ("2x.", "1:2", "`2x` is neither a number nor a name", "start the name with a letter"),
        ("café.", "1:1", "`café` has letters other than a-z", "quote it: `'café'`"),
        ("a@-1.", "1:3", "found `-` after `@`", "`@(t-1)`"),
        ("a@1.5.", "1:3", "found `1.5` after `@`", "`@3`"),
        ("a\u200b.", "1:2", "found the character U+200B after `a`", None),
    ],
)  # fmt: skip
def test_common_mistakes(text: str, place: str, cause: str, cure: str | None) -> None:
    shown = message(text)
    assert shown.startswith(f"error[E001]: {cause}")
    assert f"--> x.nsm:{place}\n" in shown
    if cure is not None:
        assert cure in shown.split("= help: ")[1]
    line, column = map(int, place.split(":"))
    caret = shown.splitlines()[4]
    assert caret.index("^") - len(f"{line} | ") == column - 1


@pytest.mark.parametrize("text", ["", "  \n\t", "% nothing\n", "/* a. */", "\ufeff"])
def test_an_empty_program(text: str) -> None:
    shown = message(text)
    assert shown.startswith("error[E002]: the program is empty: it has no statement\n")
    assert "= help: write at least one statement and end it with a full stop" in shown


@pytest.mark.parametrize("path", ["weather.nsl", "examples/paper/weather.nsl", "./weather.pl"])
def test_a_path_is_no_program(path: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(path)
    message, *_, cure = str(caught.value).splitlines()
    assert message == f"error[E001]: expected the text of a program, found the path `{path}`"
    assert cure == f'  = help: `nesymm.compile(Path("{path}"))` reads the file'


def test_an_empty_term() -> None:
    with pytest.raises(ProgramError, match=r"E002\]: the text is empty: expected a term"):
        parse_term(" % nothing", "--const k")


@pytest.mark.parametrize("text", ["a. b.", "a b", "(", ")", "a :- b :- c", "f(1"])
def test_more_or_less_than_a_term(text: str) -> None:
    with pytest.raises(ProgramError, match="E001"):
        parse_term(text)


@pytest.mark.parametrize(
    "text",
    [
        "a :- " + "(" * 10_000 + "b" + ")" * 10_000 + ".",
        "a :- " + "(" * 10_000,
        "[" * 10_000 + "]" * 10_000 + ".",
        "f(" * 10_000 + "a" + ")" * 10_000 + ".",
        "f(" + "-" * 10_000 + "a).",
        "f(" + "- " * 10_000 + "1).",
        "a :- " + "not " * 10_000 + "b.",
        "f(" + "1+" * 10_000 + "1).",
        "f(" + "2**" * 10_000 + "1).",
        "a" + "@1" * 10_000 + ".",
        "f(" * 200 + "a" + ")" * 200 + ".",
    ],
    ids=lambda text: text[:20],
)
def test_deep_nesting(text: str) -> None:
    shown = message(text)
    assert shown.startswith(f"error[E004]: nested too deeply: a term has at most {MAX_DEPTH} lev")
    assert "= help: split it: compute it in steps" in shown
    assert max(map(len, shown.splitlines())) < 120


def test_the_deepest_term() -> None:
    assert parse("f(" * (MAX_DEPTH - 1) + "a" + ")" * (MAX_DEPTH - 1) + ".").statements


def test_many_unclosed_statements_are_not_deep() -> None:
    assert "E004" not in message("f(a.\n" * 1000)


def test_long_is_not_deep() -> None:
    goals = parse("a :- " + ",".join("b" * 2000) + ".").statements[0]
    assert isinstance(goals, Struct) and isinstance(goals.args[1], Struct)
    assert goals.args[1].arity == 2000


def test_a_long_line_is_shown_as_a_window() -> None:
    text = "f(" + ", ".join(f"node{i}" for i in range(3000)) + " b" + ", a" * 3000 + ")."
    lines = message(text).splitlines()
    column = text.index(" b,") + 2
    assert lines[1] == f" --> x.nsm:1:{column}"
    assert len(lines[3]) < 110
    assert lines[3].startswith("1 | …") and lines[3].endswith("…")
    assert lines[3][lines[4].index("^")] == "b"


@pytest.mark.parametrize(
    ("text", "place", "cause"),
    [
        ("a.\nb\0.", "2:2", "the character U+0000 is not allowed in a program"),
        ("a('\x1b').", "1:4", "the character U+001B is not allowed in a program"),
        ("a\ud800.", "1:2", "the character U+D800 is not allowed in a program"),
        (f"a({'9' * 4301}).", "1:3", "a whole number has at most 4300 digits"),
        ("a(1e999).", "1:3", "this number is too large for a 64-bit real number"),
        ("a(-1e999).", "1:3", "this number is too large for a 64-bit real number"),
    ],
)
def test_what_cannot_be_kept(text: str, place: str, cause: str) -> None:
    shown = message(text)
    assert shown.startswith(f"error[E005]: {cause}\n")
    assert f"--> x.nsm:{place}\n" in shown
    assert "= help: " in shown
    shown.encode("utf-8")


def test_an_unknown_escape() -> None:
    assert message("a('x\\q').") == (
        "error[E006]: unknown escape `\\q`\n"
        " --> x.nsm:1:5\n"
        "  |\n"
        "1 | a('x\\q').\n"
        "  |     ^^\n"
        "  = help: the escapes are \\n \\t \\r \\' \\\" and \\\\ (a backslash)"
    )


# --- Files -------------------------------------------------------------------------------


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.nsm"
    path.write_bytes(b"\xef\xbb\xbfa('\xc3\xa9').\r\nb.\r\n")
    program = read(path)
    assert program.statements == (s("a", s("é")), b)
    assert program.source is not None and program.source.name == str(path)


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "x.nsm"
    path.write_bytes(b"\xef\xbb\xbfa.\r\nb('\xe9').\n")
    with pytest.raises(ProgramError) as caught:
        read(path)
    assert str(caught.value) == (
        "error[E003]: the file is not UTF-8: byte 0xe9 at offset 10\n"
        f" --> {path}:2:4\n"
        "  |\n"
        "2 | b('\ufffd').\n"
        "  |    ^\n"
        "  = help: save the file as UTF-8"
    )


@pytest.mark.parametrize(("name", "reason"), [("no.nsm", "No such file"), (".", "directory")])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(NesymmError) as caught:
        read(tmp_path / name)
    shown = str(caught.value)
    assert shown.startswith(f"error[E007]: cannot read `{tmp_path / name}`: ")
    assert reason in shown


def test_a_path_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(NesymmError, match=r"cannot read .*: embedded null"):
        read(f"{tmp_path}/a\0b")


# --- Habits ------------------------------------------------------------------------------


def test_importing_does_not_load_the_parser_generator() -> None:
    code = "import sys, nesymm.language.parser; sys.exit('lark' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(nesymm.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert done.returncode == 0


def test_texts_are_read_from_many_threads() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            program = parse(f"p({number}). q({number}).", f"{number}.nsm")
            spans = [term.span for term in subterms(program.statements[1])]
            names = {span.source.name for span in spans if span is not None}
            if names != {f"{number}.nsm"} or program.statements[0] != s("p", Num(number)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"edge(n{i}, n{i + 1})." for i in range(10_000)),
        "f(" + ", ".join(f"node{i}" for i in range(90_000)) + ").",
        "f(" + ", ".join(f"node{i}" for i in range(90_000)) + " x).",
        "a :- " + ",".join("b" * 500_000) + ".",
        "'" * 1_000_001,
        "/*" * 500_000,
        "'a''\\\\" * 150_000,
        "(" * 1_000_000,
        ")" * 1_000_000,
        "a b.\n" * 200_000,
    ],
    ids=lambda value: str(value)[:12],
)
def test_large_texts_are_read_or_refused_in_short_lines(text: str) -> None:
    try:
        assert parse(text).statements
    except ProgramError as error:
        assert max(map(len, str(error).splitlines())) < 120


@pytest.mark.parametrize(
    ("text", "value"),
    [("0x1F", 31), ("0xff", 255), ("-0x10", -16), ("0o17", 15), ("0b101", 5), ("-0b1", -1)],
)
def test_numbers_to_other_bases(text: str, value: int) -> None:
    assert parse_term(text) == Num(value)
    assert parse_term(f"1 - {text.lstrip('-')}") == Struct("-", (Num(1), Num(abs(value))))


@pytest.mark.parametrize("text", ["0x", "0xg1", "0b2", "0o8", "0x" + 5000 * "f"])
def test_what_is_no_such_number(text: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse_term(text)
    assert caught.value.codes[0] in ("E001", "E005")
