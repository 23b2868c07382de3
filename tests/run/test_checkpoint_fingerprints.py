"""A run goes on only with the clients that it had: every one of them, in its place."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.checkpoints import bytes_of
from builders.ranks import on_ranks
from builders.sites import FakeSites
from pdmm.engines.clients import Terms

M, N, D = 5, 8, 3
ANOTHER = "problem is not the one of the checkpoint"
Data = list[Any]


def rows(seed: int = 0) -> Data:
    """For each client a table of features, numbers and labels, one line for each sample."""
    rng = np.random.default_rng(seed)
    tables = [rng.standard_normal((N, D + 2)) + i for i in range(M)]
    for table in tables:
        table[:, -1] = rng.integers(0, 2, N)
    return tables


def least_squares(data: Data, dtype: Any = np.float64) -> pdmm.Problem:
    A = [table[:, :D].astype(dtype) for table in data]
    return pdmm.LeastSquares(A, [table[:, D].astype(dtype) for table in data])


def softmax(data: Data, batch: int | None = None, dtype: Any = np.float64) -> pdmm.Problem:
    X = [table[:, :D].astype(dtype) for table in data]
    y = [table[:, -1].astype(int) for table in data]
    return pdmm.SoftmaxRegression(X, y, classes=2, l2=0.1, batch_size=batch)


def functions(data: Data) -> pdmm.Problem:
    def value(x: Any, A: Any, b: Any) -> float:
        return 0.5 * float(np.sum((A @ x - b) ** 2))

    def gradient(x: Any, A: Any, b: Any) -> Any:
        return A.T @ (A @ x - b)

    parts = [{"A": table[:, :D], "b": table[:, D]} for table in data]
    return pdmm.Functions(
        [partial(value, **part) for part in parts], [partial(gradient, **part) for part in parts], D
    )


def quadratic(data: Data) -> pdmm.Problem:
    return pdmm.Quadratic(2.0, np.array([table[:, :D].sum(0) for table in data]))


def absolute(data: Data) -> pdmm.Problem:
    return pdmm.Absolute(np.array([table[:, :D].sum(0) for table in data]))


PROBLEMS: dict[str, Callable[[Data], pdmm.Problem]] = {
    "least squares": least_squares,
    "least squares, float32": partial(least_squares, dtype=np.float32),
    "softmax": softmax,
    "softmax, float32": partial(softmax, dtype=np.float32),
    "batches": partial(softmax, batch=3),
    "batches, float32": partial(softmax, batch=3, dtype=np.float32),
    "functions": functions,
    "quadratic": quadratic,
    "absolute": absolute,
}


def reversed_clients(data: Data) -> Data:
    return data[::-1]


def two_clients_swapped(data: Data) -> Data:
    return [data[0], data[1], data[3], data[2], data[4]]


def two_rows_exchanged(data: Data) -> Data:
    """Between two clients, which keep as many as they had."""
    changed = [table.copy() for table in data]
    changed[1][2], changed[4][5] = data[4][5], data[1][2]
    return changed


def a_row_moved(data: Data) -> Data:
    changed = list(data)
    changed[0] = data[0][:-1]
    changed[3] = np.concatenate([data[3], data[0][-1:]])
    return changed


def a_number_changed(data: Data) -> Data:
    changed = [table.copy() for table in data]
    changed[4][7, 0] += 0.01
    return changed


def rows_reversed(data: Data) -> Data:
    return [table[::-1] for table in data]


def two_rows_swapped(data: Data) -> Data:
    """Of the last client, which are in two batches."""
    changed = [table.copy() for table in data]
    changed[4][[2, 5]] = data[4][[5, 2]]
    return changed


CHANGES = (reversed_clients, two_clients_swapped, two_rows_exchanged, a_row_moved, a_number_changed)
ORDERS = (rows_reversed, two_rows_swapped)


def begun(path: Path, problem: Any, **given: Any) -> pdmm.Result:
    method = pdmm.AGPDMM(step_size=0.002, local_steps=2, rho=3.0)
    if isinstance(problem, pdmm.Absolute):
        method = pdmm.PDMM(rho=1.0, relaxation=0.9)  # type: ignore[assignment]
    stop: Callable[[int, Any], bool] = lambda r, x: r == 4  # noqa: E731
    return pdmm.solve(problem, method, 9, checkpoint=path, callback=stop, **given)


def refused(path: Path, problem: Any, **given: Any) -> str:
    before = bytes_of(path.parent)
    with pytest.raises(ValueError, match=ANOTHER) as caught:
        pdmm.resume(path, problem, **given)
    assert bytes_of(path.parent) == before
    return str(caught.value)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", PROBLEMS)
def test_other_clients_or_another_order_of_them_are_refused(
    kind: str, change: Callable[[Data], Data], place: Path
) -> None:
    begun(place, PROBLEMS[kind](rows()))
    words = refused(place, PROBLEMS[kind](change(rows())))
    if change is a_number_changed:
        assert "at a random point client 4 gives" in words
    assert pdmm.resume(place, PROBLEMS[kind](rows())).rounds == 9


@pytest.mark.parametrize("change", ORDERS)
@pytest.mark.parametrize("kind", ["batches", "batches, float32"])
def test_another_order_of_rows_is_refused_under_mini_batches(
    kind: str, change: Callable[[Data], Data], place: Path
) -> None:
    begun(place, PROBLEMS[kind](rows()))
    refused(place, PROBLEMS[kind](change(rows())))


@pytest.mark.parametrize("change", ORDERS)
@pytest.mark.parametrize("kind", ["least squares", "softmax", "functions"])
def test_the_order_of_rows_does_not_matter_elsewhere(
    kind: str, change: Callable[[Data], Data], place: Path
) -> None:
    whole = pdmm.solve(PROBLEMS[kind](rows()), pdmm.AGPDMM(0.002, 2, rho=3.0), 9)
    begun(place, PROBLEMS[kind](rows()))
    found = pdmm.resume(place, PROBLEMS[kind](change(rows())))
    np.testing.assert_allclose(found.x, whole.x, rtol=1e-9)


def test_last_bits_may_differ(place: Path) -> None:
    """Data that were computed on another machine are the same data."""
    begun(place, least_squares(rows()))
    changed = [np.nextafter(table, np.inf) for table in rows()]
    assert pdmm.resume(place, least_squares(changed)).rounds == 9


def test_forms_of_one_problem_are_alike(place: Path) -> None:
    """A longer run may work in the eigenbasis, where the shorter one did not."""
    for k, dtype in enumerate((np.float64, np.float32)):
        path = place.with_name(str(k))
        problem = pdmm.LeastSquares.random(2, samples=2000, features=300, dtype=dtype)
        pdmm.solve(problem, pdmm.AGPDMM(1e-4, 2), 3, checkpoint=path)
        again = pdmm.LeastSquares.random(2, samples=2000, features=300, dtype=dtype).factorise()
        assert pdmm.resume(path, again, rounds=5).rounds == 5


def test_a_function_that_has_no_value_at_the_random_point(place: Path) -> None:
    """It is recognised near the start, where it must have one."""

    def entropy(scales: Sequence[float]) -> pdmm.Problem:
        def value(x: Any, c: float) -> float:
            if (x <= 0).any():
                raise ValueError("outside of its domain")
            return float(np.sum(x * np.log(x) + c * (x - 3) ** 2))

        def gradient(x: Any, c: float) -> Any:
            return np.log(x) + 1 + 2 * c * (x - 3)

        return pdmm.Functions(
            [partial(value, c=c) for c in scales], [partial(gradient, c=c) for c in scales], 4
        )

    begun(place, entropy([1.0, 2.0, 3.0]), x0=np.full(4, 2.0))
    refused(place, entropy([1.0, 3.0, 2.0]))
    assert pdmm.resume(place, entropy([1.0, 2.0, 3.0])).rounds == 9


# --- on ranks and at sites: nobody sees the data of others --------------------------------------


def test_ranks_see_the_order_of_all_clients(place: Path) -> None:
    data = rows()

    def of(change: Callable[[Data], Data], batch: int = 3) -> Any:
        def go_on(mpi: pdmm.engines.MPI) -> pdmm.Result:
            mine = mpi.range(M)
            return pdmm.resume(
                place, softmax(change(data)[mine.start : mine.stop], batch), engine=mpi
            )

        return go_on

    on_ranks(2, lambda mpi: begun(place, softmax(data[slice(*_ends(mpi))], 3), engine=mpi))
    before = bytes_of(place.parent)
    for change in (*CHANGES, *ORDERS):
        for ranks in (2, 3):
            with pytest.raises(Exception, match=ANOTHER):
                on_ranks(ranks, of(change))
        refused(place, softmax(change(data), 3))
    with pytest.raises(Exception, match=ANOTHER):  # nor is another size of batches taken
        on_ranks(2, of(list, batch=4))
    assert bytes_of(place.parent) == before
    assert on_ranks(3, of(list))[0].rounds == 9


def _ends(mpi: pdmm.engines.MPI) -> tuple[int, int]:
    mine = mpi.range(M)
    return mine.start, mine.stop


SHARES = {"ana": slice(0, 3), "ben": slice(3, 5)}


def at_sites(data: Data, **given: Any) -> pdmm.engines.Sites:
    sites = FakeSites(lambda share: softmax(data[share], 3), SHARES)
    return pdmm.engines.Sites(sites, timeout=1.0, patience=5.0, **given)


@pytest.mark.parametrize("absent", ["wait", "skip"])
def test_sites_see_the_order_of_their_clients_and_rows(absent: str, place: Path) -> None:
    begun(place, at_sites(rows(), absent=absent))
    for change in (*CHANGES, *ORDERS):
        words = refused(place, at_sites(change(rows()), absent=absent))
        assert "at a random point site " in words
    assert pdmm.resume(place, at_sites(rows(), absent=absent)).rounds == 9


def test_a_site_tells_no_more_than_one_number() -> None:
    sites = FakeSites(lambda share: softmax(rows()[share], 3), SHARES)
    pdmm.engines.Sites(sites).open(Terms(np.zeros(2 * (D + 1)), np.ones(5), 1, None))
    answer = sites.sites["ana"].answer("fingerprint", {})
    assert list(answer) == ["value"]
    assert isinstance(answer["value"], float)


# --- clients that are made when they are needed -------------------------------------------------


def lazy(order: Sequence[int], calls: list[int] | None = None) -> pdmm.Lazy:
    data = rows() + rows(1)

    def make(i: int) -> pdmm.Problem:
        if calls is not None:
            calls.append(i)
        return softmax([data[order[i]]], 3)

    return pdmm.Lazy(2 * M, make, keep=2)


def test_a_lazy_client_that_took_part_must_be_the_same_when_it_is_made_again(place: Path) -> None:
    order = list(range(2 * M))
    some = [[1, 2], [2, 3], [3, 4], [1, 4], [5, 6], [2, 5], [7, 8], [1, 3], [2, 4]]
    begun(place, lazy(order), participation=some)
    swapped = [0, 1, 3, 2, *order[4:]]
    with pytest.raises(pdmm.ClientError, match=rf"{ANOTHER}: at a random point make_client\(2\)"):
        pdmm.resume(place, lazy(swapped))
    refused(place, lazy(order[::-1]))  # of which the first client is another, too
    never_met = [*order[:9], 0]
    assert pdmm.resume(place, lazy(never_met)).rounds == 9


def test_a_lazy_client_is_compared_once_and_none_is_made_for_it(place: Path) -> None:
    order = list(range(2 * M))
    some = [[1, 2], [2, 3], [3, 4], [1, 4], [5, 6], [2, 5], [7, 8], [1, 3], [2, 4]]
    plain: list[int] = []
    pdmm.solve(lazy(order, plain), pdmm.AGPDMM(0.002, 2, rho=3.0), 9, participation=some)
    kept: list[int] = []
    problem = lazy(order, kept)
    begun(place, problem, participation=some)
    pdmm.resume(place, problem)
    assert [i for i in kept if i] == [i for i in plain if i]


def test_lazy_clients_of_ranks_are_seen_too(place: Path) -> None:
    some = [[1, 7], [2, 8], [3, 9], [1, 7], [2, 8], [3, 9], [1, 7], [2, 8], [3, 9]]
    data = rows() + rows(1)

    def of(order: Sequence[int], mpi: pdmm.engines.MPI) -> pdmm.Problem:
        mine = mpi.range(2 * M)
        return pdmm.Lazy(len(mine), lambda i: softmax([data[order[mine[i]]]], 3))

    order = list(range(2 * M))
    on_ranks(2, lambda mpi: begun(place, of(order, mpi), participation=some, engine=mpi))
    swapped = [*order[:7], 8, 7, 9]
    with pytest.raises(Exception, match=ANOTHER):
        on_ranks(2, lambda mpi: pdmm.resume(place, of(swapped, mpi), engine=mpi))
    with pytest.raises(pdmm.ClientError, match=rf"{ANOTHER}: at a random point make_client\(8\)"):
        pdmm.resume(place, lazy(swapped))
    assert pdmm.resume(place, lazy(order)).rounds == 9


def test_a_run_without_a_checkpoint_compares_nothing(place: Path) -> None:
    """What a Lazy problem was in an earlier run does not bind it."""
    order = list(range(2 * M))
    problem = lazy(order)
    begun(place, problem, participation=[[1, 2]])
    order[1] = 9
    given: dict[str, Any] = {"rounds": 3, "participation": [[3, 4], [1, 2]]}
    assert pdmm.solve(problem, pdmm.AGPDMM(0.002, 2, rho=3.0), **given).rounds == 3
