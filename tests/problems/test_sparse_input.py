"""Sparse matrices give the answers of dense ones, and are not made dense where that is a waste."""

from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse

import pdmm
from builders.ranks import on_ranks
from builders.samples import DTYPES, labelled
from pdmm.common.threads import Threads
from pdmm.problems.quadratic import Gram, SparseRows

Array = npt.NDArray[Any]
FORMATS = [
    f"{name}_{kind}"
    for name in ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")
    for kind in ("array", "matrix")
]
SHAPES = {  # clients, samples, features, share of entries that are not 0
    "tall": (3, 40, 6, 0.5),
    "square": (3, 20, 20, 0.1),
    "tall with few entries": (3, 60, 20, 0.05),
    "wide": (3, 5, 30, 0.3),
}
METHODS: list[pdmm.Method | None] = [
    None,
    pdmm.PDMM(rho=2.0),
    pdmm.AGPDMM(local_steps=3),
    pdmm.Scaffold(),
]


def thin(matrix: Array, share: float, seed: int = 0) -> Array:
    """The matrix with most of its entries replaced by 0."""
    kept = np.random.default_rng(seed).random(matrix.shape) < share
    return np.where(kept, matrix, 0).astype(matrix.dtype)


def data(shape: str, dtype: Any = np.float64) -> tuple[list[Array], list[Array]]:
    m, n, d, share = SHAPES[shape]
    rng = np.random.default_rng(5)
    A = [thin(rng.standard_normal((n, d)).astype(dtype), share, i) for i in range(m)]
    return A, [(a @ np.ones(d) + rng.standard_normal(n)).astype(dtype) for a in A]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_least_squares_of_sparse_and_dense_data(shape: str, dtype: Any, method: Any) -> None:
    A, b = data(shape, dtype)
    plain = pdmm.LeastSquares(A, b)
    problem = pdmm.LeastSquares([sparse.csr_array(a) for a in A], b)
    assert repr(problem) == repr(plain)
    tight = 1e-11 if dtype is np.float64 else 1e-3
    for which in ("smoothness", "strong_convexity"):
        found, expected = (getattr(p, which)() for p in (problem, plain))
        np.testing.assert_allclose(found.clients, expected.clients, rtol=1e-9, atol=1e-12)
        assert found.overall == pytest.approx(expected.overall, rel=1e-9, abs=1e-12)
        assert (found.kind, found.overall_kind) == (expected.kind, expected.overall_kind)
    found, expected = (pdmm.solve(p, method, 30) for p in (problem, plain))
    np.testing.assert_allclose(found.x, expected.x, atol=tight * np.abs(expected.x).max())
    assert found.x.dtype == dtype
    assert found.rounds == expected.rounds
    assert found.optimum == pytest.approx(expected.optimum, rel=1e-9)
    objective = expected.history["objective"]
    np.testing.assert_allclose(
        found.history["objective"], objective, rtol=1e-5, atol=1e-6 * objective[0]
    )
    assert problem.objective(found.x) == pytest.approx(plain.objective(found.x), rel=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_certificates_of_sparse_and_dense_data(shape: str, dtype: Any) -> None:
    A, b = data(shape, dtype)
    rows = [sparse.csr_array(a) for a in A]
    x = np.linspace(-1, 1, A[0].shape[1]).astype(dtype)
    y = [(part > 0).astype(int) for part in b]
    pairs: list[tuple[pdmm.Problem, pdmm.Problem]] = [
        (pdmm.LeastSquares(rows, b), pdmm.LeastSquares(A, b)),
        (pdmm.SoftmaxRegression(rows, y, 2), pdmm.SoftmaxRegression(A, y, 2)),
    ]
    for found, plain in pairs:
        at = np.resize(x, found.dimension)
        certificate, expected = (
            pdmm.certify(p, at, regulariser=pdmm.SquaredL2(0.1)) for p in (found, plain)
        )
        assert certificate.gap == pytest.approx(expected.gap, rel=1e-9)
        assert certificate.distance == pytest.approx(expected.distance, rel=1e-9)


def test_entries_that_are_given_twice_are_added() -> None:
    twice = sparse.csr_array(([1.0, 2.0, 4.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    kept = twice.data.copy()
    problem = pdmm.LeastSquares([twice], [np.array([3.0, 4.0])])
    np.testing.assert_allclose(pdmm.solve(problem).x, [1, 1], atol=1e-9)
    assert problem.smoothness().overall == pytest.approx(16)
    np.testing.assert_array_equal(twice.data, kept)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_means_the_same(format: str) -> None:
    A, b = data("tall")
    same = [getattr(sparse, format)(a) for a in A]
    x = np.arange(6.0)
    found = pdmm.LeastSquares(same, b).client(1).gradient(x)
    np.testing.assert_allclose(found, A[1].T @ (A[1] @ x - b[1]), atol=1e-12)
    y = [(part > 0).astype(int) for part in b]
    softmax = pdmm.SoftmaxRegression(same, y, 2)
    plain = pdmm.SoftmaxRegression(A, y, 2)
    x = np.linspace(-1, 1, 14)
    np.testing.assert_allclose(
        softmax.client(2).gradient(x), plain.client(2).gradient(x), atol=1e-15
    )
    np.testing.assert_array_equal(softmax.predict(x, same[0]), plain.predict(x, A[0]))
    assert softmax.accuracy(x, same, y) == softmax.accuracy(x) == plain.accuracy(x)
    assert softmax.accuracy(x, same[0], y[0]) == plain.accuracy(x, A[0], y[0])


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("features", [4, 150])  # more than 128 have no matrix of their own
def test_softmax_of_sparse_and_dense_data(features: int, dtype: Any, method: Any) -> None:
    X, y = labelled([30, 20, 40], features, dtype=dtype)
    X = [thin(rows, 0.2) for rows in X]
    plain = pdmm.SoftmaxRegression(X, y, 4, l2=0.1)
    problem = pdmm.SoftmaxRegression([sparse.csr_array(rows) for rows in X], y, 4, l2=0.1)
    for p in (problem.smoothness(), problem.strong_convexity()):
        assert p.kind == "bound"
    np.testing.assert_allclose(problem.smoothness().clients, plain.smoothness().clients, rtol=1e-3)
    assert problem.smoothness().overall == pytest.approx(plain.smoothness().overall, rel=1e-3)
    # The bounds of L may differ in their last digits: the same steps for both.
    if method is not None and not method.exact:
        method = pdmm.AGPDMM(0.3, 3, rho=1.0)
    found, expected = (pdmm.solve(p, method, 15) for p in (problem, plain))
    assert found.x.dtype == dtype
    tight = 1e-6 if dtype is np.float64 else 1e-3
    np.testing.assert_allclose(found.x, expected.x, atol=tight)


@pytest.mark.parametrize("batch_size", [1, 7])
def test_batches_of_sparse_rows(batch_size: int) -> None:
    X, y = labelled([30, 20, 40])
    X = [thin(rows, 0.4) for rows in X]
    both = [
        pdmm.SoftmaxRegression(rows, y, 4, batch_size=batch_size)
        for rows in (X, [sparse.csr_matrix(rows) for rows in X])
    ]
    x, same = (pdmm.solve(problem, pdmm.FedAvg(0.3, 5), 6).x for problem in both)
    np.testing.assert_allclose(x, same, atol=1e-14)


def test_some_clients_may_be_sparse() -> None:
    A, b = data("wide")
    mixed: list[Any] = [A[0], sparse.csc_array(A[1]), A[2]]
    for method in (pdmm.PDMM(rho=1.0), pdmm.AGPDMM()):
        found, expected = (pdmm.solve(pdmm.LeastSquares(p, b), method, 20).x for p in (mixed, A))
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_network_of_sparse_data() -> None:
    A, b = data("square")
    graph = nx.path_graph(3)
    found, expected = (
        pdmm.solve_network(pdmm.Network(graph, pdmm.LeastSquares(p, b)), iterations=20, rho=5.0).x
        for p in ([sparse.csr_array(a) for a in A], A)
    )
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), atol=1e-10)


def large(features: int = 4_000) -> tuple[list[Any], list[Array]]:
    """Two clients with more features than a dense matrix of sparse data may have."""
    rng = np.random.default_rng(0)
    A = []
    for _ in range(2):
        columns = rng.integers(0, features, (200, 5))
        values = rng.standard_normal(1000)
        rows = np.arange(0, 1001, 5)
        A.append(sparse.csr_array((values, columns.ravel(), rows), shape=(200, features)))
    return A, [a @ np.ones(features) + 0.1 * rng.standard_normal(200) for a in A]


def test_large_sparse_data_are_not_made_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    A, b = large()
    problem = pdmm.LeastSquares(A, b)

    def refused(self: Any, *_: Any, **__: Any) -> Any:
        assert np.prod(self.shape) < 1e5, f"a matrix of shape {self.shape} is made dense"
        return original(self)

    original = sparse.csr_array.toarray
    monkeypatch.setattr(sparse.csr_array, "toarray", refused)
    optimum = np.zeros(problem.dimension)
    for method in (None, pdmm.PDMM(rho=1.0), pdmm.AGPDMM(), pdmm.GradientDescent()):
        result = pdmm.solve(problem, method, 8, optimum=optimum)
        assert result.history["objective"][-1] < 0.5 * result.history["objective"][0]
        gaps = result.history["gap"]
        assert gaps[0] == pytest.approx(0.0, abs=1e-9)
    L = problem.smoothness()
    assert L.clients == pytest.approx([sparse.linalg.norm(a.T @ a, 2) for a in A], rel=1e-9)
    assert L.overall_kind == "bound"
    stacked = sparse.vstack(A)
    top = float(sparse.linalg.norm(stacked.T @ stacked, 2))
    assert top <= L.overall <= 1.002 * top
    assert problem.strong_convexity().overall == 0
    with pytest.raises(ValueError, match=r"2 dense matrices of 200 x 4000, 0\.0128 GB"):
        problem.factorise()


def test_the_gap_of_large_sparse_data_does_not_cancel() -> None:
    A, b = large()
    problem = pdmm.LeastSquares(A, b)
    best = pdmm.solve(problem, pdmm.AGPDMM(), 60).x
    result = pdmm.solve(problem, pdmm.AGPDMM(), 5, optimum=best)
    expected = problem.objective(result.x) - problem.objective(best)
    assert result.history["gap"][-1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_sparse_data_on_ranks() -> None:
    A, b = large()
    one = pdmm.solve(pdmm.LeastSquares(A, b), pdmm.AGPDMM(), 10)

    def part(mpi: pdmm.engines.MPI) -> pdmm.Result:
        mine = slice(mpi.rank, mpi.rank + 1)
        return pdmm.solve(pdmm.LeastSquares(A[mine], b[mine]), pdmm.AGPDMM(), 10, engine=mpi)

    for result in on_ranks(2, part):
        np.testing.assert_allclose(result.x, one.x, atol=1e-9)
    rows, targets = data("square")
    expected = pdmm.solve(pdmm.LeastSquares(rows, targets), pdmm.PDMM(2.0), 10)

    def mixed(mpi: pdmm.engines.MPI) -> pdmm.Result:
        """Sparse data on one rank, dense ones on the others."""
        own: Any = rows[mpi.rank] if mpi.rank else sparse.csr_array(rows[0])
        problem = pdmm.LeastSquares([own], [targets[mpi.rank]])
        return pdmm.solve(problem, pdmm.PDMM(2.0), 10, engine=mpi)

    for result in on_ranks(3, mixed):
        np.testing.assert_allclose(result.x, expected.x, atol=1e-9)
        assert result.optimum == pytest.approx(expected.optimum, rel=1e-9)


def test_the_form_of_sparse_data_suits_their_entries() -> None:
    with Threads(1) as threads:
        for shape, form in (("tall", Gram), ("square", SparseRows), ("wide", SparseRows)):
            A, b = data(shape)
            problem = pdmm.LeastSquares([sparse.csr_array(a) for a in A], b)
            assert type(problem.prepare(1, 1, False, threads)) is form, shape


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (sparse.csr_array([[1.0, 0], [0, np.nan]]), r"A\[1\] \(client 1\) has nan .* \(1, 1\)"),
        (sparse.csc_matrix([[0, np.inf], [0, 0]]), r"A\[1\] \(client 1\) has inf .* \(0, 1\)"),
        (sparse.csr_array(np.eye(3)), r"A\[1\] \(client 1\) has 3 columns, but A\[0\].* 2"),
        (sparse.csr_array(np.eye(2, dtype=complex)), r"A\[1\] \(client 1\) must hold float"),
        (sparse.csr_array(np.ones((3, 2))), r"A\[1\] \(client 1\) has 3 rows"),
        (sparse.csr_array((2, 0)), r"A\[1\] \(client 1\) is empty"),
        (sparse.coo_array(np.ones(2)), r"A\[1\] \(client 1\) must have 2 dim"),
        (sparse.csr_array(np.eye(2, dtype=np.float32)), r"A\[1\] \(client 1\) is float32"),
    ],
)
def test_sparse_data_are_checked(spoilt: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.LeastSquares([sparse.csr_array(np.eye(2)), spoilt], [np.ones(2)] * 2)


def test_whole_numbers_and_no_entries() -> None:
    counts = sparse.csr_array(np.array([[0, 3], [1, 0]]))
    problem = pdmm.LeastSquares([counts, sparse.csr_array((2, 2))], [np.ones(2)] * 2)
    assert problem.dtype == np.float64
    np.testing.assert_allclose(pdmm.solve(problem).x, [1, 1 / 3], atol=1e-9)


def test_what_else_is_sparse_is_refused() -> None:
    column = sparse.csr_array(np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"b\[0\] \(client 0\) is a sparse matrix.*toarray"):
        pdmm.LeastSquares([np.eye(2)], [column])
    with pytest.raises(ValueError, match="weights is a sparse matrix"):
        pdmm.solve(pdmm.LeastSquares([np.eye(2)], [np.ones(2)]), weights=column)
