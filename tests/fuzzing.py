"""Realistic programs, and broken ones made from them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

CORPUS: tuple[str, ...] = (
    """:- input(image).                                % one tensor per sequence
:- network(noisy_player, 2).
player(P)@0 ~ normal(noisy_player(image)).
player(P)@t ~ normal(Next, 0.1) :-
    player(Q)@(t-1), monster(M), player_move(Q, M, Next).
monster(M) ~ normal(noisy_monster(image)).
clumsy ~ bernoulli(0.75).
hits@t :- player(P)@t, monster(M), distance(P, M, D), D < 2, not clumsy.
observe(safe@(0:T), true).
query(hits@T).
""",
    """0.3::rain@0.
0.7::rain@t :- rain@(t-1).
0.3::rain@t :- \\+ rain@(t-1).
0.9::umbrella@t :- rain@t.
0.2::umbrella@t :- not rain@t.
observe(umbrella@t).
query(rain@t).
""",
    "1/6::die(1); 1/6::die(2); 1/6::die(3); 1/6::die(4); 1/6::die(5); 1/6::die(6).\n"
    "query(die(_)).\n",
    "0.1::burglary. 0.2::earthquake.\n0.9::alarm :- burglary, earthquake.\n"
    "0.8::alarm <- burglary, \\+earthquake.\nevidence(alarm, true).\nevidence(\\+calls(mary)).\n"
    "query(burglary).\n",
    "nn(mnist_net, [X], Y, [0,1,2,3,4,5,6,7,8,9]) :: digit(X, Y).\n"
    "addition(X, Y, Z) :- digit(X, A), digit(Y, B), Z is A + B.\n",
    "t(_)::heads(C) :- coin(C).\nt(0.3)::tails(C) :- coin(C).\nt(_, E)::hit(E)@t :- enemy(E).\n"
    "coin(c1). coin(c2).\n",
    """:- const(n, 10).
