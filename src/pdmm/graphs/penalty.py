"""rho="auto": the penalty by the functions' curvature and the graph's spectrum.

Where all f_i are h/2 ‖x - a_i‖² and all nodes have k neighbours, PDMM is linear, and the part of
the error along an eigenvector of the graph with the eigenvalue theta (of A/k) obeys

    (1 + y) e(t + 1) - 2 y theta e(t) + (y - 1) e(t - 1) = 0,      y = rho k/h,

as follows from eq. x_update and lambda_update_2nd by taking out lambda. Its roots tell how fast
that part dies. It is fastest at y = 1/sqrt(1 - theta²), where the two roots meet; what all nodes
have in common (theta = 1) dies by |y - 1|/(y + 1). On other networks this is a model: h and k
become weighted means, h ranges from mu to L, and rho is the one whose slowest part is fastest.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from pdmm.common.checks import ClientError
from pdmm.graphs.edges import Constrained
from pdmm.graphs.network import Network
from pdmm.graphs.nodes import AbsoluteGroup, Group, QuadraticGroup, SmoothGroup

Vector = npt.NDArray[np.float64]
DENSE = 600  # unknowns up to which the whole spectrum is computed
ONE = 1 - 1e-9  # eigenvalues above this belong to what the constraints leave free
FLATTEST = 1e-4  # mu/L below this does not lower rho any further


def choose_rho(network: Network, groups: list[Group]) -> tuple[float, tuple[str, ...]]:
    """rho, and why."""
    if network.incidence.count == 0:
        return 1.0, ("rho 1: without edges it does not matter",)
    theta, mode = slowest(network)
    degree = stiffness(network)
    try:
        common = _curvature(groups, np.full(len(degree), 1 / degree.sum()))
        slow = _curvature(groups, mode**2 / degree)
    except ClientError:
        return _by_scale(network, groups, float(degree.mean()))
    if common[1] <= 0:
        return 1.0, ("rho 1: the functions have no curvature to judge by",)
    flat = FLATTEST * common[1]
    low, high = max(common[0], flat), common[1]
    slow_low, slow_high = max(slow[0], flat), max(slow[1], flat)

    def slowest_rate(log_rho: float) -> float:
        rho = math.exp(log_rho)
        return max(
            *(abs(rho - h) / (rho + h) for h in (low, high)),
            *(mode_rate(rho / h, theta) for h in (slow_low, slow_high)),
        )

    grid = np.linspace(math.log(low) - 3, math.log(high) + 12, 400)
    best = grid[int(np.argmin([slowest_rate(t) for t in grid]))]
    step = grid[1] - grid[0]
    found = minimize_scalar(slowest_rate, bounds=(best - step, best + step), method="bounded")
    rho = float(math.exp(found.x))
    near = f"{theta:.4g}" if theta < 0.9995 else f"1 - {1 - theta:.2g}"
    if isinstance(network.edges, Constrained) and network.edges.x_shape[0] > DENSE:
        near += " (assumed)"
    return rho, (
        f"rho {rho:.3g}: curvature {low:.3g} .. {high:.3g} a neighbour, slowest eigenvalue of "
        f"the graph {near}",
    )


def mode_rate(y: float, theta: float) -> float:
    """The larger root, in size, of (1 + y) s² - 2 y theta s + (y - 1) = 0."""
    inside = 1 - y * y * (1 - theta * theta)
    if inside < 0:
        return math.sqrt((y - 1) / (y + 1))
    return (y * abs(theta) + math.sqrt(inside)) / (1 + y)


def stiffness(network: Network) -> Vector:
    """Every node's degree; with B matrices, the mean eigenvalue of the sum of B'B."""
    edges = network.edges
    if not isinstance(edges, Constrained):
        return np.maximum(network.incidence.degree, 1).astype(np.float64)
    squares = np.zeros(len(network.nodes))
    for row, B in enumerate(edges.matrices):
        i = network.incidence.holder[row]
        squares[i] += 1.0 if B is None else float((B * B).sum()) / B.shape[1]
    return np.maximum(squares, 1e-12 * max(float(squares.max()), 1e-300))


def _curvature(groups: list[Group], weights: Vector) -> tuple[float, float]:
    """Bounds (mu, L) of the weighted sum of the functions; exact if all are quadratic."""
    quadratic = [group for group in groups if isinstance(group, QuadraticGroup)]
    if len({group.dimension for group in groups}) == 1 and len(quadratic) == len(groups):
        parts = [np.tensordot(weights[group.nodes], group.hessians(), 1) for group in quadratic]
        if all(part.ndim == 1 for part in parts):
            total = sum(parts)
            return float(np.min(total)), float(np.max(total))
        H = sum(np.diag(part) if part.ndim == 1 else part for part in parts)
        values = np.linalg.eigvalsh(np.asarray(H))
        return max(float(values[0]), 0.0), float(values[-1])
    low = high = 0.0
    for group in groups:
        w = weights[group.nodes]
        if isinstance(group, QuadraticGroup):
            h = group.hessians()
            ends = h if h.ndim == 2 else np.linalg.eigvalsh(h)
            least, most = ends.min(1), ends.max(1)
        elif isinstance(group, SmoothGroup):
            problem = group.problem
            least = problem.strong_convexity().clients[group.clients]
            most = problem.smoothness().clients[group.clients]
        else:
            raise ClientError("a function without curvature")
        low, high = low + float(w @ least), high + float(w @ most)
    return low, high


def _by_scale(
    network: Network, groups: list[Group], degree: float
) -> tuple[float, tuple[str, ...]]:
    """The rho where slopes jump: so that an update moves x by about the distance it has to go."""
    points = [g.a.astype(np.float64).ravel() for g in groups if isinstance(g, AbsoluteGroup)]
    spread = float(np.std(np.concatenate(points))) if points else 0.0
    rho = 1 / (degree * spread) if spread > 0 else 1.0
    return rho, (f"rho {rho:.3g}: by the spread {spread:.3g} of the a_i, there is no curvature",)


def slowest(network: Network) -> tuple[float, Vector]:
    """The eigenvalue of the graph next to 1 (in size), and a weight a node of its eigenvector."""
    if isinstance(network.edges, Constrained):
        return _slowest_constrained(network.edges, network)
    degree = np.maximum(network.incidence.degree, 1).astype(np.float64)
    n = len(network.nodes)
    root = 1 / np.sqrt(degree)
    u, v = network.incidence.holder, network.incidence.sender
    W = sparse.csr_array((root[u] * root[v], (u, v)), shape=(n, n))
    if n <= DENSE:
        values, vectors = np.linalg.eigh(W.toarray())
        left = np.abs(values) < ONE
        if not left.any():
            return 0.0, np.full(n, 1 / math.sqrt(n))
        k = int(np.flatnonzero(left)[np.abs(values[left]).argmax()])
        return float(abs(values[k])), np.asarray(vectors[:, k])

    known = _known_modes(network, degree)

    def product(x: Vector) -> Vector:
        flat = x.ravel()
        y = W @ flat
        for labels, mode in known:  # take out what is known
            along = np.bincount(labels, mode * y)
            y = y - mode * along[labels]
        return np.asarray(y)

    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
    vectors = np.random.default_rng(0).standard_normal((n, 1))
    theta, tolerance = 0.0, 2.0
    try:
        while tolerance > 1 - theta:  # 1 - theta is what matters: find it, not only theta
            tolerance = min(1e-3, 0.5 * (1 - theta))
            values, vectors = eigsh(
                operator, k=1, ncv=40, tol=tolerance, maxiter=100, v0=vectors[:, 0]
            )
            theta = min(float(abs(values[0])), ONE)
    except ArpackNoConvergence:
        theta = max(theta, 1 - float(np.mean(degree)) / n)  # about that of random geometric graphs
    return theta, np.asarray(vectors[:, 0])


def _known_modes(network: Network, degree: Vector) -> list[tuple[npt.NDArray[np.int32], Vector]]:
    """Eigenvectors of the eigenvalues 1 and -1, per component, as (labels, entries)."""
    labels = network.components
    size = np.sqrt(np.bincount(labels, degree))
    mode = np.sqrt(degree) / size[labels]
    return [(labels, mode), (labels, mode * _two_colours(network))]


def _two_colours(network: Network) -> Vector:
    """+1 and -1 such that neighbours differ, 0 in components that do not allow it.

    Every node is taken twice, and an edge of i and j links one i with the other j: a component
    falls apart in two if and only if it has two colours.
    """
    n, u, v = len(network.nodes), network.incidence.holder, network.incidence.sender
    twice = sparse.coo_array((np.ones(len(u), np.int8), (u, v + n)), shape=(2 * n, 2 * n))
    labels = sparse.csgraph.connected_components(twice, directed=False)[1]
    return np.asarray(np.sign(labels[n:] - labels[:n]), dtype=np.float64)


def _slowest_constrained(edges: Constrained, network: Network) -> tuple[float, Vector]:
    n = edges.x_shape[0]
    if n > DENSE:
        return 0.95, np.full(len(network.nodes), 1 / math.sqrt(len(network.nodes)))
    C = edges.C.toarray().astype(np.float64)
    swapped = np.concatenate([C[edges.half :], C[: edges.half]])
    values, vectors = np.linalg.eigh(C.T @ C)
    good = values > 1e-12 * values[-1]
    root = vectors[:, good] / np.sqrt(values[good])
    theta, modes = np.linalg.eigh(root.T @ (C.T @ swapped) @ root)
    left = np.abs(theta) < ONE
    if not left.any():
        return 0.0, np.full(len(network.nodes), 1 / math.sqrt(len(network.nodes)))
    k = int(np.flatnonzero(left)[np.abs(theta[left]).argmax()])
    along = vectors[:, good] @ modes[:, k]
    owner = np.repeat(np.arange(len(network.nodes)), network.dimensions)
    return float(abs(theta[k])), np.sqrt(np.bincount(owner, along**2))
