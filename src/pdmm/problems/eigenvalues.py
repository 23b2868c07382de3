"""The ends of the spectrum of symmetric matrices that have no negative eigenvalue."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse

from pdmm.common.checks import PerClient
from pdmm.common.matrices import Matrix, dense, is_sparse
from pdmm.common.rounding import gamma
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads

Vector = npt.NDArray[np.float64]
Product = Callable[[Vector], Vector | None]

DENSE = 1000  # up to this size all eigenvalues cost no more than the two ends by Lanczos
SMALL = 128  # up to this size they cost no more than the largest alone
EPS = float(np.finfo(np.float64).eps)
STEPS = 300  # of Lanczos, before it is given up
GROUPS = 16  # of clients, whose parts of a sum are taken by different threads
CONVERGED = 1e-13  # relative error of an eigenvalue that is as good as rounding allows


def krylov(product: Product, size: int, steps: int) -> Iterator[tuple[list[float], list[float]]]:
    """The Lanczos process: after each of so many steps, the diagonal and the off-diagonal of V'HV.

    The last entry of the off-diagonal leads out of V: it is the residual's size. The process
    ends when there is nothing left to find, or when ``product`` returns None.
    """
    most = min(size, steps)
    V = np.empty((most, size))
    start = np.random.default_rng(0).standard_normal(size)
    V[0] = start / np.linalg.norm(start)
    diagonal: list[float] = []
    beside: list[float] = []
    for j in range(most):
        w = product(V[j])
        if w is None:
            return
        diagonal.append(float(V[j] @ w))
        for _ in range(2):  # once leaves what rounding made of it: V must stay orthogonal
            w = w - (V[: j + 1] @ w) @ V[: j + 1]
        beside.append(float(np.linalg.norm(w)))
        # Rounding leaves a little of w where nothing should be: no direction to go on in.
        finished = j + 1 == size or beside[-1] <= size * EPS * max(map(abs, diagonal + beside))
        if finished:
            beside[-1] = 0.0
        yield diagonal, beside
        if finished:
            return
        if j + 1 < most:
            V[j + 1] = w / beside[-1]


def largest(product: Product, size: int, tolerance: float = CONVERGED) -> tuple[float, float]:
    """The largest eigenvalue by Lanczos, and how much larger it may be."""
    value = error = 0.0
    for diagonal, beside in krylov(product, size, STEPS):
        k = len(diagonal)
        if k % 8 and beside[-1] > 0:
            continue
        if k == 1:
            return diagonal[0], 0.0
        values, vectors = linalg.eigh_tridiagonal(
            diagonal, beside[:-1], select="i", select_range=(k - 2, k - 1)
        )
        value = float(values[1])
        gap = float(values[1] - values[0])
        residual = beside[-1] * abs(float(vectors[-1, 1]))
        # An eigenvalue is within the residual; within its square over the gap, if that is less.
        error = residual * (residual / gap if residual < gap else 1.0)
        if error <= tolerance * abs(value):
            break
    return value, error


def ends(H: npt.NDArray[np.float64], dense: int = DENSE) -> tuple[Vector, Vector]:
    """The smallest and the largest eigenvalues (k,), (k,) of a stack of matrices (k, d, d).

    What cannot be told from 0 in float64 is 0.
    """
    d = H.shape[-1]
    if d <= dense:
        values = np.linalg.eigvalsh(H)
        low, high = values[:, 0], values[:, -1].clip(min=0)
    else:
        low, high = np.array([_ends_of_large(one) for one in H]).T
    return np.where(low <= d * EPS * high, 0.0, low), high


def _ends_of_large(H: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Lanczos on H for the largest eigenvalue, on its inverse for the smallest."""
    d = len(H)
    high, error = largest(lambda v: H @ v, d)
    if error <= CONVERGED * high:
        factor, failed = linalg.lapack.dpotrf(H)
        # No pivot is below the smallest eigenvalue.
        if failed or np.diagonal(factor).min() ** 2 <= d * EPS * high:
            return 0.0, high + error
        top, above = largest(lambda v: linalg.lapack.dpotrs(factor, v)[0], d)
        if above <= CONVERGED * top:
            return 1 / (top + above), high + error
    values = np.linalg.eigvalsh(H)
    return float(values[0]), float(values[-1])


def ends_of_rows(A: Matrix) -> tuple[float, float]:
    """The smallest and the largest eigenvalue of A'A."""
    n, d = A.shape
    if n >= d:
        low, high = ends(dense(A.T @ A)[None])
        return float(low[0]), float(high[0])
    if n <= SMALL:
        return 0.0, max(0.0, float(np.linalg.eigvalsh(dense(A @ A.T))[-1]))
    value, error = largest(lambda v: A @ (v @ A), n)
    return 0.0, value + error


def largest_of_sum(A: PerClient, weights: Vector, threads: Threads, team: Team = ALONE) -> float:
    """An upper bound, 0.1% too large, of the largest eigenvalue of sum_k w_k A_k'A_k.

    The sum is over the clients of all members of the team.
    """
    size = int(A[0].shape[1])

    def product(v: Vector) -> Vector:
        def part(group: range) -> Vector:
            Hv = np.zeros(size)
            for k in group:
                Hv += weights[k] * ((A[k] @ v) @ A[k])
            return Hv

        return np.asarray(team.total(lambda: sum(threads.map(part, _groups(len(A))))))

    value, error = largest(product, size, tolerance=1e-4)
    return _raised(value + error)