:- input(action(A)@t, [up, right, down, left]).
:- input(start(X, Y)).
:- domain(hp/1, 1, 0..12).
agent(X, Y)@0 :- start(X, Y).
agent(X, Y+1)@t :- action(up)@(t-1), agent(X, Y)@(t-1), Y < n.
agent(X+1, Y)@t :- action(right)@(t-1), agent(X, Y)@(t-1), X + 1 =< n.
observe(hit@t).
""",
    ":- time(agent/3, 3).\nagent(X, Y+1, T) :- action(up, T-1), agent(X, Y, T-1).\n"
    "agent(0, 0, 0).\n",
    "temperature ~ normal(20, 5).\nhumid ~ categorical([0.2, 0.8], [wet, dry]).\n"
    "good :- temperature > 20, humid =:= dry.\nquery(good).\n",
    "hp(H)@0 ~ uniform_int(8, 12).\nhp(H-D)@t :- hp(H)@(t-1), damage(D)@t, H - D >= 0.\n"
    "hp(0)@t :- hp(H)@(t-1), damage(D)@t, H - D < 0.\ndamage(D)@t ~ poisson(1.5e0).\n"
    "dead@t :- hp(H)@t, H =< 0.\n",
    "edge(1, 2). edge(2, 3). edge(3, 1).\n0.6::works(X, Y) :- edge(X, Y).\n"
    "path(X, Y) :- works(X, Y).\npath(X, Y) :- works(X, Z), path(Z, Y), X \\= Y.\n"
    "query(path(1, 3)).\n",
    "len([], 0).\nlen([_|T], N) :- len(T, M), N is M + 1.\n"
    "q(L) :- findall(X, member(X, [1,2,3]), L).\n"
    "r(S) :- findall(X, (p(X), X > 1 ; q(X)), L), sum_list(L, S).\n",
    "best(X, min<C>) :- cost(X, C).\ntotal(sum<V>) :- item(I), value(I, V).\n"
    "value(i1, -3). value(i2, 2.5). item(i1). item(i2).\n",
    ":- fluent(visited(key, key)).\nvisited(X, Y)@t :- agent(X, Y)@t.\n"
    "visited(X, Y)@t :- visited(X, Y)@(t-1).\nexplored@t :- between(0, 9, X), visited(X, 0)@t.\n",
    ":- network(policy, 9).\n:- network(decoder, [64, 64, 3]).\n"
    "move(M)@t ~ categorical(policy(image@t), [n, s, e, w, ne, nw, se, sw, stay]).\n"
    "image@t ~ normal(decoder(state@t), 0.1).\nobserve(image@t).\n",
    "x@0 ~ normal(0.0, 1.0).\nx@t ~ normal(0.9 * x@(t-1), 0.5) .\ny@t ~ normal(x@t, 0.2).\n"
    "observe(y@1, 1.5).\nobserve(y@3, -2).\nquery(x@3).\n",
    "next(X, Y) :- Y is (X * 3 + 1) mod 7, Y =\\= X, Y >= -X**2 // 3.\n",
    "a(X) :- X is -(3 ** 2) + (-3)**2 - 2 ** -1, X << 2 >> 1 == 4 xor 2 rem 3.\n",
    "'Hello world'(X, \"a string, with 100% of it.\") :- X = 'it''s', X \\== \"\\\"\", X @< b.\n",
    "/* a block\n   comment. */ a. % a line comment. b.\nb :- /* inside */ a.\n",
    "act(A)@t :- plan(P)@t, (P = go -> A = walk ; P = stop, A = wait).\nc :- a, !, b.\n",
    "mood(M)@t :- mood(N)@(t-2), step(N, M).\nmood(happy)@0. mood(sad)@1.\n"
    "query(mood(happy)@(0:T)). query(mood(_)@5).\n",
    "0.5::a; 0.25::b; 0.25::c :- d, (e ; f), \\+ (g, h).\n0.2::\\+a.\nd. e. f.\n",
    "robot(r1). robot(r2).\nat(R, P)@t ~ normal(M, S) :- robot(R), at(R, Q)@(t-1),\n"
    "    M is Q + 0.1, S is max(0.1, abs(Q) / 10).\ncollision@t :- at(r1, P)@t, at(r2, Q)@t,\n"
    "    distance([P, 0], [Q, 0], D, euclidean), D < 1.0e-1.\nobserve(collision@(1:T), false).\n",
    "X = Y.\n_ = _Z.\nf(A, B) =.. [f | Rest].\na <= b.\n",
    "safe(X) :- not danger(X), not(trap(X)), \\+(pit(X)).\ndanger(X) :- X = [wolf, bear | _].\n",
)

_TOKEN = re.compile(r"\s+|\w+|'[^'\n]*'|\"[^\"\n]*\"|[^\w\s]")
_SNIPPETS = (
    ":-", "<-", "::", "~", "@", "@t", "@(t-1)", "(", ")", "[", "]", "|", ",", ";", ".", ". ", "..",
    "not ", "\\+", "'", '"', "/*", "*/", "%", "\n", "\t", "\r", "\0", "0", "1.", "1e9", "-", "- -",
    "X", "_", "is", "mod", "min<L>", "->", "!", "<=", "=..", "é", "∀", "\u200b", "\ufeff", "\ud800",
    "{}", "`", "\\", "\\n", "1e999", "9" * 5000, "(" * 500, "f(" * 30, "[" * 450, "-" * 300,
    "1+" * 300, "not " * 250, "a;" * 50,
)  # fmt: skip


def mutants(n: int, seed: int) -> Iterator[str]:
    """Broken programs: the same ones for the same seed."""
    rng = random.Random(seed)
    for _ in range(n):
        text = rng.choice(CORPUS)
        for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
            text = rng.choice(_MUTATIONS)(rng, text)
        yield text


def _cut(rng: random.Random, length: int, longest: int = 12) -> tuple[int, int]:
    start = rng.randrange(length + 1)
    return start, min(length, start + rng.randrange(longest + 1))


def _delete(rng: random.Random, text: str) -> str:
    start, end = _cut(rng, len(text))
    return text[:start] + text[end:]


def _duplicate(rng: random.Random, text: str) -> str:
    start, end = _cut(rng, len(text), 40)
    return text[:end] + text[start:end] * rng.choice((1, 1, 2, 20)) + text[end:]


def _replace(rng: random.Random, text: str) -> str:
    start, end = _cut(rng, len(text), 3)
    return text[:start] + rng.choice(_SNIPPETS) + text[end:]


def _unicode(rng: random.Random, text: str) -> str:
    start, end = _cut(rng, len(text), 2)
    top = rng.choice((0x80, 0x100, 0x3000, 0x110000))
    return text[:start] + "".join(chr(rng.randrange(top)) for _ in range(3)) + text[end:]


def _truncate(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return rng.choice((text[:at], text[at:]))


def _splice(rng: random.Random, text: str) -> str:
    other = rng.choice(CORPUS)
    start, end = _cut(rng, len(other), 200)
    at = rng.randrange(len(text) + 1)
    return text[:at] + other[start:end] + text[rng.randrange(len(text) + 1) :]


def _tokens(rng: random.Random, text: str) -> str:
    """Drops, doubles, swaps or replaces whole tokens."""
    tokens = _TOKEN.findall(text)
    if len(tokens) < 2:
        return text
    i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    match rng.randrange(4):
        case 0:
            del tokens[i]
        case 1:
            tokens.insert(j, tokens[i])
        case 2:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        case _:
            tokens[i] = rng.choice(_SNIPPETS)
    return "".join(tokens)


def _bytes(rng: random.Random, text: str) -> str:
    data = bytearray(text.encode("utf-8", "replace"))
    for _ in range(min(4, len(data))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return data.decode("utf-8", "surrogateescape" if rng.random() < 0.5 else "replace")


_MUTATIONS = (
    _delete, _duplicate, _replace, _unicode, _truncate, _splice, _tokens, _tokens, _bytes,
)  # fmt: skip
