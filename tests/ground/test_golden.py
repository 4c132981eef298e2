"""Step programs as text: golden printouts, one feature of the language each.

The files under tests/golden are read by people. Rewrite them with `pytest --update-golden`
and read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nesymm.ground import StepProgram, compile_step
from nesymm.ground.grounder import ground
from nesymm.language.check import check
from nesymm.language.parser import read

PAPER = sorted((Path(__file__).parents[2] / "examples" / "paper").glob("*.nsl"))

PROGRAMS = {
    "annotated_disjunction": """
% One draw among three heads; what is left of the probability is none of them.
0.3::sun@t ; 0.5::rain@t ; 0.1::snow@t.
umbrella@t :- rain@t.
umbrella@t :- snow@t.
observe(umbrella@t).
query(rain@T).
""",
    "cycle": """
% Reachability in a cyclic graph: a least fixpoint.
0.9::edge(a, b).  0.5::edge(b, c).  0.4::edge(c, b).  0.3::edge(c, d).
path(X, Y) :- edge(X, Y).
path(X, Y) :- path(X, Z), edge(Z, Y).
query(path(a, d)).
query(path(a, c)).
""",
    "lag_two": """
% A second-order chain: what lies two steps back is carried along.
x(V)@0 ~ normal(0, 1).
x(V)@1 ~ normal(0, 1).
x(V)@t ~ normal(M, 0.5) :- x(A)@(t-1), x(B)@(t-2), M is 2 * A - B.
y(V)@t ~ normal(A, 1) :- x(A)@t.
observe(y@t).
query(x(V)@T).
""",
    "latch": """
% What held at step 0 is remembered, and so is the answer to a query about a fixed step.
0.3::key@t.
0.2::door@t.
escape@t :- key@0, door@t.
observe(door@t).
query(escape@T).
query(door@2).
""",
    "gather_scatter": """
% A position is written into a table of visited cells, and read from it.
:- const(n, 3).
:- fluent(visited(key, key)).
dx(D)@t ~ uniform_int(-1, 1).
at(1, 1)@0.
at(X, Y)@t :- at(X0, Y0)@(t-1), dx(D)@t, X is max(1, min(n, X0 + D)), Y is n + 1 - Y0.
visited(X, Y)@t :- at(X, Y)@t.
visited(X, Y)@t :- visited(X, Y)@(t-1).
again@t :- at(X, Y)@t, visited(X, Y)@(t-1).
query(again@t).
""",
    "static_array": """
% A value in key position: one trap of many is looked up.
:- const(n, 4).
pos(X)@0 ~ uniform_int(1, n).
pos(X)@t :- pos(X)@(t-1).
0.2::trap(X) :- between(1, n, X).
hurt@t :- pos(X)@t, trap(X).
observe(hurt@t).
query(trap(2)).
""",
    "along_an_axis": """
% Counts, extremes, negation and `forall` over enemies are reductions along one axis.
:- const(enemies, 4).
is_enemy(E) :- between(1, enemies, E).
pos(E, X)@0 ~ uniform_int(1, 9) :- is_enemy(E).
pos(E, X)@t :- pos(E, X)@(t-1).
near(N)@t :- findall(E, (pos(E, X)@t, X < 4), L), length(L, N).
nearest(D)@t :- findall(X, pos(E, X)@t, L), min_list(L, D).
danger@t :- near(N)@t, N >= 2.
alone@t :- pos(1, X)@t, not (pos(E, Y)@t, E \\= 1, Y = X).
low@t :- forall(is_enemy(E), (pos(E, X)@t, X < 4)).
query(danger@t).
query(nearest(D)@T).
query(alone@t).
query(low@t).
""",
    "noisy_or": """
% A Boolean clause has one independent cause per grounding, here per enemy.
:- const(enemies, 3).
is_enemy(E) :- between(1, enemies, E).
x(E, X)@t ~ uniform_int(1, 5) :- is_enemy(E).
hit@t ~ bernoulli(0.2) :- x(E, X)@t, X < 3.
observe(hit@t).
query(x(2, X)@T).
""",
    "lookup_table": """
% Facts called with values that are only known at run time are a table.
room(hall, north, library).   room(library, south, hall).
room(hall, east, kitchen).    room(kitchen, west, hall).
at(hall)@0.
move(M)@t ~ categorical([0.25, 0.25, 0.25, 0.25], [north, south, east, west]).
at(B)@t :- at(A)@(t-1), move(M)@t, room(A, M, B).
at(A)@t :- at(A)@(t-1), move(M)@t, not room(A, M, _).
query(at(R)@T).
""",
    "guide": """
% A latent code with a proposal, and images that are seen through their likelihood.
:- input(image@t).
:- network(encoder, 2).
:- network(decoder, [4, 4]).
code(Z) ~ normal(0, 1).
guide(code) ~ normal(encoder(image@0)).
image(I)@t ~ normal(decoder(Z), 0.1) :- code(Z).
observe(image@t).
query(code(Z)).
""",
    "neural_annotation": """
