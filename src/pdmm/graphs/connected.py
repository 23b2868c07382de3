"""The slowest part of a large connected graph: by factors where they are sparse, or by Lanczos.

W = D^-1/2 A D^-1/2, where A has a 1 for every edge and D the degrees. Its eigenvalue 1 has a known
vector, and so has -1 in a graph with two colours. Of the rest, the one of largest size is wanted,
and what matters is how far from 1 it is: 5e-10 on a path of 100,000 nodes. Lanczos does not find
that by products with W. By solving with I - W and I + W instead, it is there after a dozen.
What is found is held against its residual; what has not converged is called a guess.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, splu

Vector = npt.NDArray[np.float64]
ACCURACY = 0.01  # of 1 - theta, by its residual
WORK = 5e9  # multiplications that factors may take, at least ...
WORK_PER_ENTRY = 2e4  # ... and for each entry of W
QUICK = 12  # restarts of Lanczos before factors are tried ...
PATIENT = 60  # ... and where they would be too large
FIRST = 2000  # nodes of the first part of a graph whose factors are tried


class Connected(NamedTuple):
    """A connected graph."""

    W: Any
    """D^-1/2 A D^-1/2, sparse."""
    constant: Vector
    """The eigenvector of 1, which is D^1/2 of all ones, normalised."""
    colours: Vector | None
    """1 and -1 such that neighbours differ, None if there are no such."""

    def residual(self, theta: float, v: Vector) -> float:
        """How far v is from an eigenvector of theta; an eigenvalue is as near as this."""
        return float(np.linalg.norm(self.W @ v - theta * v))

    @property
    def known(self) -> list[Vector]:
        """The eigenvectors of 1 and -1."""
        if self.colours is None:
            return [self.constant]
        return [self.constant, self.constant * self.colours]


class Part(NamedTuple):
    """An eigenvalue theta, its eigenvector, and whether its residual says that it is one."""

    gap: float
    """1 - |theta|."""
    vector: Vector
    sure: bool


def slowest_part(graph: Connected) -> Part:
    """The eigenvalue next to 1, in size.

    Graphs whose factors fill up are those where everybody is near, and there Lanczos is quick.
    """
    quick = _by_lanczos(graph, QUICK)
    if quick.sure:
        return quick
    return _by_factors(graph) or _by_lanczos(graph, PATIENT)


# --- by factors -----------------------------------------------------------------------------


def _by_factors(graph: Connected) -> Part | None:
    """From both ends of the spectrum; None if the factors would be too large."""
    if not _sparse_factors(graph.W):
        return None
    try:
        ends = [_next_to_one(graph)]
        if graph.colours is None:  # else the spectrum is symmetric
            ends.append(_next_to_minus_one(graph))
    except (RuntimeError, ArpackError):  # singular to rounding
        return None
    best = min(ends, key=lambda part: part.gap)
    return best if best.sure else None


def _next_to_one(graph: Connected) -> Part:
    """By solving with I - W, of which the node with most neighbours is taken out."""
    n = len(graph.constant)
    others = np.delete(np.arange(n), int(graph.constant.argmax()))
    L = sparse.eye_array(n, format="csr") - graph.W
    factor = _factors(L[others][:, others])

    def solve(right: Vector) -> Vector:
        y = np.zeros(n)
        y[others] = factor.solve(_without(right.ravel(), graph.constant)[others])
        return _without(y, graph.constant)

    v = _leading(solve, n)
    return _part(graph, v, float(v @ (L @ v)), 1)


def _next_to_minus_one(graph: Connected) -> Part:
    """By solving with I + W, which is regular where there are no two colours."""
    n = len(graph.constant)
    Q = sparse.eye_array(n, format="csr") + graph.W
    factor = _factors(Q)
    v = _leading(lambda right: np.asarray(factor.solve(right.ravel())), n)
    return _part(graph, v, float(v @ (Q @ v)), -1)


def _leading(product: Callable[[Vector], Vector], n: int) -> Vector:
    """The eigenvector of the largest eigenvalue."""
    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
    vectors = eigsh(operator, k=1, which="LA", ncv=min(n, 20), tol=1e-7, v0=_start(n))[1]
    return np.asarray(vectors[:, 0] / np.linalg.norm(vectors[:, 0]))


def _start(n: int) -> Vector:
    return np.random.default_rng(0).standard_normal(n)


def _part(graph: Connected, v: Vector, gap: float, sign: int) -> Part:
    """What was found, with theta = sign (1 - gap)."""
    return Part(min(gap, 1.0), v, graph.residual(sign * (1 - gap), v) <= ACCURACY * gap)


def _without(x: Vector, unit: Vector) -> Vector:
    return np.asarray(x - unit * (unit @ x))


def _sparse_factors(W: Any) -> bool:
    """Whether the factors of I - W and I + W are cheap, as parts of the graph that grow tell.

    Twice the nodes may take eight times the work. Nodes with one neighbour take none.
    """
    branching = np.flatnonzero(np.diff(W.indptr) > 1)
    if len(branching) == 0:
        return True
    inner = W[branching][:, branching]
    hub = int(np.diff(inner.indptr).argmax())
    order = sparse.csgraph.breadth_first_order(
        inner, hub, directed=False, return_predecessors=False
    )
    allowed = WORK + WORK_PER_ENTRY * W.nnz
    count = FIRST
    while count < len(order):
        some = order[:count]
        M = 2 * sparse.eye_array(count, format="csr") - inner[some][:, some]
        lengths = np.diff(_factors(M).L.indptr).astype(np.float64)
        if 8 * float(lengths @ lengths) > allowed:
            return False
        count *= 2
    return True


def _factors(M: Any) -> Any:
    """Of a symmetric matrix that needs no pivots."""
    return splu(
        M.tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


# --- by Lanczos -----------------------------------------------------------------------------


def _by_lanczos(graph: Connected, restarts: int) -> Part:
    """With the eigenvectors of 1 and -1 taken out; a guess, if it does not converge."""
    n = len(graph.constant)
    known = graph.known

    def product(x: Vector) -> Vector:
        y = np.asarray(graph.W @ x.ravel())
        for mode in known:
            y = _without(y, mode)
        return y

    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
    v = _start(n)
    for mode in known:
        v = _without(v, mode)
    v /= np.linalg.norm(v)
    if np.linalg.norm(product(v)) <= 1e-9:  # a star: Lanczos stops relative to theta, which is 0
        return Part(1.0, v, sure=True)
    theta = 0.0
    tolerance = 1.0
    try:
        while tolerance > ACCURACY * (1 - abs(theta)):
            tolerance = min(3e-4, 0.5 * ACCURACY * (1 - abs(theta)))
            values, vectors = eigsh(
                operator, k=1, ncv=min(n, 40), tol=tolerance, maxiter=restarts, v0=v
            )
            theta = float(values[0])
            v = np.asarray(vectors[:, 0])
    except ArpackError:
        about = graph.W.nnz / n**2  # that of random geometric graphs
        return Part(min(1 - abs(theta), about), v / np.linalg.norm(v), sure=False)
    gap = 1 - abs(theta)
    return Part(gap, v, graph.residual(theta, v) <= ACCURACY * gap)
