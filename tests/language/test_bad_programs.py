"""What a user reads about a program that is refused: place, caret, cause and cure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from nesymm.errors import ProgramError
from nesymm.ground import compile_step
from nesymm.language.parser import read


@dataclass(frozen=True)
class Bad:
    """A program with one mistake. `caret` is the text that is underlined."""

    name: str
    program: str
    code: str
    line: int
    column: int
    caret: str
    cause: str
    cure: str
    note: str = ""


def refused(program: str, **constants: object) -> ProgramError:
    with pytest.raises(ProgramError) as caught:
        compile_step(program, "bad.nsl", constants)
    return caught.value


def check(message: str, bad: Bad) -> None:
    """The message as it is printed, line by line."""
    lines = message.splitlines()
    gutter = " " * len(str(bad.line))
    assert lines[0].startswith(f"error[{bad.code}]: ")
    assert bad.cause in lines[0]
    assert lines[1] == f"{gutter}--> bad.nsl:{bad.line}:{bad.column}"
    source = bad.program.splitlines()[bad.line - 1]
    assert lines[3] == f"{bad.line} | {source}"
    start = source.index(bad.caret, bad.column - 1)
    assert start == bad.column - 1
    assert lines[4] == f"{gutter} | {' ' * start}{'^' * len(bad.caret)}"
    rest = "\n".join(lines[5:])
    assert "  = help: " in rest
    assert bad.cure in rest
    assert bad.note in rest


SYNTAX = [
    Bad("two goals without a comma", "a :- b,\n  c d.\n", "E001", 2, 5, "d",
        "found `d` after `c`", "write `,` or an operator between `c` and `d`"),
    Bad("missing full stop", "a :- b\nc.\n", "E001", 1, 7, "",
        "a full stop is missing between `b` and `c`", "write `.` after `b`"),
    Bad("unclosed bracket", "a(X :- b(X).\n", "E001", 1, 2, "(",
        "this `(` is never closed", "add `)`"),
    Bad("comparison of other languages", "a :- 1 <= 2.\nquery(a).\n", "E001", 1, 6, "1 <= 2",
        "`<=` is not a comparison", "write `=<`"),
]  # fmt: skip

NAMES = [
    Bad("unknown predicate", "wet :- rian.\n0.3::rain.\nquery(wet).\n", "E101", 1, 8, "rian",
        "nothing defines the predicate rian/0", "did you mean rain?"),
    Bad("unknown predicate like nothing else", "a :- xyzzy(1).\nquery(a).\n", "E101", 1, 6,
        "xyzzy(1)", "nothing defines the predicate xyzzy/1", "add a fact or a rule for it"),
    Bad("unknown predicate in a query", "rain.\nquery(rian).\n", "E101", 2, 7, "rian",
        "nothing defines the predicate rian/0", "did you mean rain?"),
    Bad("unknown predicate with a time", "a@t :- 0.1 < temperatur@t.\ntemperature@t ~ normal(0, 1)."
        "\nquery(a@t).\n", "E101", 1, 14, "temperatur",
        "nothing defines the predicate temperatur/0", "did you mean temperature?"),
    Bad("unknown predicate in a directive", ":- domain(hpp/1, 1, 0..3).\nhp(3).\nquery(hp(X)).\n",
        "E101", 1, 11, "hpp/1", "nothing defines the predicate hpp/1", "did you mean hp?"),
    Bad("a network called as a predicate", ":- network(net, 1).\na :- net(3).\nquery(a).\n", "E101",
        2, 6, "net(3)", "net is a network, not a predicate", "compute with it: `Y is net(X)`"),
    Bad("a tensor called as a predicate", ":- input(image).\na :- image.\nquery(a).\n", "E101", 2,
        6, "image", "image is a tensor from outside", "pass it to a network"),
    Bad("wrong arity", "edge(a, b).\nstart(X) :- edge(X).\nquery(start(X)).\n", "E102", 2, 13,
        "edge(X)", "edge takes 2 arguments, this has 1", "write edge/2 with all its arguments"),
    Bad("an argument of what has none", "t ~ uniform_int(0, 2).\nquery(t(0)).\n", "E102", 2, 7,
        "t(0)", "t takes 0 arguments, this has 1", "is an argument of its head: `t(V) ~ …`"),
    Bad("wrong arity of a builtin", "a :- member(1).\nquery(a).\n", "E102", 1, 6, "member(1)",
        "member takes 2 arguments, this has 1", "write member/2 with all its arguments"),
    Bad("wrong arity of findall", "a :- findall(X, b).\nb.\nquery(a).\n", "E102", 1, 6,
        "findall(X, b)", "findall takes 3 arguments, this has 2", "write findall/3"),
    Bad("wrong arity of a function", "a(X) :- X is max(3).\nquery(a(X)).\n", "E102", 1, 14,
        "max(3)", "max takes 2 arguments, this has 1", "write max/2"),
    Bad("query of two things", "a. b.\nquery(a, b).\n", "E102", 2, 1, "query(a, b)",
        "query takes 1 argument, this has 2", "for example `query(rain@t).`"),
    Bad("redefining a builtin", "length(X, box(X)).\nquery(length(1, B)).\n", "E104", 1, 1,
        "length(X, box(X))", "length/2 is built in and cannot be defined", "choose another name"),
    Bad("redefining an operator", "X is Y :- a(X, Y).\na(1, 2).\nquery(a(X, Y)).\n", "E104", 1, 1,
        "X is Y", "is/2 is built in", "choose another name"),
    Bad("defining an input", ":- input(start(X), 1..3).\nstart(2).\na :- start(2).\nquery(a).\n",
        "E104", 2, 1, "start(2)", "start/1 is an input", "choose another name"),
    Bad("a number as a goal", "a :- 3.\nquery(a).\n", "E103", 1, 6, "3",
        "a number, text or list cannot be true or false", "predicates and comparisons"),
    Bad("a variable as a head", "X :- a.\na.\nquery(a).\n", "E103", 1, 1, "X",
        "a head must be a predicate", "begin it with a lower-case name"),
    Bad("nothing but a negated head", "0.2::\\+a.\nb :- a.\nquery(b).\n", "E103", 1, 6, "\\+a",
        "nothing states when a/0 holds, only when it does not", "add a clause with the head `a`"),
    Bad("a negated number", "\\+3 :- b.\nb.\nquery(b).\n", "E103", 1, 1, "\\+3",
        "what is negated here cannot be a head", "negate a predicate"),
    Bad("a computed scope", "a:b(1).\nc(S) :- S:b(1).\nquery(c(a)).\n", "E105", 2, 9, "S:b(1)",
        "a scope is a name that is known before the program runs", "make it an argument"),
    Bad("Python in a program", ":- use_module('f.py').\na.\nquery(a).\n", "E105", 1, 4,
        "use_module('f.py')", "a program never runs Python that it names",
        "or give it as a network"),
    Bad("a module in a file", ":- use_module('f.pl').\na.\nquery(a).\n", "E106", 1, 4,
        "use_module('f.pl')", "a module of clauses is read as a part of the program",
        "write `:- consult('f.pl').`"),
    Bad("the library of cut", ":- use_module(library(cut)).\na.\nquery(a).\n", "E105", 1, 4,
        "use_module(library(cut))", "the library cut is not supported",
        "say in each clause that those before it do not apply"),
    Bad("looking at clauses", "a :- b.\nb.\nc(X) :- clause(a, X).\nquery(c(_)).\n", "E105", 3, 9,
        "clause(a, X)", "a program does not look at its own clauses", "state as facts"),
    Bad("a database", ":- sqlite_load('d.sqlite').\na.\nquery(a).\n", "E105", 1, 4,
        "sqlite_load('d.sqlite')", "databases are not read", "read it by `:- csv_load("),
    Bad("a file for a text", ":- consult('f.pl').\na.\nquery(a).\n", "E007", 1, 4,
        "consult('f.pl')", "this program is in no file", "write the program to a file"),
    Bad("a negated query at a time", "a@t.\nquery(not a@t).\n", "E103", 2, 7, "not a@t",
        "a query with a time or for a value asks for a predicate", "one minus its probability"),
    Bad("a disjunction without probabilities", "a; b.\nquery(a).\n", "E103", 1, 1, "a",
        "every alternative of a disjunction in a head needs a probability", "`0.3::a; 0.7::b.`"),
    Bad("the time behind query", "0.1::a@t.\nquery(a)@t.\n", "E103", 2, 1, "query(a)@t",
        "the time stands inside the brackets of query", "for example `query(rain@t).`"),
]  # fmt: skip

REFUSED = [
    Bad("cut", "a :- b, !.\nb.\nquery(a).\n", "E105", 1, 9, "!",
        "`!` is not supported: cut depends on the order", "write the condition out"),
    Bad("if-then-else", "a :- (b -> c ; d).\nb. c. d.\nquery(a).\n", "E105", 1, 7, "b -> c",
        "`->` is not supported: if-then-else commits to one answer", "write two clauses"),
    Bad("assert", "a :- assertz(b).\nb.\nquery(a).\n", "E105", 1, 6, "assertz(b)",
        "`assertz` is not supported: a program does not change", "state it as a fact or a rule"),
    Bad("setof", "a(L) :- setof(X, b(X), L).\nb(1).\nquery(a(L)).\n", "E105", 1, 9,
        "setof(X, b(X), L)", "`setof` is not supported", "write `findall(X, goal(X), L)`"),
    Bad("printing", "a :- writeln(hello).\nquery(a).\n", "E105", 1, 6, "writeln(hello)",
        "programs do not print", "query what you want to see"),
    Bad("unknown aggregate", "a(median<X>) :- b(X).\nb(1).\nquery(a(X)).\n", "E105", 1, 3,
        "median<X>", "this aggregate is not known", "avg, bag, count, max, min, set, sum"),
    Bad("aggregate in a body", "a :- b(min<X>), X > 0.\nb(1).\nquery(a).\n", "E105", 1, 8,
        "min<X>", "an aggregate stands only in the head of a rule", "aggregate_all(min(X)"),
    Bad("unknown directive", ":- inputs(image).\na.\nquery(a).\n", "E106", 1, 4, "inputs(image)",
        "there is no directive called inputs", "did you mean `:- input("),
    Bad("a goal as a directive", ":- initialization(main).\na.\nquery(a).\n", "E106", 1, 4,
        "initialization(main)", "there is no directive called initialization",
        "the directives are const, input, network, domain, fluent, time"),
    Bad("malformed directive", ":- domain(hp, 1, 0..12).\nhp(3).\nquery(hp(X)).\n", "E106", 1, 4,
        "domain(hp, 1, 0..12)", "this domain directive is malformed",
        "write `:- domain(hp/1, 1, 0..12).`"),
    Bad("malformed constant", ":- const(N, 3).\na.\nquery(a).\n", "E106", 1, 4, "const(N, 3)",
        "this const directive is malformed", "write `:- const(n, 10).`"),
    Bad("constant declared twice", ":- const(n, 3).\n:- const(n, 4).\na(n).\nquery(a(X)).\n",
        "E106", 2, 4, "const(n, 4)", "the constant n is declared twice", "keep one of the two"),
    Bad("a constant called t", ":- const(t, 3).\na(1).\nquery(a(X)).\n", "E106", 1, 4,
        "const(t, 3)", "a constant cannot be called t", "write `:- const(n, 10).`"),
    Bad("no such argument", ":- domain(hp/1, 2, 0..12).\nhp(3).\nquery(hp(X)).\n", "E106", 1, 4,
        "domain(hp/1, 2, 0..12)", "hp/1 has no argument 2; they count from 1", "hp/1, 1, 0..12"),
    Bad("empty domain", ":- domain(hp/1, 1, 9..3).\nhp(3).\nquery(hp(X)).\n", "E106", 1, 20,
        "9..3", "this domain is empty", "write `0..12`"),
    Bad("not a domain", ":- domain(hp/1, 1, big).\nhp(3).\nquery(hp(X)).\n", "E106", 1, 20, "big",
        "this is not a domain", "write `0..12`, `[up, down]`, int or real"),
    Bad("a bound that is no number", ":- input(x(X), 1..n).\na :- x(1).\nquery(a).\n", "E106", 1,
        19, "n", "the bound n is not a number", "declare the constant: `:- const(n, 10).`"),
    Bad("a tensor with a domain", ":- input(x@t, 1..3).\na@t :- x@t.\nquery(a@t).\n", "E106", 1,
        15, "1..3", "a tensor and has no domain", "write `:- input(x(X)@t, 0..10).`"),
    Bad("fluent of something else", ":- fluent(seen(yes)).\nseen(1).\nquery(seen(X)).\n", "E106",
        1, 4, "fluent(seen(yes))", "each argument of a fluent is `key` or `value`",
        "write `:- fluent(visited(key, key)).`"),
    Bad("a constant without value", ":- const(n).\na(X) :- between(1, n, X).\nquery(a(X)).\n",
        "E107", 1, 4, "const(n)", "the constant n has no value", "`:- const(n, 10).`"),
]  # fmt: skip

PROBABILITIES = [
    Bad("probability above 1", "30::rain.\nquery(rain).\n", "E111", 1, 1, "30",
        "a probability lies between 0 and 1, this one is 30", "30 % is `0.3`"),
    Bad("probability below 0", "-0.5::rain.\nquery(rain).\n", "E111", 1, 1, "-0.5",
        "a probability lies between 0 and 1, this one is -0.5", "write it as a fraction"),
    Bad("computed constant", "(1 + 2) / 2::rain.\nquery(rain).\n", "E111", 1, 1, "(1 + 2) / 2",
        "this one is 1.5", "write it as a fraction"),
    Bad("computed from facts, above", "P::a :- b(X), P is X / 2.\nb(3).\nquery(a).\n", "E111", 1,
        1, "P", "this one is 1.5", "write it as a fraction"),
    Bad("computed from facts, below", "P::a :- b(X), P is X / 2.\nb(-3).\nquery(a).\n", "E111", 1,
        1, "P", "this one is -1.5", "write it as a fraction"),
    Bad("bernoulli", "a ~ bernoulli(1.2).\nquery(a).\n", "E111", 1, 15, "1.2", "this one is 1.2",
        "write it as a fraction"),
    Bad("initial value of a parameter", "t(1.2)::a.\nquery(a).\n", "E111", 1, 3, "1.2",
        "this one is 1.2", "write it as a fraction"),
    Bad("disjunction above 1", "0.6::a; 0.6::b.\nquery(a).\n", "E112", 1, 1, "0.6::a; 0.6::b",
        "the probabilities of this disjunction add up to 1.2", "let them add up to at most 1"),
    Bad("learnable disjunction above 1", "t(0.6)::a; t(0.6)::b.\nquery(a).\n", "E112", 1, 1,
        "t(0.6)::a; t(0.6)::b", "add up to 1.2", "let them add up to at most 1"),
    Bad("computed disjunction above 1", "P::a; P::b :- c(P).\nc(0.6).\nquery(a).\n", "E112", 1, 1,
        "P::a; P::b :- c(P)", "add up to 1.2", "let them add up to at most 1"),
    Bad("categorical not 1", "x ~ categorical([0.5, 0.4], [a, b]).\nc :- x =:= a.\nquery(c).\n",
        "E112", 1, 1, "x ~ categorical([0.5, 0.4], [a, b])", "add up to 0.9",
        "let them add up to 1"),
    Bad("non-ground probability", "P::a :- b.\nb.\nquery(a).\n", "E303", 1, 1, "P::a :- b",
        "the variable P of a probabilistic clause is not bound", "bind it in the body"),
    Bad("non-ground probabilistic clause", "0.3::a(X, Y) :- b(X).\nb(1).\nquery(a(1, Y)).\n",
        "E303", 1, 1, "0.3::a(X, Y) :- b(X)", "the variable Y of a probabilistic clause",
        "bind it in the body"),
    Bad("unknown family", "x ~ norml(0, 1).\na :- x > 0.\nquery(a).\n", "E110", 1, 5,
        "norml(0, 1)", "there is no family of distributions called norml", "did you mean normal?"),
    Bad("unknown family like no other", "x ~ cauchy(0, 1).\na :- x > 0.\nquery(a).\n", "E110", 1,
        5, "cauchy(0, 1)", "no family of distributions called cauchy",
        "the families are bernoulli, categorical"),
    Bad("wrong parameter count", "x ~ normal(3).\na :- x > 0.\nquery(a).\n", "E110", 1, 5,
        "normal(3)", "normal takes 2 parameters (mean, sd), this has 1",
        "for example `normal(0, 1)`"),
    Bad("values that are no list", "x ~ categorical([0.5, 0.5], 2).\na :- x > 0.\nquery(a).\n",
        "E110", 1, 29, "2", "the values of a categorical are a list", "categorical([0.3, 0.7]"),
    Bad("network with too many outputs", ":- network(net, 3).\n:- input(image).\n"
        "x ~ normal(net(image)).\na :- x > 0.\nquery(a).\n", "E110", 3, 1,
        "x ~ normal(net(image))", "net has 3 outputs; normal needs 2 (mean, sd)",
        "declare `:- network(net, 2).`"),
    Bad("network with too few outputs", ":- network(net, 2).\n:- input(image).\n"
        "x ~ categorical(net(image), [a, b, c]).\nd :- x =:= a.\nquery(d).\n", "E110", 3, 1,
        "x ~ categorical(net(image), [a, b, c])",
        "net has 2 outputs, but there are 3 values to choose from",
        "declare `:- network(net, 3).`"),
    Bad("network where bounds must be known", ":- network(net, 2).\n:- input(image).\n"
        "x ~ uniform_int(net(image)).\na :- x > 0.\nquery(a).\n", "E110", 3, 5,
        "uniform_int(net(image))", "uniform_int takes 2 parameters (low, high), this has 1",
        "for example `uniform_int(1, 6)`"),
    Bad("network as a probability", ":- network(net, 2).\n:- input(image).\nnet(image)::a.\n"
        "query(a).\n", "E110", 3, 1, "net(image)",
        "a probability is one number; net has more outputs", "declare `:- network(net, 1).`"),
]  # fmt: skip

TIME = [
    Bad("about the future", "warned@t :- storm@(t+1).\n0.1::storm@t.\nquery(warned@t).\n", "E201",
        1, 19, "(t+1)", "this is about the future", "`head@t :- body@(t-1)`"),
    Bad("a later step", "0.1::a@t.\nb@1 :- a@3.\nquery(b@t).\n", "E201", 2, 8, "a@3",
        "this is about the future: the head is at step 1", "let the head be at step 3 or later"),
    Bad("a fixed step at all times", "0.1::a@t.\nb@t :- a@3.\nquery(b@t).\n", "E201", 2, 8, "a@3",
        "before step 3 this is about the future", "carry the value along"),
    Bad("nothing starts it", "lamp@t :- lamp@(t-1).\nquery(lamp@t).\n", "E206", 1, 11,
        "lamp@(t-1)", "nothing ever starts lamp/0", "add a clause for step 0"),
    Bad("untimed head", "wet :- rain@t.\n0.3::rain@t.\nquery(wet).\n", "E202", 1, 8, "rain@t",
        "the head has no time", "give the head a time: `head@t :- …`"),
    Bad("t without a time", "late :- t > 3.\nquery(late).\n", "E202", 1, 9, "t",
        "`t` is the current step, but the head has no time", "give the head a time"),
    Bad("time left out", "0.3::rain@t.\nwet@t :- rain.\nquery(wet@t).\n", "E203", 2, 10, "rain",
        "rain/0 has a time; this mention of it has none", "write `rain@t` or `rain@(t-1)`"),
    Bad("time left out in a query", "0.3::rain@t.\nquery(rain).\n", "E203", 2, 7, "rain",
        "rain/0 has a time; this mention of it has none", "`rain@t`, `rain@T` or `rain@3`"),
    Bad("mixed definitions", "door@0.\ndoor :- key.\nkey.\nquery(door@t).\n", "E204", 2, 1,
        "door", "door/0 is defined both with and without a time", "a time (`@t`, `@0`) or none",
        "it is defined with a time at line 1"),
    Bad("alternatives at different times", "0.5::a@0; 0.5::b@1.\nquery(a@t).\n", "E204", 1, 1,
        "0.5::a@0; 0.5::b@1", "must have the same time", "write one disjunction per time"),
    Bad("T in a body", "0.3::rain@t.\nflood@t :- rain@T.\nquery(flood@t).\n", "E205", 2, 12,
        "rain@T", "`@T` can only stand in observe and query", "write `@t`, `@(t-1)` or a number"),
    Bad("T in a head", "flood@T.\nquery(flood@t).\n", "E205", 1, 1, "flood@T",
        "`T`, the last step, can only be named in observe and query", "write `@t`"),
    Bad("a range in a body", "0.3::rain@t.\nflood@t :- rain@(0:T).\nquery(flood@t).\n", "E205", 2,
        12, "rain@(0:T)", "`@(0:T)` can only stand in observe and query", "write `@t`"),
    Bad("not a time", "0.3::rain@t.\nquery(rain@tomorrow).\n", "E207", 2, 12, "tomorrow",
        "this is not a time", "times are written t, t-1, a number"),
    Bad("computing with T", "0.3::rain@t.\nquery(rain@(T-1)).\n", "E207", 2, 12, "(T-1)",
        "`T` is the last step; it cannot be computed with", "`before@t :- a@(t-1).`"),
    Bad("a range that ends before it begins", "0.3::rain@t.\nquery(rain@(3:1)).\n", "E207", 2, 12,
        "(3:1)", "this range holds no step", "write `1:3`"),
    Bad("before the first step", "0.3::rain@t.\na@0 :- rain@(t-1).\nquery(a@t).\n", "E207", 2, 8,
        "rain@(t-1)", "there is no step 1 before it", "let the head be at step 1 or later"),
    Bad("a head in the past", "rain@(t-1) :- wet@t.\nwet@t.\nquery(wet@t).\n", "E207", 1, 1,
        "rain@(t-1)", "a head is at the current step `t`", "shift the whole clause"),
    Bad("too far back", "0.3::rain@t.\na@t :- rain@(t-5000).\nquery(a@t).\n", "E207", 2, 13,
        "(t-5000)", "this looks 5000 steps back", "carry what you need"),
    Bad("a time argument that is not the head's", ":- time(p/2, 2).\n:- time(q/2, 2).\n"
        "p(X, T) :- q(X, S).\nq(1, T).\nquery(p(X, T)).\n", "E207", 3, 17, "S",
        "the time of a body literal is the head's time", "use the head's time variable"),
]  # fmt: skip

VALUES = [
    Bad("unbound head", "likes(X, Y) :- person(X).\nperson(ann).\nquery(likes(ann, Y)).\n", "E301",
        1, 1, "likes(X, Y) :- person(X)", "the variable Y of a head is not bound",
        "bind it in the body"),
    Bad("unbound comparison", "p :- X > 3.\nquery(p).\n", "E302", 1, 6, "X",
        "X has no value in this comparison", "bind it by a literal to the left"),
    Bad("bound too late", "p :- X > 3, q(X).\nq(4).\nquery(p).\n", "E302", 1, 6, "X > 3",
        "a variable in this comparison has no value yet", "bind it by a literal to the left"),
    Bad("unbound arithmetic", "p(Y) :- Y is X + 1.\nquery(p(Y)).\n", "E302", 1, 14, "X",
        "X has no value in this arithmetic", "bind it by a literal to the left"),
    Bad("unbound list", "p(X) :- member(X, L).\nquery(p(X)).\n", "E302", 1, 9, "member(X, L)",
        "this list is not known yet", "bind it by a literal to the left"),
    Bad("a list where a number is needed", "p(X) :- X is [1, 2] + 1.\nquery(p(X)).\n", "E308", 1,
        14, "[1, 2]", "a number is needed here, not a list", "take an item out with member/2"),
    Bad("a bound list where a number is needed", "p(Y) :- l(X), Y is X + 1.\nl([1, 2]).\n"
        "query(p(Y)).\n", "E308", 1, 15, "Y is X + 1",
        "a number is needed here, not the list [1, 2]", "take an item out with member/2"),
    Bad("text in arithmetic", 'p(Y) :- Y is "one" + 1.\nquery(p(Y)).\n', "E308", 1, 14, '"one"',
        'not the text "one"', "compare terms with `=`"),
    Bad("a name in arithmetic", "p(Y) :- Y is n + 1.\nquery(p(Y)).\n", "E308", 1, 14, "n",
        "a number is needed here, not the term n", "`:- const(n, …).`"),
    Bad("a name in a bound", "p(Y) :- between(1, n, Y).\nquery(p(Y)).\n", "E308", 1, 20, "n",
        "a number is needed here, not the term n", "`:- const(n, …).`"),
    Bad("a name as a parameter", "x ~ normal(mean, 1).\na :- x > 0.\nquery(a).\n", "E308", 1, 12,
        "mean", "a number is needed here, not the term mean", "`:- const(mean, …).`"),
    Bad("a constant that is no number", ":- const(mode, fast).\np :- mode > 3.\nquery(p).\n",
        "E308", 2, 6, "mode", "this constant is `fast`", "give the constant a number"),
    Bad("a misspelt variable", "temperature ~ normal(15, 3).\nhot :- temprature > 25.\n"
        "query(hot).\n", "E308", 2, 8, "temprature", "not the term temprature",
        "did you mean temperature?"),
    Bad("a misspelt variable compared with a name", "humid ~ categorical([0.5, 0.5], [dry, wet])."
        "\nfine :- humdi =:= dry.\nquery(fine).\n", "E308", 2, 9, "humdi", "not the term humdi",
        "did you mean humid?"),
    Bad("a predicate without its value", "hp(H) ~ uniform_int(1, 9).\nweak :- hp < 3.\n"
        "query(weak).\n", "E308", 2, 9, "hp", "not the predicate hp", "fetch its value first"),
    Bad("a tensor in arithmetic", ":- input(image).\na :- image > 3.\nquery(a).\n", "E308", 2, 6,
        "image", "image is a tensor", "pass it to a network"),
    Bad("an unknown function", "p(Y) :- Y is sqr(4).\nquery(p(Y)).\n", "E308", 1, 14, "sqr(4)",
        "there is no function sqr/1", "did you mean sqrt?"),
    Bad("a value as a goal", "x ~ normal(0, 1).\na :- x.\nquery(a).\n", "E308", 2, 6, "x",
        "x is a value, not true or false", "compare it, for example `x > 0`"),
    Bad("a variable's name as an argument of a head", "x ~ normal(0, 1).\nsensor(x).\n"
        "query(sensor(X)).\n", "E308", 2, 8, "x", "x is drawn with `~` and stands for its value",
        "`p(V) :- V is x.`"),
    Bad("an observed value that is no constant", "x ~ normal(0, 1).\nobserve(x, V).\na :- x > 0.\n"
        "query(a).\n", "E308", 2, 12, "V", "the observed value must be a constant",
        "leave it out to read it from the data"),
    Bad("one value observed of two", "x(A, B) ~ categorical([0.5, 0.5], [[1, 2], [3, 4]]).\n"
        "observe(x, 1).\na :- x(1, B).\nquery(a).\n", "E308", 2, 12, "1",
        "x/2 has 2 values, 1 observed", "give a list of 2"),
    Bad("a value observed of a truth", "0.3::a.\nobserve(a, 3).\nquery(a).\n", "E308", 2, 12, "3",
        "a/0 is true or false, it has no other value", "write `true` or `false`"),
    Bad("division by zero", "p(X) :- n(N), X is 1 / N.\nn(0).\nquery(p(X)).\n", "E314", 1, 15,
        "X is 1 / N", "1/0 has no value: division by zero", "guard it with a comparison"),
    Bad("logarithm of zero", "p(X) :- X is log(0).\nquery(p(X)).\n", "E314", 1, 9,
        "X is log(0)", "log(0) has no value", "guard it with a comparison"),
    Bad("equality on a continuous value", "x ~ normal(0, 1).\nhit :- x =:= 1.\nquery(hit).\n",
        "E311", 2, 8, "x =:= 1", "a continuous value is tested for equality",
        "compare it with `<` or `>`"),
    Bad("equality of two that are cut off", "x ~ normal(0, 1).\nhit :- max(x, 0) =:= max(x, 1).\n"
        "query(hit).\n", "E311", 2, 8, "max(x, 0) =:= max(x, 1)",
        "a continuous value that max or min cuts off", "compare what is cut off: `X =< 0`"),
    Bad("too many values", "n(N) ~ uniform_int(0, 2147483648).\na :- n(N), N > 5.\nquery(a).\n",
        "E306", 1, 1, "n(N) ~ uniform_int(0, 2147483648)",
        "uniform_int from 0 to 2,147,483,648 has 2,147,483,649 values; at most 10,000,000",
        "draw from fewer"),
    Bad("a continuous value in a call", "x(X) ~ normal(0, 1).\nhit :- x(1.0).\nquery(hit).\n",
        "E311", 2, 8, "x(1.0)", "a continuous value is tested for equality",
        "compare it with `<` or `>`"),
    Bad("evidence on a derived value", "x(X) ~ normal(0, 1).\ny(Y) :- x(X), Y is X + 1.\n"
        "observe(y, 1.5).\na :- x(X), X > 0.\nquery(a).\n", "E311", 3, 1, "observe(y, 1.5)",
        "the observed value is computed from a continuous variable",
        "observe the random variable itself"),
    Bad("data of two kinds", "x(X)@t ~ categorical([0.5, 0.5], [a, 1]).\nobserve(x(X)@t).\n"
        "query(x(a)@t).\n", "E308", 2, 1, "observe(x(X)@t)",
        "data of x may be names or numbers", "draw names only, or numbers only"),
    Bad("waiting for what never happens", "n(N) ~ geometric(0).\nquery(n(3)).\n", "E111", 1, 1,
        "n(N) ~ geometric(0)", "the p of geometric must be positive, it is 0", "geometric(0.2)"),
    Bad("an unbounded key", "n(N) ~ poisson(3).\n0.3::free(K) :- between(1, 3, K).\n"
        "ok :- n(N), free(N).\nquery(ok).\n", "E306", 3, 13, "free(N)",
        "argument 1 of free/1 is a key", "declare the domain of the value"),
    Bad("an unbounded key of the state", ":- fluent(seen(key)).\nn(N)@t ~ poisson(3).\n"
        "seen(N)@t :- n(N)@t.\nseen(N)@t :- seen(N)@(t-1).\nquery(seen(N)@t).\n", "E306", 3, 1,
        "seen(N)@t :- n(N)@t", "argument 1 of seen/1 is a key", ":- domain("),
    Bad("derivations that disagree", "speed(V)@0 :- V is 1.\nspeed(V)@0 :- V is 2.\n"
        "speed(V)@t :- speed(V)@(t-1).\nquery(speed(V)@t).\n", "E307", 2, 1,
        "speed(V)@0 :- V is 2", "different values at the same time: speed(1) and speed(2)",
        "let their bodies exclude each other"),
    Bad("values of different kinds", "place(P)@0 ~ uniform_int(1, 2).\n"
        "place(P)@t :- place(Q)@(t-1), Q < 2, P is Q + 1.\n"
        "place(P)@t :- place(Q)@(t-1), Q > 1, P = home.\nquery(place(P)@t).\n", "E313", 1, 1,
        "place(P)@0", "the clauses of place/1 give values of different types", "carry only"),
    Bad("too many uncertain items", "0.5::on(X) :- between(1, 20, X).\n"
        "first(X) :- findall(Y, on(Y), L), nth1(1, L, X).\nquery(first(X)).\n", "E316", 2, 35,
        "nth1(1, L, X)", "this list has 20 uncertain items", "take only its length"),
    Bad("not an input of a network", ":- network(net, 1).\np(Y) :- Y is net(picture).\n"
        "query(p(Y)).\n", "E109", 2, 9, "Y is net(picture)",
        "the term picture cannot be passed to the network net", "`:- input(picture).`"),
]  # fmt: skip

CYCLES = [
    Bad("negative cycle", "open :- not closed.\nclosed :- not open.\nquery(open).\n", "E304", 1, 1,
        "open :- not closed", "a predicate depends on its own negation", "look one step back",
        "the cycle: open ← not"),
    Bad("a long negative cycle", "a :- b.\nb :- c.\nc :- d, not a.\nd.\nquery(a).\n", "E304", 3, 1,
        "c :- d, not a", "a predicate depends on its own negation", "look one step back",
        "the cycle: c ← not"),
    Bad("negation that would bind", "free(X) :- not taken(X).\ntaken(a).\nquery(free(X)).\n",
        "E309", 1, 12, "not taken(X)", "the negation would have to bind X",
        "bind X before the negation"),
    Bad("negation left of its variable", "p :- not q(X), r(X).\nq(1).\nr(2).\nquery(p).\n", "E309",
        1, 6, "not q(X)", "the negation would have to bind X", "by a literal to the left of it"),
    Bad("a variable that depends on itself", "x ~ normal(x, 1).\nbig :- x > 0.\nquery(big).\n",
        "E312", 1, 1, "x ~ normal(x, 1)", "the random variable depends on itself, within one step",
        "look one step back"),
    Bad("two variables that depend on each other", "x(X) ~ normal(Y, 1) :- y(Y).\n"
        "y(Y) ~ normal(X, 1) :- x(X).\nbig :- x(X), X > 0.\nquery(big).\n", "E312", 2, 1,
        "y(Y) ~ normal(X, 1) :- x(X)", "the random variable depends on itself",
        "look one step back", "through "),
    Bad("findall in a cycle", "a(1).\na(N) :- findall(X, a(X), L), length(L, N).\nquery(a(X)).\n",
        "E312", 2, 9, "findall(X, a(X), L)", "the answers to collect depend on the result",
        "break the cycle"),
    Bad("recursion on a run-time value", "n(N) ~ poisson(3).\ndown(0).\n"
        "down(N) :- N > 0, M is N - 1, down(M).\nok :- n(N), down(N).\nquery(ok).\n", "E305", 3,
        31, "down(M)", "the recursion of down/1 does not end: its argument is only known at run "
        "time", "declare it with `:- domain(…)`"),
    Bad("counting without end", "p(X) :- between(1, inf, X).\nquery(p(X)).\n", "E305", 1, 9,
        "between(1, inf, X)", "between/3 would count without end", "give it bounds"),
]  # fmt: skip


def _name(bad: Bad) -> str:
    return bad.name.replace(" ", "-")


@pytest.mark.parametrize(
    "bad", [*NAMES, *REFUSED, *PROBABILITIES, *TIME, *VALUES, *CYCLES], ids=_name
)
def test_message(bad: Bad) -> None:
    error = refused(bad.program)
    assert error.codes == (bad.code,), str(error)
    check(str(error), bad)


@pytest.mark.parametrize("bad", SYNTAX, ids=_name)
def test_syntax(bad: Bad) -> None:
    error = refused(bad.program)
    diagnostic = error.diagnostics[0]
    assert (diagnostic.code, diagnostic.span and diagnostic.span.line) == (bad.code, bad.line)
    message = diagnostic.render()
    assert f" --> bad.nsl:{bad.line}:{bad.column}\n" in message
    assert bad.cause in message
    assert f"= help: {bad.cure}" in message
    assert "^" in message


@pytest.mark.parametrize(
    ("program", "line", "column", "reached"),
    [
        ("nat(0).\nnat(N) :- nat(M), N is M + 1.\nquery(nat(3)).\n", 2, 11, "nat("),
        ("down(N) :- M is N - 1, down(M).\nquery(down(3)).\n", 1, 24, "down(-"),
    ],
)
def test_unbounded_recursion(
    program: str, line: int, column: int, reached: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The limits are large, so that large programs compile; lower ones find the same.
    monkeypatch.setattr("nesymm.ground.limits.MAX_TABLES", 500)
    monkeypatch.setattr("nesymm.ground.limits.MAX_ANSWERS", 500)
    error = refused(program)
    message = str(error)
    assert error.codes == ("E305",)
    assert "does not end" in message
    assert f" --> bad.nsl:{line}:{column}\n" in message
    assert f"= note: reached {reached}" in message
    assert "= help: give the argument that changes a bound" in message


def test_several_mistakes_at_once_in_the_order_of_the_text() -> None:
    error = refused(
        "x ~ norml(0, 1).\n"
        "a :- undefined.\n"
        "1.5::c.\n"
        "d@t :- e@(t+1), f@T.\n"
        ":- nothing(3).\n"
        "e@t. f@t.\n"
        "g :- c, !, 3 > foo.\n"
        "query(h).\n"
    )
    assert error.codes == (
        "E110", "E101", "E111", "E201", "E205", "E106", "E105", "E308", "E101",
    )  # fmt: skip
    places = [(d.span.line, d.span.column) for d in error.diagnostics if d.span]
    assert places == [(1, 5), (2, 6), (3, 1), (4, 10), (4, 17), (5, 4), (7, 9), (7, 16), (8, 7)]
    assert str(error).count("error[") == 9
    assert str(error).count("\n\n") == 8  # a blank line between two


def test_several_syntax_errors_at_once() -> None:
    error = refused("a :- b c.\nd.\ne(.\nquery(d).\n")
    assert error.codes == ("E001", "E001")
    assert [d.span.line for d in error.diagnostics if d.span] == [1, 3]


def test_one_mistake_is_reported_once() -> None:
    # The head is refused, so its uses are not called unknown too.
    assert refused("flood@T.\na@t :- flood@t.\nquery(flood@t).\nquery(a@t).\n").codes == ("E205",)
    assert refused(":- const(n).\na :- 1 < n, n > 2.\nquery(a).\n").codes == ("E107",)


def test_a_constant_that_the_program_does_not_have() -> None:
    message = str(refused(":- const(n, 3).\na(n).\nquery(a(X)).\n", m=4))
    assert "error[E108]: the program has no constant called m (it has: n)" in message
    assert "= help: declare it with `:- const(m, …).`" in message


# --- Texts that are not programs ---------------------------------------------------------


@pytest.mark.parametrize("text", ["", " \n\t\n", "% only a comment\n", "/* a\nb */"])
def test_empty(text: str) -> None:
    error = refused(text)
    assert error.codes == ("E002",)
    assert " --> bad.nsl:1:1\n" in str(error)
    assert "the program is empty" in str(error)
    assert "= help: write at least one statement" in str(error)


def test_a_line_of_a_megabyte() -> None:
    error = refused("p(" + ", ".join(["a"] * 350_000) + ") :- q.\nquery(r).\n")
    assert error.codes == ("E101", "E101")
    message = str(error)
    assert len(message) < 1000  # a window around the caret, not the line
    place = error.diagnostics[0].span
    assert place is not None and place.column == 1_050_000 + 6
    assert f" --> bad.nsl:1:{place.column}\n" in message
    excerpt = message.splitlines()[3]
    assert excerpt.startswith("1 | …a, a, ") and excerpt.endswith("a) :- q.")
    assert message.splitlines()[4].index("^") == excerpt.index("q.")


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "bad.nsl"
    path.write_bytes(b"rain.\ncity('Orl\xe9ans').\n")
    with pytest.raises(ProgramError) as caught:
        read(path)
    message = str(caught.value)
    assert "error[E003]: the file is not UTF-8: byte 0xe9 at offset 15" in message
    assert "bad.nsl:2:10\n" in message
    assert "= help: save the file as UTF-8" in message


@pytest.mark.parametrize("opening", ["f(", "(", "[", "- ", "not ", "1 + (", "a, ("])
def test_ten_thousand_levels(opening: str) -> None:
    closing = {"(": ")", "[": "]"}.get(opening.strip()[-1:], "")
    error = refused("a.\nb :- " + opening * 10_000 + "a" + closing * 10_000 + ".\nquery(a).\n")
    assert error.codes == ("E004",)
    message = str(error)
    assert "nested too deeply: a term has at most 200 levels" in message
    assert "= help: split it" in message
    span = error.diagnostics[0].span
    assert span is not None and span.line == 2


def test_a_key_left_out_of_an_observation_is_a_wrong_number_of_arguments() -> None:
    with pytest.raises(ProgramError) as caught:
        compile_step("x(hit) ~ normal(0, 1).\nobserve(x, 1.5).\n")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "E102"
    assert "x takes 1 argument, this has 0" in diagnostic.render()
    assert diagnostic.span is not None and diagnostic.span.line == 2
