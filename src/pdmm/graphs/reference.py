"""The optimum of a network by a direct solve, for the history's error."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.sparse.linalg import ArpackError, eigsh, splu

from pdmm.common.checks import ClientError
from pdmm.graphs.edges import Constrained, Indices
from pdmm.graphs.network import Network
from pdmm.graphs.nodes import AbsoluteGroup, Group, QuadraticGroup, SmoothGroup
from pdmm.problems.minimise import minimise_with

Vector = npt.NDArray[np.float64]
DENSE = 2000  # unknowns up to which a basis of what the constraints allow is computed
TOLERANCE = 1e-12  # of the direct solve of smooth functions


class Optimum(NamedTuple):
    """All x_i at the optimum, flat: the one, or from ``low`` to ``high`` in each component."""

    low: Vector
    high: Vector
    components: Indices | None = None
    """Where it is not unique: which entries must be equal."""

    def distance(self, X: Vector) -> Vector:
        """X - the nearest optimum, (s, entries)."""
        if self.components is None:
            return np.asarray(X - self.low)
        # Nodes of a component agree at an optimum: the nearest has their mean, if that is one.
        where, size = self.components, np.bincount(self.components)
        means = np.stack([np.bincount(where, x) for x in X]) / size
        return np.asarray(X - np.clip(means[:, where], self.low, self.high))

    @property
    def middle(self) -> Vector:
        """An optimum in the middle of all."""
        middle = np.zeros_like(self.low)
        known = np.isfinite(self.low)
        middle[known] = 0.5 * (self.low[known] + self.high[known])
        return middle


def direct(network: Network, groups: list[Group]) -> Optimum | None:
    """The optimum, if there is a direct way to it: None if not, or if there is no optimum."""
    if all(isinstance(group, QuadraticGroup) for group in groups):
        x = _consensus(network, groups) if network.consensus else _kkt(network, groups)
    elif all(
        isinstance(group, AbsoluteGroup) or (isinstance(group, QuadraticGroup) and group.zero)
        for group in groups
    ):
        return _medians(network, groups) if network.consensus else None
    elif all(_is_smooth(group) for group in groups):
        x = _smooth(network, groups)
    else:
        return None
    return None if x is None else Optimum(x, x)


def _is_smooth(group: Group) -> bool:
    return isinstance(group, QuadraticGroup) or (
        isinstance(group, SmoothGroup) and not group.with_prox
    )


def _quadratic_parts(group: QuadraticGroup) -> tuple[Vector, Vector]:
    return group.hessians(), group.form.g.astype(np.float64)


def _consensus(network: Network, groups: list[Group]) -> Vector | None:
    """Every component's minimiser of the sum of its functions."""
    d, parts = int(network.dimensions[0]), int(network.components.max()) + 1
    diagonal = all(isinstance(g, QuadraticGroup) and g.hessians().ndim == 2 for g in groups)
    H = np.zeros((parts, d) if diagonal else (parts, d, d))
    c = np.zeros((parts, d))
    for group in groups:
        assert isinstance(group, QuadraticGroup)
        h, g = _quadratic_parts(group)
        where = network.components[group.nodes]
        np.add.at(H, where, h if h.ndim == H.ndim else h[:, :, None] * np.eye(d))
        np.add.at(c, where, g)
    x = np.empty((parts, d))
    for k in range(parts):
        one = _solve(np.diag(H[k]) if diagonal else H[k], c[k])
        if one is None:
            return None
        x[k] = one
    return x[network.components].reshape(-1)


def _solve(H: Vector, c: Vector) -> Vector | None:
    """The solution of H x = c, None if it is not unique."""
    if len(c) == 1:
        return c / H[0] if H[0, 0] > 0 else None
    try:
        factor = linalg.cho_factor(H)
    except linalg.LinAlgError:
        return None
    x = linalg.cho_solve(factor, c)
    if not np.linalg.norm(H, 1) * np.abs(np.diag(factor[0])).min() ** -2 < 1e14:
        return None
    return np.asarray(x + linalg.cho_solve(factor, c - H @ x))


def _constraints(network: Network) -> Any:
    """The matrix whose kernel is what the constraints allow: a block row for every edge."""
    assert isinstance(network.edges, Constrained)
    C, half = network.edges.C.astype(np.float64), network.edges.half
    return (C[:half] - C[half:]).tocsr()


def _kkt(network: Network, groups: list[Group]) -> Vector | None:
    """Solve H x + A'y = c, A x = 0; A may have dependent rows.

    The zero block is replaced by -delta, which makes the matrix regular whatever A is; a few
    refinements take away what delta did.
    """
    A = _constraints(network)
    n, rows = A.shape[1], A.shape[0]
    H, c = _block_diagonal(network, groups)
    scale = max(float(np.abs(H.data).max(initial=0.0)), 1e-300)
    delta = 1e-9
    plain = sparse.block_array([[H, scale * A.T], [scale * A, None]], format="csc")
    shift = sparse.diags_array(np.concatenate([np.full(n, delta), np.full(rows, -delta)]) * scale)
    try:
        factor = splu((plain + shift).tocsc())
    except RuntimeError:
        return None
    right = np.concatenate([c, np.zeros(rows)])
    solution = np.zeros(n + rows)
    size = float(np.linalg.norm(right)) or 1.0
    before = None
    for _ in range(50):
        solution += factor.solve(right - plain @ solution)
        x = solution[:n]
        if before is not None and np.linalg.norm(x - before) <= 1e-15 * np.linalg.norm(x):
            break
        before = x.copy()
    left = np.linalg.norm(right - plain @ solution)
    if not left <= 1e-10 * size:
        return None
    return x if _unique(network, H, A) else None


