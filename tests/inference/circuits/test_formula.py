"""Formulas: simplification, recursion, depth."""

from __future__ import annotations

import pytest

from nesymm.inference.circuits.circuit import compile_formula
from nesymm.inference.circuits.formula import Formula


def test_equal_formulas_are_one_node() -> None:
    f = Formula([2, 2, 3])
    a, b, c = f.literal(0, 1), f.literal(1, 1), f.literal(2, 0)
    assert f.and_([a, b]) == f.and_([b, a, b])
    assert f.and_([a, f.or_([b, c])]) == f.and_([f.or_([c, b]), a])
    assert f.or_([a, b]) != f.and_([a, b])


def test_constants_and_complements_simplify() -> None:
    f = Formula([2, 3])
    a, c = f.literal(0, 1), f.literal(1, 0)
    assert f.and_([]) == f.true
    assert f.or_([]) == f.false
    assert f.and_([a, f.true]) == a
    assert f.and_([a, f.false]) == f.false
    assert f.or_([a, f.true]) == f.true
    assert f.not_(f.true) == f.false
    assert f.not_(f.not_(c)) == c
    assert f.and_([c, f.not_(c)]) == f.false
    assert f.or_([c, a, f.not_(c)]) == f.true


def test_a_boolean_variable_has_two_literals_that_negate_each_other() -> None:
    f = Formula([2, 2])
    assert f.not_(f.literal(0, 1)) == f.literal(0, 0)
    yes, no = f.literal(1, 1), f.literal(1, 0)
    assert f.not_(no) == yes
    assert f.or_([yes, no]) == f.true


def test_a_variable_with_one_value_is_true() -> None:
    f = Formula([1])
    assert f.literal(0, 0) == f.true


def test_variables_can_be_added() -> None:
    f = Formula()
    assert [f.add_variable(2), f.add_variable(5)] == [0, 1]
    assert f.sizes == [2, 5]
    with pytest.raises(ValueError, match="at least one value, not 0"):
        f.add_variable(0)


def test_values_must_exist() -> None:
    f = Formula([3])
    with pytest.raises(ValueError, match=r"variable 0 has values 0\.\.2, not 3"):
        f.literal(0, 3)


def test_variables_are_ordered_as_met() -> None:
    f = Formula([2] * 5)
    x = [f.literal(i, 1) for i in range(5)]
    root = f.or_([f.and_([x[3], f.not_(x[1])]), f.and_([x[1], x[4]])])
    assert f.variable_order([root, x[0]]) == [3, 1, 4, 0]


def test_definitions_are_checked() -> None:
    f = Formula([2])
    x = f.literal(0, 1)
    (a,) = f.fixpoint(1)
    with pytest.raises(ValueError, match="1 atoms but 2 definitions"):
        f.define([a], [x, x])
    with pytest.raises(ValueError, match="is not an atom but 'literal'"):
        f.define([x], [a])
    with pytest.raises(ValueError, match="there is no node 99"):
        f.define([a], [99])
    with pytest.raises(ValueError, match="has no definition; call define first"):
        compile_formula(f, [a])
    f.define([a], [x])
    with pytest.raises(ValueError, match="is defined already"):
        f.define([a], [x])


def test_an_atom_may_not_depend_on_its_negation() -> None:
    f = Formula([2])
    a, b = f.fixpoint(2)
    f.define([a, b], [f.and_([f.literal(0, 1), f.not_(b)]), f.or_([a, f.literal(0, 0)])])
    with pytest.raises(ValueError, match=rf"atoms \[{a}, {b}\] depend on their own negation"):
        list(f.components([a]))


def test_a_system_may_negate_a_system_below_it() -> None:
    f = Formula([2])
    x = f.literal(0, 1)
    (a,) = f.fixpoint(1)
    f.define([a], [f.or_([a, x])])
    (b,) = f.fixpoint(1)
    f.define([b], [f.or_([b, f.not_(a)])])
    assert compile_formula(f, [b]) == compile_formula(f, [f.not_(x)])


def test_only_itself_is_no_reason() -> None:
    f = Formula([2])
    x = f.literal(0, 1)
    a, b, c, d = f.fixpoint(4)
    f.define([a, b, c, d], [a, c, b, f.or_([d, a, b, x])])
    assert compile_formula(f, [a, b, d]) == compile_formula(f, [f.false, f.false, x])


def test_components_come_deepest_first() -> None:
    f = Formula([2, 2])
    x, y = f.literal(0, 1), f.literal(1, 1)
    a, b = f.fixpoint(2)
    left, right = f.and_([b, x]), f.and_([a, y])
    f.define([a, b], [left, right])
    root = f.or_([a, f.and_([x, y])])
    components = list(f.components([root]))
    assert sorted(components[2]) == sorted([a, b, left, right])
    assert components[-1] == [root]
    seen: set[int] = set()
    for component in components:
        seen.update(component)
        assert all(child in seen for node in component for child in f.children(node))


def test_deep_formulas_do_not_overflow_the_stack() -> None:
    f = Formula([2, 3])
    x, y = f.literal(0, 1), f.literal(1, 2)
    node = x
    for _ in range(50_000):
        node = f.not_(f.and_([f.or_([node, y]), f.or_([x, f.not_(y)])]))
    assert f.variable_order([node]) == [0, 1]
    assert len(f) > 100_000
    assert sum(len(component) for component in f.components([node])) > 100_000
    assert len(compile_formula(f, [node]).roots) == 1