% DeepProbLog's annotation.
:- input(image).
:- input(other).
nn(digit_net, [Im], D, [0, 1, 2]) :: digit(Im, D).
addition(Z) :- digit(image, A), digit(other, B), Z is A + B.
observe(addition(3)).
query(digit(image, D)).
""",
    "parameters": """
% One parameter for a clause, and one per enemy.
:- const(enemies, 3).
is_enemy(E) :- between(1, enemies, E).
t(0.5)::hungry@t.
t(_, E)::bite(E)@t :- is_enemy(E), hungry@t.
hurt@t :- bite(E)@t.
observe(hurt@t).
query(hungry@T).
""",
    "observe_by_value": """
% Evidence by value: from data, and at one step.
x(V)@0 ~ normal(0, 1).
x(V)@t ~ normal(A, 0.1) :- x(A)@(t-1).
y(V)@t ~ normal(A, 1) :- x(A)@t.
colour(C)@t ~ categorical([0.5, 0.5], [red, blue]).
observe(y@t).
observe(x@1, 1.5).
observe(colour@2, red).
query(colour(C)@t).
""",
    "mixture": """
% A sensor that is stuck at zero or reads the temperature: a point mass and a density.
0.1::stuck@t.
temperature(T)@t ~ normal(20, 5).
reading(0)@t :- stuck@t.
reading(T)@t :- not stuck@t, temperature(T)@t.
observe(reading@t).
query(stuck@t).
""",
    "inputs": """
% Data of a step: a choice, a truth value, an image; a domain that must not be left.
:- input(image@t).
:- input(action(A)@t, [left, right]).
:- input(button@t, bool).
:- network(detector, 2).
:- domain(hp/1, 1, 0..5).
x(V)@t ~ normal(detector(image@t)).
hp(5)@0.
hp(H)@t :- hp(H0)@(t-1), button@t, H is H0 - 1.
hp(H)@t :- hp(H)@(t-1), not button@t.
go@t :- action(left)@t, x(V)@t, V > 0.
query(go@t).
query(hp(H)@T).
""",
    "vector": """
% Several values drawn at once.
p(X, Y)@0 ~ multivariate_normal([0, 0], [[1, 0], [0, 1]]).
p(X, Y)@t ~ multivariate_normal([A, B], [[1, 0], [0, 1]]) :- p(A, B)@(t-1).
near@t :- p(X, Y)@t, distance([X, Y], [0, 0], D, euclidean), D < 1.
observe(near@t).
query(p(X, Y)@T).
""",
}


@pytest.mark.parametrize("path", PAPER, ids=lambda p: p.stem)
def test_programs_of_the_paper(path: Path, golden: Callable[[str, str], None]) -> None:
    golden(f"paper/{path.stem}.txt", str(ground(check(read(path)))))


@pytest.mark.parametrize("name", PROGRAMS)
def test_features(name: str, golden: Callable[[str, str], None]) -> None:
    text = PROGRAMS[name].lstrip("\n")
    golden(f"features/{name}.txt", f"{text}\n{'-' * 80}\n\n{compile_step(text, name)}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_printing_does_not_depend_on_what_was_compiled_before(name: str) -> None:
    first = str(compile_step(PROGRAMS[name]))
    for other in ("cycle", "along_an_axis"):
        compile_step(PROGRAMS[other])
    assert str(compile_step(PROGRAMS[name])) == first


# ---------------------------------------------------------------- sizes


def size(step: StepProgram) -> int:
    return len(step.nodes())


@pytest.fixture(scope="module")
def discriminative() -> Callable[[int, int], StepProgram]:
    path = next(p for p in PAPER if p.stem == "discriminative")
    program = read(path)
    return lambda n, enemies: ground(check(program, {"n": n, "enemies": enemies}))


@pytest.mark.parametrize("n", [10, 1000])
@pytest.mark.parametrize("enemies", [1, 2, 20])
def test_the_step_program_does_not_grow_with_the_world(
    discriminative: Callable[[int, int], StepProgram], n: int, enemies: int
) -> None:
    small, step = discriminative(10, 1), discriminative(n, enemies)
    assert size(step) == size(small) == 111
    assert [v.name for v in step.variables] == [v.name for v in small.variables]
    assert [a.size for v in step.variables for a in v.axes] == [enemies] * 4
    # But for the numbers themselves, the two print alike.
    shown = str(step).replace(f"1..{enemies}]", "1..1]").replace(str(n), "10")
    assert shown == str(small)


def test_reductions_do_not_grow_with_their_axis() -> None:
    text = PROGRAMS["along_an_axis"]
    sizes = {size(compile_step(text, constants={"enemies": n})) for n in (5, 6, 50, 500)}
    assert len(sizes) == 1
