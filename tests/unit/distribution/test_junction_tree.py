import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, strategies as st
from joint_tables import graphs

from synthdp.distribution.junction_tree import JunctionTree, SubTable, TreePlanner, junction_tree, tree_cells
from synthdp.errors import ParameterError
from synthdp.queries.contingency import table_size


def connected(shape, cliques, columns):
    reached, grown = {min(columns)}, True
    while grown:
        more = {a for c in cliques if reached.intersection(c) for a in c}
        grown = not more <= reached
        reached |= more
    return reached


@given(graphs(most_columns=7))
def test_every_clique_lies_in_a_node_and_every_column_has_one(graph):
    shape, cliques = graph
    tree = junction_tree(shape, cliques)
    assert all(any(set(c) <= set(node) for node in tree.nodes) for c in cliques)
    assert set().union(*tree.nodes) == set(range(len(shape)))


@given(graphs(most_columns=7))
def test_no_node_lies_in_another(graph):
    tree = junction_tree(*graph)
    assert not any(set(a) <= set(b) for a, b in itertools.permutations(tree.nodes, 2))


@given(graphs(most_columns=7))
def test_the_nodes_of_a_column_are_connected(graph):
    """Running intersection: of a column's nodes exactly one does not share it with its parent."""
    tree = junction_tree(*graph)
    for column in range(len(tree.shape)):
        tops = [i for i, node in enumerate(tree.nodes) if column in node and column not in tree.separators[i]]
        assert len(tops) == 1


@given(graphs(most_columns=7))
def test_parents_stand_first_and_separators_are_what_a_node_shares_with_all_before_it(graph):
    tree = junction_tree(*graph)
    for i, (node, parent) in enumerate(zip(tree.nodes, tree.parents, strict=True)):
        assert parent < i
        assert set(tree.separators[i]) == set(node).intersection(*[set().union(*tree.nodes[:i])])
        assert bool(tree.separators[i]) == (parent >= 0)


@given(graphs(most_columns=7))
def test_the_forest_has_one_tree_for_each_connected_set_of_columns(graph):
    shape, cliques = graph
    components = {frozenset(connected(shape, cliques, {a})) for a in range(len(shape))}
    assert len(junction_tree(shape, cliques).roots) == len(components)


@given(graphs(most_columns=7))
def test_the_planner_prices_the_tree_it_builds(graph):
    shape, cliques = graph
    tree = junction_tree(shape, cliques)
    assert (
        tree_cells(shape, cliques) == tree.cells == sum(math.prod(tree.node_shape(i)) for i in range(len(tree.nodes)))
    )


@given(graphs(most_columns=7), st.randoms(use_true_random=False))
def test_the_price_does_not_depend_on_the_order_or_on_what_was_asked_before(graph, random):
    shape, cliques = graph
    shuffled = random.sample(cliques, len(cliques))
    planner = TreePlanner(shape)
    for end in range(len(shuffled) + 1):
        assert planner.cells(shuffled[:end]) == tree_cells(shape, shuffled[:end])
    assert planner.tree_of(shuffled) == junction_tree(shape, cliques)


@given(graphs(most_columns=7))
def test_a_tour_passes_each_message_both_ways_and_ends_where_it_began(graph):
    tree = junction_tree(*graph)
    for root in tree.roots:
        at, steps = root, list(tree.sweep(root))
        for action, i in steps:
            expected = {"visit": i, "down": tree.parents[i], "up": i}
            assert at == expected[action]
            at = {"visit": i, "down": i, "up": tree.parents[i]}[action]
        assert at == root
        downs = [i for action, i in steps if action == "down"]
        assert sorted(downs) == sorted(i for action, i in steps if action == "up")
        assert len(set(downs)) == len(downs)
    visited = {i for root in tree.roots for action, i in tree.sweep(root) if action == "visit"}
    assert visited == set(range(len(tree.nodes)))


@given(graphs(most_columns=7))
def test_a_chordal_graph_gets_no_new_pairs(graph):
    """The cliques of a junction tree are chordal: their own tree has the same nodes."""
    tree = junction_tree(*graph)
    assert set(junction_tree(tree.shape, tree.nodes).nodes) == set(tree.nodes)


def test_a_cycle_of_four_is_triangulated_at_the_cheap_diagonal():
    shape = (2, 9, 2, 9)
    tree = junction_tree(shape, [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert set(tree.nodes) == {(0, 1, 2), (0, 2, 3)}
    assert tree.cells == 72


def test_no_cliques_give_independent_columns():
    tree = junction_tree((2, 3, 1), [])
    assert tree.nodes == ((0,), (1,), (2,))
    assert tree.parents == (-1, -1, -1)
    assert tree.separators == ((), (), ())


def test_the_largest_node_is_the_root():
    tree = junction_tree((2, 3, 4, 5), [(0, 1), (1, 2), (2, 3)])
    assert tree.nodes[0] == (2, 3)


def test_a_clique_has_its_smallest_home_or_none():
    tree = junction_tree((2, 3, 4), [(0, 1), (1, 2)])
    assert tree.nodes[tree.place((1,))[0]] == (0, 1)
    assert tree.home((0, 2)) is None
    with pytest.raises(ParameterError, match="clique"):
        tree.place((0, 2))


def test_a_clique_outside_the_columns_is_refused():
    with pytest.raises(ParameterError, match="clique"):
        tree_cells((2, 2), [(0, 2)])


@given(graphs(most_columns=5), st.integers(0, 99))
def test_a_margin_is_the_sum_and_spreads_back_over_the_node(graph, seed):
    shape, _ = graph
    node = tuple(range(len(shape)))
    table = np.random.default_rng(seed).normal(size=shape)
    for size in range(len(node) + 1):
        for columns in itertools.combinations(node, size):
            inside = SubTable.of(shape, node, columns)
            margin = inside.margin(table)
            summed = table.sum(axis=tuple(a for a in node if a not in columns), keepdims=True)
            np.testing.assert_allclose(margin, summed.ravel(), atol=1e-12)
            np.testing.assert_allclose(inside.spread(margin), summed, atol=1e-12)


def test_the_tree_of_a_hundred_columns_is_priced_in_milliseconds():
    """Three hundred prices of growing graphs on 120 columns; generous, since the machine may be loaded."""
    rng = np.random.default_rng(0)
    shape = tuple(int(k) for k in rng.integers(2, 12, 120))
    pairs = [tuple(sorted(int(a) for a in rng.choice(120, 2, replace=False))) for _ in range(300)]
    planner, start = TreePlanner(shape), time.perf_counter()
    prices = [planner.cells(pairs[:end]) for end in range(1, 150)]
    prices += [planner.cells([*pairs[:100], pair]) for pair in pairs[150:]]
    seconds = time.perf_counter() - start
    assert seconds < 10
    assert prices[0] == sum(shape) - sum(shape[a] for a in pairs[0]) + table_size(shape, pairs[0])


def test_asking_again_costs_no_elimination(monkeypatch):
    planner = TreePlanner((2, 3, 4))
    first = planner.cells([(0, 1)])
    monkeypatch.setattr("synthdp.distribution.junction_tree._eliminate", None)
    assert planner.cells([(0, 1)]) == first


def test_a_tree_is_equal_to_the_tree_of_the_same_graph():
    assert junction_tree((2, 2), [(0, 1)]) == JunctionTree((2, 2), ((0, 1),), (-1,))
