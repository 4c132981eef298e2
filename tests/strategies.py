"""Hypothesis strategies for what the language is made of: terms and programs.

Terms are built in the normal form that the parser gives: conjunctions and disjunctions
are flat, the tail of a list is not a list, negative numbers are numbers.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from nesymm.language.terms import ListTerm, Num, Program, Str, Struct, Term, Var

INFIX = (
    "->", "::", "~", "=", "\\=", "==", "\\==", "is", "=:=", "=\\=", "<", ">", "=<", ">=", "<=",
    "=..", "@<", "@>", "@=<", "@>=", ":", "..", "+", "-", "*", "/", "//", "mod", "rem", "xor",
    ">>", "<<", "**", "^", "@", ":-", "<>",
)  # fmt: skip
PREFIX = ("-", "+", "not", ":-")

# Text that a program can hold: no control characters but those with an escape.
characters = st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\t\r'\"\\")
plain_names = st.from_regex(r"[a-z][a-zA-Z0-9_]{0,6}", fullmatch=True)
names = st.one_of(
    plain_names,
    st.sampled_from(("a", "b", "p", "t", "normal", "not", "is", "mod", "[]", "!", "", "{}")),
    st.sampled_from(INFIX),
    st.text(characters, max_size=5),
)
variables = st.from_regex(r"[A-Z_][a-zA-Z0-9_]{0,4}", fullmatch=True).map(Var)
numbers = st.one_of(
    st.integers(-20, 20).map(Num),
    st.integers().map(Num),
    st.floats(allow_nan=False, allow_infinity=False).map(Num),
)


def joined(functor: str, args: list[Term]) -> Term:
    """A conjunction or disjunction, flattened."""
    flat: list[Term] = []
    for arg in args:
        if isinstance(arg, Struct) and arg.functor == functor and arg.arity > 1:
            flat.extend(arg.args)
        else:
            flat.append(arg)
    return Struct(functor, tuple(flat))


def structure(functor: str, args: list[Term]) -> Term:
    if functor in (",", ";") and len(args) > 1:
        return joined(functor, args)
    return Struct(functor, tuple(args))


def listing(items: list[Term], tail: Term | None) -> Term:
    if isinstance(tail, ListTerm):
        return ListTerm((*items, *tail.items), tail.tail)
    return ListTerm(tuple(items), tail if items else None)


def leaves() -> SearchStrategy[Term]:
    return st.one_of(
        names.map(Struct),
        variables,
        numbers,
        st.text(characters, max_size=8).map(Str),
        st.just(ListTerm()),
    )


def _compound(inner: SearchStrategy[Term]) -> SearchStrategy[Term]:
    several = st.lists(inner, min_size=1, max_size=3)
    two = st.lists(inner, min_size=2, max_size=2)
    return st.one_of(
        st.builds(structure, names, several),
        st.builds(structure, st.sampled_from(INFIX), two),
        st.builds(structure, st.sampled_from(PREFIX), st.lists(inner, min_size=1, max_size=1)),
        st.builds(joined, st.sampled_from((",", ";")), st.lists(inner, min_size=2, max_size=4)),
        st.builds(listing, several, st.none() | inner),
        st.builds(lambda term, time: Struct("@", (term, time)), inner, inner),
        st.builds(lambda name, term: Struct("<>", (Struct(name), term)), plain_names, inner),
    )


def terms(max_leaves: int = 12) -> SearchStrategy[Term]:
    """Any term that text can say."""
    return st.recursive(leaves(), _compound, max_leaves=max_leaves)


def programs(max_size: int = 4) -> SearchStrategy[Program]:
    """Any sequence of statements, sensible or not."""
    term = terms()
    rule = st.builds(lambda head, body: Struct(":-", (head, body)), term, term)
    directive = term.map(lambda body: Struct(":-", (body,)))
    statements = st.lists(st.one_of(term, rule, directive), min_size=1, max_size=max_size)
    return statements.map(lambda items: Program(tuple(items)))
