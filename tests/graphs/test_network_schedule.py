"""Which nodes may move at the same time."""

import importlib
import itertools
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pdmm.graphs.incidence import Incidence
from pdmm.graphs.schedule import Activations, plan

nx: Any = importlib.import_module("networkx")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 20), repeats=st.booleans())
def test_levels_keep_the_order_of_neighbours(seed: int, n: int, repeats: bool) -> None:
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(n, 0.3, seed=seed)
    ends = np.array(list(graph.edges), dtype=np.intp).reshape(-1, 2)
    incidence = Incidence(n, ends[:, 0].copy(), ends[:, 1].copy())
    sequence = rng.integers(0, n, n + 3) if repeats else rng.permutation(n)
    made = plan(incidence, sequence)
    assert (made.sequence == sequence).all()
    found = np.split(made.order, made.cuts)
    level_of = np.empty(len(sequence), dtype=int)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(sequence)))
    for depth, positions in enumerate(found):
        assert len(positions) > 0
        level_of[positions] = depth
        for p, q in itertools.combinations(positions, 2):
            assert sequence[p] != sequence[q]
            assert not graph.has_edge(sequence[p], sequence[q])
    for p, q in itertools.combinations(range(len(sequence)), 2):
        if sequence[p] == sequence[q] or graph.has_edge(sequence[p], sequence[q]):
            assert level_of[p] < level_of[q]
    for q in range(len(sequence)):  # no one waits for nothing
        before = [
            level_of[p]
            for p in range(q)
            if sequence[p] == sequence[q] or graph.has_edge(sequence[p], sequence[q])
        ]
        assert level_of[q] == max(before, default=-1) + 1


def path_of_four() -> Incidence:
    return Incidence(4, np.array([0, 1, 2]), np.array([1, 2, 3]))


def test_levels_of_a_path_by_hand() -> None:
    made = plan(path_of_four(), np.array([1, 3, 0, 2]))
    assert [level.tolist() for level in np.split(made.order, made.cuts)] == [[0, 1], [2, 3]]
    made = plan(path_of_four(), np.array([0, 1, 2, 3]))  # each waits for the one before
    assert [level.tolist() for level in np.split(made.order, made.cuts)] == [[0], [1], [2], [3]]


def test_an_order_is_repeated_across_iterations() -> None:
    plans = iter(Activations(path_of_four(), [0, 1, 2, 3, 2, 1], 0))
    seen = [next(plans).sequence.tolist() for _ in range(4)]
    assert seen == [[0, 1, 2, 3], [2, 1, 0, 1], [2, 3, 2, 1], [0, 1, 2, 3]]


def test_without_an_order_every_iteration_is_a_permutation_of_the_seed_s() -> None:
    plans = iter(Activations(path_of_four(), None, 5))
    rng = np.random.default_rng(5)
    for _ in range(3):
        assert (next(plans).sequence == rng.permutation(4)).all()