def _unique(network: Network, H: Any, A: Any) -> bool:
    """Whether no direction is left free by functions and constraints."""
    scale = max(float(np.abs(H.data).max(initial=0.0)), 1e-300)
    M = (H / scale + A.T @ A).tocsc()
    if M.shape[0] <= DENSE:
        values = np.linalg.eigvalsh(M.toarray())
        return bool(values[0] > 1e-12 * values[-1])
    try:
        least = eigsh(M, k=1, sigma=0, return_eigenvectors=False)[0]
    except (RuntimeError, ArpackError):  # it is singular
        return False
    return bool(least > 1e-12 * abs(M).max())


def _block_diagonal(network: Network, groups: list[Group]) -> tuple[Any, Vector]:
    """All H_i on the diagonal of one sparse matrix, and all c_i."""
    entries, down, across = [], [], []
    c = np.zeros(int(network.dimensions.sum()))
    for group in groups:
        assert isinstance(group, QuadraticGroup)
        h, g = _quadratic_parts(group)
        index = network.entries(group.nodes, group.dimension)
        c[index] = g
        if h.ndim == 2:
            rows, columns = index, index
        else:
            rows, columns = np.broadcast_arrays(index[:, :, None], index[:, None, :])
        entries.append(h.ravel())
        down.append(rows.ravel())
        across.append(columns.ravel())
    coordinates = (np.concatenate(down), np.concatenate(across))
    H = sparse.csr_array((np.concatenate(entries), coordinates), shape=(len(c), len(c)))
    return H, c


def _medians(network: Network, groups: list[Group]) -> Optimum:
    """Medians of every component: from the lower to the upper one, if there are two."""
    d, n = int(network.dimensions[0]), len(network.nodes)
    low, high = np.full((n, d), -np.inf), np.full((n, d), np.inf)
    everyone, points = [], []
    for group in groups:
        if isinstance(group, AbsoluteGroup):
            everyone.append(group.nodes)
            points.append(group.a.astype(np.float64))
    where, a = network.components[np.concatenate(everyone)], np.concatenate(points)
    for k in np.unique(where):
        ordered = np.sort(a[where == k], axis=0)
        count, here = len(ordered), network.components == k
        low[here], high[here] = ordered[(count - 1) // 2], ordered[count // 2]
    entries = network.components[:, None].astype(np.intp) * d + np.arange(d)
    return Optimum(low.reshape(-1), high.reshape(-1), entries.reshape(-1))


def _smooth(network: Network, groups: list[Group]) -> Vector | None:
    """Minimise the sum over what the constraints allow, all functions in one place."""
    basis = _basis(network)
    if basis is None:
        return None
    spread, collect, size = basis
    places = [network.entries(g.nodes, g.dimension) for g in groups]

    def total(y: Vector) -> tuple[float, Vector]:
        x = spread(y)
        value, slope = 0.0, np.empty_like(x)
        for group, index in zip(groups, places, strict=True):
            own, gradient = _value_and_gradient(group, x[index])
            value += own
            slope[index] = gradient
        return value, collect(slope)

    start = np.zeros(size)
    try:
        least = float(np.linalg.norm(total(start)[1]))
        zeros = np.zeros((size, size)) if size <= DENSE else sparse.csr_array((size, size))
        found = minimise_with(total, zeros, start, start, TOLERANCE, least)
    except ClientError:
        return None
    good = found.error <= 1e-9 and np.isfinite(found.x).all()
    return spread(found.x) if good and _bends(total, found.x) else None


def _bends(total: Callable[[Vector], tuple[float, Vector]], y: Vector) -> bool:
    """Whether a sum bends upwards in all directions at its minimum, so that there is no other."""
    size = len(y)
    if size > 300:
        return False  # too many directions to try
    step = 1e-5 * (1 + float(np.linalg.norm(y)))
    try:
        slopes = [
            (total(y + step * e)[1] - total(y - step * e)[1]) / (2 * step) for e in np.eye(size)
        ]
    except ClientError:
        return False
    H = np.array(slopes)
    values = np.linalg.eigvalsh(0.5 * (H + H.T))
    return bool(values[0] > 1e-6 * values[-1])


def _value_and_gradient(group: Group, x: Vector) -> tuple[float, Vector]:
    if isinstance(group, QuadraticGroup):
        h, g = _quadratic_parts(group)
        Hx = h * x if h.ndim == 2 else np.matmul(h, x[..., None])[..., 0]
        return float((x * (0.5 * Hx - g)).sum()), Hx - g
    assert isinstance(group, SmoothGroup)
    both = [group.problem.at(slice(i, i + 1)).smooth(0)(p) for i, p in enumerate(x)]
    return float(sum(value for value, _ in both)), np.stack([g for _, g in both])


def _basis(
    network: Network,
) -> tuple[Callable[[Vector], Vector], Callable[[Vector], Vector], int] | None:
    """Ways from free variables y to all x_i, and back (transposed); how many y there are."""
    if network.consensus:
        d, parts = int(network.dimensions[0]), int(network.components.max()) + 1
        where: Indices = network.components.astype(np.intp)

        def collect(slope: Vector) -> Vector:
            sums = np.zeros((parts, d))
            np.add.at(sums, where, slope.reshape(-1, d))
            return sums.reshape(-1)

        return lambda y: y.reshape(parts, d)[where].reshape(-1), collect, parts * d
    A = _constraints(network)
    if A.shape[1] > DENSE:
        return None
    N = linalg.null_space(A.toarray())
    return (lambda y: N @ y), (lambda slope: N.T @ slope), N.shape[1]
