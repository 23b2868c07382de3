"""BLAS has one thread inside a run, and its own number after."""

import threadpoolctl

import pdmm
from builders.runs import tall
from pdmm.common.threads import Threads


def blas_threads() -> set[int]:
    """How many threads each BLAS has, of those that can have more than one."""
    libraries = [lib for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"]
    return {lib["num_threads"] for lib in libraries if lib["threading_layer"] != "disabled"}


def test_blas_has_one_thread_inside_and_its_own_number_after() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        inside: list[set[int]] = []

        def nested(r: int, x: object) -> None:
            inside.append(blas_threads())
            if r == 1:  # another run that begins and ends within this one changes nothing
                pdmm.solve(tall(), pdmm.PDMM(1.0), 1)

        pdmm.solve(tall(), pdmm.PDMM(1.0), 3, callback=nested)
        assert inside == [{1}] * 3
        assert blas_threads() == {2}


def test_runs_that_overlap_in_threads_restore_blas() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        first, second = Threads(1), Threads(1)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}
