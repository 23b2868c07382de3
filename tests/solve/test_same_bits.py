"""The same bits on any number of threads, and every time."""

import numpy as np
import pytest

import pdmm
from builders.runs import METHODS, PROBLEMS, bits, rows_of


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_same_bits_on_any_number_of_threads_and_every_time(name: str) -> None:
    shared = PROBLEMS[name]()
    first: dict[str, dict[str, bytes]] = {}
    for key, method in METHODS.items():
        first[key] = bits(pdmm.solve(PROBLEMS[name](), method, rounds=3, threads=1))
        for threads in (2, 3):
            result = pdmm.solve(shared, method, rounds=3, threads=threads)
            assert bits(result) == first[key], (key, threads)
    # Long enough for an eigenbasis to pay, where there is one.
    long = pdmm.AGPDMM(0.001, 40)
    alone = bits(pdmm.solve(PROBLEMS[name](), long, rounds=5, threads=1))
    for threads in (1, 2, 3):
        assert bits(pdmm.solve(shared, long, rounds=5, threads=threads)) == alone, threads
    # The runs on this problem so far have left their forms behind.
    for key in reversed(METHODS):
        assert bits(pdmm.solve(shared, METHODS[key], rounds=3)) == first[key], key


def test_without_its_own_optimum_the_bits_are_the_same_too() -> None:
    for name in ("random", "ragged, wide", "stacked, float32"):
        runs = [
            pdmm.solve(PROBLEMS[name](), METHODS["GPDMM, mean"], 6, threads=t, optimum=False)
            for t in (1, 2, 3)
        ]
        assert bits(runs[0]) == bits(runs[1]) == bits(runs[2])


def test_blocks_of_many_clients_on_threads() -> None:
    A, b = rows_of([5] * 1000, 3)
    problem = pdmm.LeastSquares(np.stack(A), np.stack(b))
    runs = [pdmm.solve(problem, METHODS["AGPDMM"], 5, threads=t) for t in (1, 2, 3)]
    assert bits(runs[0]) == bits(runs[1]) == bits(runs[2])