def _groups(m: int) -> list[range]:
    """Clients whose parts of a sum are added by one thread."""
    many = -(-m // GROUPS)
    return [range(k, min(m, k + many)) for k in range(0, m, many)]


def curvature(X: PerClient, weights: Vector, threads: Threads, team: Team = ALONE) -> float:
    """An upper bound, 0.1% too large, of the largest eigenvalue of sum_k w_k [X_k 1]'[X_k 1].

    The sum is over the clients of all members of the team.
    """
    size = X[0].shape[1] + 1
    groups = _groups(len(X))

    def gram(group: range) -> Vector:
        H = np.zeros((size, size))
        for k in group:
            R = _with_ones(X[k])
            H += weights[k] * dense(R.T @ R)
        return H

    if size <= SMALL:
        H = team.total(lambda: sum(threads.map(gram, groups)))
        return _raised(float(np.linalg.eigvalsh(H)[-1]))

    def product(v: Vector) -> Vector:
        narrow = v.astype(X[0].dtype)  # the data are read as they are

        def part(group: range) -> Vector:
            Hv = np.zeros(size)
            for k in group:
                r = X[k] @ narrow[:-1] + narrow[-1]
                Hv[:-1] += weights[k] * (r @ X[k])
                Hv[-1] += weights[k] * float(r.sum())
            return Hv

        return np.asarray(team.total(lambda: sum(threads.map(part, groups))))

    value, error = largest(product, size, tolerance=1e-4)
    return _raised(value + error)


def _with_ones(X: Matrix) -> Matrix:
    """[X 1], in float64."""
    ones = np.ones((X.shape[0], 1))
    if is_sparse(X):
        return sparse.hstack([X.astype(np.float64), ones], format="csr")
    return np.column_stack([X, ones])


def curvature_of_rows(X: Matrix) -> float:
    """The same for one X, divided by its number of rows."""
    n, p = int(X.shape[0]), int(X.shape[1])
    if min(n, p + 1) <= SMALL:
        R = _with_ones(X)
        smaller = R @ R.T if n <= p else R.T @ R
        return _raised(float(np.linalg.eigvalsh(dense(smaller))[-1])) / n

    def product(v: Vector) -> Vector:
        narrow = v.astype(X.dtype)
        if n <= p:  # [X 1][X 1]' has the same largest eigenvalue, and fewer rows
            return np.asarray(X @ (narrow @ X) + narrow.sum(), dtype=np.float64)
        r = X @ narrow[:-1] + narrow[-1]
        return np.append(r @ X, r.sum()).astype(np.float64, copy=False)

    value, error = largest(product, min(n, p + 1), tolerance=1e-4)
    return _raised(value + error) / n


def _raised(value: float) -> float:
    """A bound from an eigenvalue that Lanczos found from below, or that rounding moved."""
    return 1.001 * value


def proven_ends(
    H: npt.NDArray[np.float64], wrong: float = 0.0, dense: int = 1500
) -> tuple[float, float]:
    """A lower and an upper bound of the eigenvalues, as close as rounding allows.

    Args:
        H: what rounding has made of a matrix M without negative eigenvalues, whose bounds are
            wanted.
        wrong: how far H may be from M: |H - M|_jk <= wrong sqrt(H_jj H_kk).
        dense: up to this size all eigenvalues are computed.
    """
    d = len(H)
    low, high = (float(end[0]) for end in ends(H[None], dense))
    room = 4 * d * EPS * high
    least = _proven_least(H, low, room, wrong)
    # Lanczos finds the ends from inside, almost surely; Cholesky proves that they are the ends.
    if d > dense and not (_definite(-H, high + room) and least > 0.99 * low):
        values = np.linalg.eigvalsh(H)
        high = float(values[-1])
        least = _proven_least(H, float(values[0]), room, wrong)
    return least, (high + room) * (1 + d * wrong)


def _proven_least(H: npt.NDArray[np.float64], low: float, room: float, wrong: float) -> float:
    """A lower bound of the eigenvalues of M, where H has about ``low``; 0 if none can be proven.

    |H - M|_jk <= wrong s_j s_k, with s_j² = H_jj, so that M >= H - d wrong diag(s²). If Cholesky's
    method in floating point gets through a matrix B, then B + E >= 0 with an E that is as small:
    |E_jk| <= gamma(d + 1) s_j s_k. Both bounds suit columns of very different size.

    References:
        Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, Theorem 10.3.
    """
    d = len(H)
    shift = 1.01 * d * (wrong + gamma(d + 4)) * np.diagonal(H)
    if low <= 100 * room and d <= DENSE:
        low = _least_by_inverse(H - np.diag(shift))
    steps = [low - room, low - 8 * room, low - 64 * room]
    steps += [part * low for part in (1 - 1e-9, 0.999, 0.9, 0.5, 0.1, 0.01)]
    for candidate in sorted(steps, reverse=True):
        if candidate > 0 and _definite(H, -shift - candidate):
            return candidate
    return 0.0


def _least_by_inverse(H: npt.NDArray[np.float64]) -> float:
    """The smallest eigenvalue as that of the inverse, which a bad scaling does not blur; or 0."""
    factor, failed = linalg.lapack.dpotrf(H)
    if failed:
        return 0.0
    half = linalg.solve_triangular(factor, np.eye(len(H)), trans="T", check_finite=False)
    largest_of_inverse = float(np.linalg.norm(half, 2)) ** 2
    return 1 / largest_of_inverse if np.isfinite(largest_of_inverse) else 0.0


def _definite(H: npt.NDArray[np.float64], shift: Any) -> bool:
    """Whether H + shift, a number or a vector on the diagonal, is positive definite."""
    shifted = H.copy()
    shifted[np.diag_indices_from(shifted)] += shift
    return not linalg.lapack.dpotrf(shifted, overwrite_a=True)[1]
