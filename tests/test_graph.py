"""The graphical model of a step program: which nodes, which edges, and when."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from nesymm.draw import both, plate, render, unrolled
from nesymm.ground import compile_step
from nesymm.ground.grounder import ground
from nesymm.ir.graph import Edge, Graph, Node
from nesymm.ir.graphical_model import graph_of
from nesymm.language.check import check
from nesymm.language.parser import read

PAPER = sorted((Path(__file__).parent.parent / "examples" / "paper").glob("*.nsl"))


def paper(name: str) -> Graph:
    path = next(p for p in PAPER if p.stem == name)
    return graph_of(ground(check(read(path))), name)


def graph(text: str) -> Graph:
    return graph_of(compile_step(text), "test")


def nodes(graph: Graph) -> dict[str, tuple[str, bool]]:
    """Kind, and whether it is in the plate, by label."""
    return {n.label: (n.kind, n.temporal) for n in graph.nodes}


def arrows(graph: Graph) -> set[str]:
    found = set()
    for edge in graph.edges:
        text = f"{edge.source} -> {edge.target}"
        text += f" lag {edge.lag}" if edge.lag else ""
        text += " from 0" if edge.latched else ""
        text += f" by {edge.label}" if edge.label else ""
        if edge.first or edge.last is not None:
            text += f" in {edge.first}..{'' if edge.last is None else edge.last}"
        found.add(text)
    return found


# ---------------------------------------------------------------- the paper's programs


def test_markov_game_is_figure_3() -> None:
    game = paper("markov_game")
    assert game.title == "markov_game"
    assert nodes(game) == {
        "image": ("input", False),
        "player": ("variable", True),
        "monster": ("variable", False),
        "clumsy": ("variable", False),
        "safe": ("observed", True),
        "game_over": ("query", True),
    }
    # The paper's node for `hits` is part of game_over: the compiler writes it out.
    assert arrows(game) == {
        "image -> player by noisy_player in 0..0",
        "player -> player lag 1",
        "monster -> player in 1..",
        "image -> monster by noisy_monster",
        "player -> safe",
        "monster -> safe",
        "player -> game_over",
        "monster -> game_over",
        "clumsy -> game_over",
    }


def test_discriminative() -> None:
    found = paper("discriminative")
    assert nodes(found) == {
        "start": ("input", False),
        "action": ("input", True),
        "start_x(E)": ("variable", False),
        "start_y(E)": ("variable", False),
        "move(E)": ("variable", True),
        "hit": ("observed", True),
        "damage": ("variable", True),
        "agent": ("derived", True),
        "enemy(E)": ("derived", True),
        "agent_hp": ("derived", True),
        "agent_dead": ("query", True),
    }
    assert {
        "start -> agent in 0..0",
        "action -> agent lag 1",
        "agent -> agent lag 1",
        "agent -> move lag 1 by policy",
        "enemy -> move lag 1 by policy",
        "move -> enemy in 1..",
        "start_x -> enemy in 0..0",
        "agent -> hit",
        "enemy -> hit",
        "hit -> agent_hp in 1..",
        "damage -> agent_hp in 1..",
        "agent_hp -> agent_hp lag 1",
        "agent_hp -> agent_dead",
    } <= arrows(found)
    # Nobody moves before the first step.
    assert next(n for n in found.nodes if n.id == "move").first == 1


def test_generative() -> None:
    found = paper("generative")
    assert nodes(found) == {
        "image": ("input", False),
        "agent": ("query", True),
        "action": ("variable", True),
    }
    assert arrows(found) == {
        "image -> agent by detector in 0..0",
        "action -> agent lag 1",
        "agent -> agent lag 1",
    }


def test_game_without_time() -> None:
    found = paper("game")
    assert not any(n.temporal for n in found.nodes)
    assert arrows(found) == {
        "image -> player by noisy_player",
        "image -> monster by noisy_monster",
        "player -> game_over",
        "monster -> game_over",
        "clumsy -> game_over",
    }


def test_a_query_that_is_part_of_another_is_its_parent() -> None:
    assert arrows(paper("weather")) == {
        "cloudy -> rain",
        "humid -> rain",
        "rain -> good_weather",
        "temperature -> good_weather",
    }


def test_a_program_of_facts() -> None:
    assert nodes(paper("grandparent")) == {"grandparent": ("query", False)}
    assert not paper("grandparent").edges


@pytest.mark.parametrize("path", PAPER, ids=lambda p: p.stem)
def test_all_are_drawn(path: Path) -> None:
    found = paper(path.stem)
    for draw in (plate, unrolled, both):
        svg = render(draw(found), "svg").decode()
        ElementTree.fromstring(svg)
        assert all(f">{n.label}<" in svg for n in found.nodes)
    assert paper(path.stem) == found


# ---------------------------------------------------------------- time


def test_a_lag_of_two_and_edges_that_start_late() -> None:
    found = graph("""
        x(V)@0 ~ normal(0, 1).
        x(V)@1 ~ normal(0, 1).
        x(V)@t ~ normal(M, 0.5) :- x(A)@(t-1), x(B)@(t-2), M is 2 * A - B.
        y(V)@t ~ normal(A, 1) :- x(A)@t.
        observe(y@t).
        query(x(V)@T).
    """)
    assert nodes(found) == {"x": ("query", True), "y": ("observed", True)}
    assert arrows(found) == {"x -> x lag 1 in 2..", "x -> x lag 2", "x -> y"}


def test_what_held_at_step_0_comes_from_step_0() -> None:
    found = graph("""
        0.3::key@t.
        0.2::door@t.
        escape@t :- key@0, door@t.
        observe(door@t).
        query(escape@T).
        query(door@2).
    """)
    assert arrows(found) == {"key -> escape from 0", "key -> escape in 0..0", "door -> escape"}
    door = next(n for n in found.nodes if n.id == "door")
    assert (door.kind, door.asked) == ("observed", True)


def test_a_table_that_is_written_and_read() -> None:
    found = graph("""
        :- fluent(visited(key)).
        d(D)@t ~ uniform_int(0, 1).
        at(1)@0.
        at(X)@t :- at(Y)@(t-1), d(D)@t, X is min(3, Y + D).
        visited(X)@t :- at(X)@t.
        visited(X)@t :- visited(X)@(t-1).
        again@t :- at(X)@t, visited(X)@(t-1).
        query(again@t).
    """)
    assert nodes(found)["visited(X)"] == ("derived", True)
    assert arrows(found) == {
        "at -> at lag 1",
        "d -> at in 1..",
        "at -> visited",
        "visited -> visited lag 1",
        "at -> again in 1..",
        "visited -> again lag 1",
    }


def test_counts_over_enemies_come_from_the_enemies() -> None:
    found = graph("""
        is_enemy(E) :- between(1, 4, E).
        pos(E, X)@0 ~ uniform_int(1, 9) :- is_enemy(E).
        pos(E, X)@t :- pos(E, X)@(t-1).
        near(N)@t :- findall(E, (pos(E, X)@t, X < 4), L), length(L, N).
        nearest(D)@t :- findall(X, pos(E, X)@t, L), min_list(L, D).
        danger@t :- near(N)@t, N >= 2.
        query(danger@t).
        query(nearest(D)@T).
    """)
    assert arrows(found) == {"pos -> pos lag 1", "pos -> danger", "pos -> nearest"}


# ---------------------------------------------------------------- atoms and inputs


def test_atoms_are_told_apart_where_their_roles_differ() -> None:
    text = """
        :- input(image).
        :- input(other).
        nn(net, [Im], D, [0, 1, 2]) :: digit(Im, D).
        addition(Z) :- digit(image, A), digit(other, B), Z is A + B.
        observe(addition(3)).
    """
    assert list(nodes(graph(text))) == ["image", "other", "digit", "addition"]
    found = graph(text + "query(digit(image, D)).")
    assert nodes(found) == {
        "image": ("input", False),
        "other": ("input", False),
        "digit(image)": ("query", False),
        "digit(other)": ("variable", False),
        "addition": ("observed", False),
    }
    assert arrows(found) == {
        "image -> digit(image) by net",
        "other -> digit(other) by net",
        "digit(image) -> addition",
        "digit(other) -> addition",
    }


def test_a_positive_cycle() -> None:
    found = graph("""
        person(ann). person(bob).
        0.3::stress(X) :- person(X).
        0.2::influences(X, Y) :- person(X), person(Y), X \\= Y.
        smokes(X) :- stress(X).
        smokes(X) :- influences(Y, X), smokes(Y).
        0.4::asthma(X) :- smokes(X).
        evidence(smokes(ann), true).
        query(smokes(bob)).
        query(asthma(bob)).
    """)
    assert {
        "smokes(ann) -> smokes(bob)",
        "smokes(bob) -> smokes(ann)",
        "smokes(bob) -> asthma",
        "stress -> smokes(ann)",
        "influences -> smokes(bob)",
    } <= arrows(found)
    render(both(found), "svg")


def test_the_heads_of_an_annotated_disjunction_are_one_node() -> None:
    found = graph("0.4::a; 0.6::b. c :- a. query(c). query(b).")
    assert arrows(found) == {"a; b -> c", "a; b -> b"}
    assert nodes(graph("0.4::c(red); 0.6::c(blue). query(c(red)).")) == {"c": ("query", False)}


def test_inputs_and_networks_that_nothing_uses_are_left_out() -> None:
    found = graph("""
        :- input(image@t).
        :- input(button@t, bool).
        :- input(unused(X)@t, 1..3).
        :- network(detector, 2).
        :- network(encoder, 2).
        x(V)@t ~ normal(detector(image@(t-1))).
        guide(x@t) ~ normal(encoder(image@t)).
        go@t :- button@t, x(V)@t, V > 0.
        query(go@t).
    """)
    assert nodes(found) == {
        "image": ("input", True),
        "button": ("input", True),
        "x": ("variable", True),
        "go": ("query", True),
    }
    assert arrows(found) == {"image -> x lag 1 by detector", "button -> go", "x -> go"}


def test_an_image_that_is_drawn_is_no_input() -> None:
    found = graph("""
        :- input(image@t).
        :- network(decoder, [4, 4]).
        code(Z) ~ normal(0, 1).
        image(I)@t ~ normal(decoder(Z), 0.1) :- code(Z).
        observe(image@t).
        query(code(Z)).
    """)
    assert nodes(found) == {"code": ("query", False), "image": ("observed", True)}
    assert arrows(found) == {"code -> image by decoder"}


# ---------------------------------------------------------------- how it is drawn


def drawn(text: str) -> list[tuple[str, str]]:
    """Class and tag of all elements."""
    root = ElementTree.fromstring(render(text, "svg"))
    return [(e.get("class", ""), e.tag.rpartition("}")[2]) for e in root.iter()]


def test_nodes_exist_only_at_their_steps() -> None:
    late = Graph(
        (Node("a", "a", temporal=True), Node("b", "b", temporal=True, first=1, last=2)),
        (Edge("a", "b"), Edge("b", "a", lag=1)),
        "",
    )
    found = drawn(unrolled(late, steps=4))
    assert found.count(("node variable", "g")) == 4 + 2
    # a -> b at 1 and 2; b -> a to 2 and 3.
    assert found.count(("edge", "g")) == 4
    assert drawn(plate(late)).count(("node variable", "g")) == 2


def test_latched_edges_start_at_step_0() -> None:
    latched = Graph(
        (Node("a", "a", temporal=True), Node("b", "b", temporal=True)),
        (Edge("a", "b", latched=True),),
        "",
    )
    assert drawn(unrolled(latched, steps=4)).count(("edge", "g")) == 3
    assert "from t=0" in plate(latched)
    with pytest.raises(ValueError, match="has a lag, but not both ends are temporal"):
        plate(Graph((Node("a", "a"), Node("b", "b")), latched.edges, ""))


def test_observed_nodes_can_be_asked_for() -> None:
    plain = plate(Graph((Node("a", "a", kind="observed"),), (), ""))
    asked = plate(Graph((Node("a", "a", kind="observed", asked=True),), (), ""))
    assert drawn(asked).count(("", "ellipse")) > drawn(plain).count(("", "ellipse"))
    assert "<query>" in asked and "<query>" not in plain
