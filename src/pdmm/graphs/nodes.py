"""What the nodes do: minimise f_i(x) + rho/2 sum_j ‖B_{i|j} x - z_{j|i}‖², stacked.

With G_i = sum_j B_{i|j}'B_{i|j} and r_i = sum_j B_{i|j}'z_{j|i} this is f_i(x) + rho/2 x'G_i x
- rho r_i·x up to a constant. Functions of a kind form a group, whose factors are made once.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.optimize import lsq_linear

from pdmm.common.checks import ClientError
from pdmm.common.threads import Threads
from pdmm.graphs.edges import Indices
from pdmm.graphs.network import Network
from pdmm.problems.base import Block, Floats, Problem
from pdmm.problems.elementary import Absolute, Zero, shrink
from pdmm.problems.functions import Functions
from pdmm.problems.minimise import minimise_with
from pdmm.problems.quadratic import Diagonal, Gram, Quadratics, Spectral

Rows = slice | Indices
Vector = npt.NDArray[np.float64]
SINGULAR = 1e14  # condition number of a node's update from which on it has no solution


@contextmanager
def naming(node: str) -> Iterator[None]:
    """An error in a user's function names the node."""
    try:
        yield
    except ClientError as error:
        raise ClientError(f"{node}: {error}") from error


class Group(ABC):
    """Nodes whose functions are of a kind and have equally many variables.

    Args:
        nodes: their positions in the network.
        dimension: of x.
    """

    def __init__(self, nodes: Indices, dimension: int) -> None:
        self.nodes, self.dimension = nodes, dimension

    def prepare(self, network: Network, rho: float) -> None:
        """Make the factors for a run."""

    @abstractmethod
    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        """The updates of some of the nodes, from their r and their last x, (k, d) each."""

    @abstractmethod
    def values(self, X: Floats) -> Vector:
        """Sums of f_i over the group at several points, (s, k, d) -> (s,)."""

    def stiffness(self, network: Network) -> Vector:
        """G_i of the nodes: (k, 1), (k, d) or (k, d, d)."""
        return network.edges.stiffness(self.nodes, self.dimension)


class QuadraticGroup(Group):
    """Quadratics: the update is x = q_i + P_i r_i."""

    def __init__(self, nodes: Indices, form: Quadratics, zero: bool = False) -> None:
        super().__init__(nodes, form.g.shape[1])
        self.form, self.zero = form, zero

    def hessians(self) -> Vector:
        """The H_i in float64: diagonals (k, d), or matrices (k, d, d)."""
        if isinstance(self.form, Diagonal):
            return self.form.h.astype(np.float64)
        if isinstance(self.form, Gram):
            return self.form.H.astype(np.float64)
        assert isinstance(self.form, Spectral)
        W = self.form.W.astype(np.float64)
        return np.asarray((W.swapaxes(1, 2) * self.form.e.astype(np.float64)[:, None]) @ W)

    def prepare(self, network: Network, rho: float) -> None:
        form, dtype = self.form, network.dtype
        G = self.stiffness(network)
        self.P: Floats | None = None
        self.p: Floats | None = None
        g = form.g.astype(np.float64)
        if isinstance(form, Spectral) and G.shape[1:] == (1,) and (G > 0).all():
            # With a = r/G: x - a solves (H + rho G)(x - a) = g - H a, which is in the span of W.
            e, W = form.e.astype(np.float64), form.W.astype(np.float64)
            inverse = 1 / (e + rho * G)
            self.W, self.scale = W.astype(dtype), (1 / G).astype(dtype)
            self.shrinks = (e * inverse).astype(dtype)
            self.pulls = (np.matmul(W, g[..., None])[..., 0] * inverse).astype(dtype)
            return
        H = self.hessians()
        if H.ndim == 2 and G.ndim == 2:
            M = H + rho * G
            small = M.min(1) <= 0
            self._refuse(network, small)
            self.p = (rho / M).astype(dtype)
            self.q = (g / M).astype(dtype)
            return
        d = self.dimension
        M = _matrices(H, d) + rho * _matrices(G, d)
        inverse, bad = inverses(M)
        self._refuse(network, bad)
        self.P = (rho * inverse).astype(dtype)
        self.q = (inverse @ g[..., None])[..., 0].astype(dtype)

    def _refuse(self, network: Network, bad: npt.NDArray[np.bool_]) -> None:
        if bad.any():
            i = int(self.nodes[int(bad.argmax())])
            why = "its B matrices have a common kernel"
            if network.incidence.degree[i] == 0:
                why = "it is isolated"
            elif network.consensus:
                why = "its numbers are too far apart; try a larger rho"
            raise ValueError(
                f"{network.name(i)} has no unique update: its function is flat in a direction "
                f"that nothing else holds ({why})"
            )

    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        if self.p is not None:
            new = self.p[rows] * r
            new += self.q[rows]
            return np.asarray(new)
        if self.P is not None:
            new = np.matmul(self.P[rows], r[..., None])[..., 0]
            new += self.q[rows]
            return np.asarray(new)
        W, anchor = self.W[rows], r * self.scale[rows]
        inside = np.matmul(W, anchor[..., None])[..., 0]
        inside = self.pulls[rows] - self.shrinks[rows] * inside
        anchor += np.matmul(W.swapaxes(1, 2), inside[..., None])[..., 0]
        return np.asarray(anchor)

    def values(self, X: Floats) -> Vector:
        form, points = self.form, X.astype(np.float64, copy=False)
        total = float(form.c.sum()) - np.einsum("skd,kd->s", points, form.g)
        if isinstance(form, Diagonal):
            return np.asarray(total + 0.5 * np.einsum("skd,skd,kd->s", points, points, form.h))
        by_node = points.transpose(1, 2, 0)
        if isinstance(form, Spectral):
            inside = np.matmul(form.W, by_node)
            return np.asarray(total + 0.5 * np.einsum("krs,krs,kr->s", inside, inside, form.e))
        assert isinstance(form, Gram)
        return np.asarray(total + 0.5 * np.einsum("kds,kds->s", by_node, form.H @ by_node))


def _matrices(diagonals: Vector, d: int) -> Vector:
    """Matrices (k, d, d) from diagonals (k, 1) or (k, d); matrices as they are."""
    return diagonals if diagonals.ndim == 3 else diagonals[:, :, None] * np.eye(d)


def inverses(M: Vector) -> tuple[Vector, npt.NDArray[np.bool_]]:
    """Inverses of a stack of symmetric matrices, and which are too close to singular."""
    with np.errstate(all="ignore"):
        # Variables of very different size are no harder than others: scaled to a diagonal of 1.
        scale = 1 / np.sqrt(np.einsum("kii->ki", M))
        scaled = M * scale[:, :, None] * scale[:, None, :]
        good = np.isfinite(scaled).all((1, 2))
        scaled[~good] = np.eye(M.shape[1])
        try:
            inverse = np.linalg.inv(scaled)
        except np.linalg.LinAlgError:  # one of them is exactly singular: it is found by its size
            inverse = np.stack([_inverse(one) for one in scaled])
        inverse = 0.5 * (inverse + inverse.swapaxes(1, 2))
        condition = np.abs(scaled).sum(1).max(1) * np.abs(inverse).sum(1).max(1)
        inverse *= scale[:, :, None] * scale[:, None, :]
    return inverse, ~(good & (condition < SINGULAR))


def _inverse(M: Vector) -> Vector:
    try:
        return np.asarray(np.linalg.inv(M))
    except np.linalg.LinAlgError:
        return np.full_like(M, np.inf)


class AbsoluteGroup(Group):
    """Absolute values: the update is a shrinkage, where G_i is diagonal."""

    def __init__(self, nodes: Indices, a: Floats) -> None:
        super().__init__(nodes, a.shape[1])
        self.a = a

    def prepare(self, network: Network, rho: float) -> None:
        G = self.stiffness(network)
        self.rho, self.G = rho, G
        self.at = self.a.astype(network.dtype)
        if G.ndim == 2:
            with np.errstate(divide="ignore", over="ignore"):
                self.reach = (1 / (rho * G)).astype(network.dtype)  # inf where nothing holds x
                # Any number will do there: the update is a.
                self.scale = np.where(G > 0, 1 / G, 0).astype(network.dtype)
            return
        held = np.abs(G).max((1, 2)) > 0  # the update of the others is a
        _, bad = inverses(rho * G)
        bad &= held
        if bad.any():
            i = int(self.nodes[int(bad.argmax())])
            raise ValueError(
                f"{network.name(i)} has no unique update: its B matrices have a common kernel, and "
                "an absolute value bends nowhere"
            )
        self.roots = [
            _root_and_inverse(rho * G_i) if some else None
            for G_i, some in zip(G, held, strict=True)
        ]

    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        a = self.at[rows]
        if self.G.ndim == 2:
            return shrink(r * self.scale[rows], a, self.reach[rows])
        new = np.empty_like(x)
        for k, i in enumerate(np.arange(len(self.nodes))[rows]):
            root = self.roots[i]
            new[k] = a[k] if root is None else _shrink_along(root, self.rho * r[k], a[k])
        return new

    def values(self, X: Floats) -> Vector:
        return np.asarray(np.abs(X.astype(np.float64) - self.a).sum((1, 2)))


def _root_and_inverse(M: Vector) -> tuple[Vector, Vector]:
    root = np.asarray(np.linalg.cholesky(M))
    return root, np.asarray(linalg.solve_triangular(root, np.eye(len(M)), lower=True))


def _shrink_along(factors: tuple[Vector, Vector], right: Floats, a: Floats) -> Vector:
    """Argmin of ‖x - a‖_1 + 1/2 x'M x - right·x, M = root root', by its dual.

    With u in [-1, 1]^d for the slopes, x = M^-1 (right - u), and u is the nearest point of the
    box to right - M a in the norm of M^-1: least squares with bounds, solved exactly.
    """
    root, inverse = factors
    aim = inverse @ right - root.T @ a
    u = lsq_linear(inverse, aim, bounds=(-1, 1), method="bvls", tol=1e-15).x
    x = inverse.T @ (inverse @ (right - u))
    inside = np.abs(u) < 1 - 1e-9  # there the slope is free: x is at the kink
    return np.asarray(np.where(inside, a, x))


class SmoothGroup(Group):
    """Functions without a closed form: exact steps by a solver, or a user's prox, node by node."""

    def __init__(self, nodes: Indices, problem: Problem, clients: Indices) -> None:
        super().__init__(nodes, problem.dimension)
        self.problem, self.clients = problem, clients
        self.missed = (0.0, 0)  # the largest residual above the tolerance, and its node

    def prepare(self, network: Network, rho: float) -> None:
        self.rho, self.G, self.dtype = rho, self.stiffness(network), network.dtype
        self.name = network.name
        self.blocks = [self.problem.at(slice(i, i + 1)) for i in self.clients]
        self.missed = (0.0, 0)
        self.stiff = [self._multiple(i) for i in range(len(self.nodes))]
        self.first_slopes: dict[int, float] = {}

    @property
    def with_prox(self) -> bool:
        """Whether the user gave a prox: then a gradient may not be all there is to know."""
        return isinstance(self.problem, Functions) and "prox" in self.problem.functions

    def _multiple(self, i: int) -> float | None:
        """The s for which node i's G is s times the identity: there its prox is the update."""
        G = self.G[i]
        diagonal = np.diag(G) if G.ndim == 2 else G
        s = float(diagonal[0])
        off = np.abs(G - np.diag(diagonal)).max() if G.ndim == 2 else 0.0
        if max(off, float(np.abs(diagonal - s).max())) <= 1e-12 * s:
            return s if s > 0 or self.with_prox else None
        if self.with_prox:
            raise ValueError(
                f"{self.name(int(self.nodes[i]))} has a function with a prox, which is for "
                "multiples of the identity, but its B matrices do not add up to one: the sum of "
                f"B'B is {np.array2string(G, precision=3)}"
            )
        return None

    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        new = np.empty_like(x)
        chosen = np.arange(len(self.nodes))[rows]
        for k, (i, right) in enumerate(zip(chosen, r, strict=True)):
            with naming(self.name(int(self.nodes[i]))):
                new[k] = self._one(int(i), right, x[k])
        return new

    def _one(self, i: int, right: Floats, start: Floats) -> Floats:
        block, stiff = self.blocks[i], self.stiff[i]
        if stiff is not None:
            # Where nothing holds x, steps of the proximal point method lead to the minimum.
            anchor, rho = (right / stiff, self.rho * stiff) if stiff else (start, self.rho)
            x = block.prox(anchor[None].astype(self.dtype), rho, start)
            self._watch(i, block.tally.missed)
            return np.asarray(x[0])
        f, G = block.smooth(0), self.G[i]
        if i not in self.first_slopes:
            self.first_slopes[i] = float(np.linalg.norm(f(start.astype(np.float64))[1]))
        solution = minimise_with(
            f,
            self.rho * (G if G.ndim == 2 else np.diag(np.broadcast_to(G, (self.dimension,)))),
            self.rho * right.astype(np.float64),
            start,
            Block.tolerance,
            least=self.first_slopes[i],
        )
        if solution.missed:
            self._watch(i, solution.error)
        return solution.x

    def _watch(self, i: int, residual: float) -> None:
        """Remember the worst update that missed its tolerance."""
        self.missed = max(self.missed, (residual, int(self.nodes[i])))

    def values(self, X: Floats) -> Vector:
        totals = np.zeros(len(X))
        for s, points in enumerate(X):
            for i, (block, point) in enumerate(zip(self.blocks, points, strict=True)):
                with naming(self.name(int(self.nodes[i]))):
                    totals[s] += float(block.value(point)[0])
        return totals

    def gradients(self, rows: Rows, x: Floats, cursor: npt.NDArray[np.int64]) -> Floats:
        """Gradients of some of the nodes, (k, d)."""
        if not isinstance(self.problem, Functions):
            return self.problem.at(self.clients[rows], cursor[rows]).gradient(x)
        slopes = np.empty_like(x)
        for k, i in enumerate(np.arange(len(self.nodes))[rows]):
            with naming(self.name(int(self.nodes[i]))):
                slopes[k] = self.blocks[i].gradient(x[k])[0]
        return slopes


class GradientGroup(Group):
    """K gradient steps a node instead of its exact update, as GPDMM takes them.

    The steps start at the node's own last iterate; what is sent, and what the dual is made
    of, is the mean of the K iterates (Alg. 1).

    Args:
        group: the same nodes with exact updates.
        steps: K.
        step_size: eta of all nodes, or None for 1/L_i of each.
    """

    def __init__(self, group: Group, steps: int, step_size: float | None) -> None:
        super().__init__(group.nodes, group.dimension)
        self.group, self.count, self.step_size = group, steps, step_size

    def prepare(self, network: Network, rho: float) -> None:
        dtype = network.dtype
        G = self.stiffness(network)
        largest = np.linalg.eigvalsh(G)[:, -1:] if G.ndim == 3 else G.max(1, keepdims=True)
        if isinstance(self.group, SmoothGroup):
            self.group.prepare(network, rho)  # for its values
            L = self._estimates()
        else:
            L = self._largest()
        eta = (
            1 / np.maximum(L, 1e-300) if self.step_size is None else np.full(len(L), self.step_size)
        )
        self.step = (1 / (1 / eta[:, None] + rho * largest)).astype(dtype)
        self.G, self.rho, self.dtype = (rho * G).astype(dtype), rho, dtype
        self.last: Floats | None = None
        self.cursor = np.zeros(len(self.nodes), dtype=np.int64)

    def _largest(self) -> Vector:
        assert isinstance(self.group, QuadraticGroup)
        H = self.group.hessians()
        return np.asarray(H.max(1) if H.ndim == 2 else np.linalg.eigvalsh(H)[:, -1])

    def _estimates(self) -> Vector:
        assert isinstance(self.group, SmoothGroup)
        if self.step_size is not None:
            return np.ones(len(self.nodes))
        return np.asarray(self.group.problem.smoothness().clients[self.group.clients])

    def start(self, x: Floats) -> None:
        """Begin at x0."""
        self.last = x.copy()

    def _gradient(self, rows: Rows, x: Floats) -> Floats:
        if isinstance(self.group, QuadraticGroup):
            return self.group.form.at(rows).gradient(x)
        assert isinstance(self.group, SmoothGroup)
        return self.group.gradients(rows, x, self.cursor)

    def solve(self, rows: Rows, r: Floats, x: Floats) -> Floats:
        assert self.last is not None
        x = self.last[rows].copy()
        total = np.zeros_like(x)
        G, step = self.G[rows], self.step[rows]
        right = self.rho * r
        for _ in range(self.count):
            pull = np.matmul(G, x[..., None])[..., 0] if G.ndim == 3 else G * x
            x = x - step * (self._gradient(rows, x) + pull - right)  # Alg. 1, line 7
            total += x
            self.cursor[rows] += 1
        self.last[rows] = x
        return np.asarray(total * (1 / self.count))

    def values(self, X: Floats) -> Vector:
        return self.group.values(X)


def groups(network: Network, threads: Threads) -> list[Group]:
    """The nodes in groups with exact updates."""
    found: list[Group] = []
    quadratic: dict[Any, list[tuple[Indices, Quadratics]]] = {}
    absolute: dict[int, list[tuple[Indices, Floats]]] = {}
    first = 0
    for problem in network.problems:
        own = np.arange(first, first + problem.clients)
        first += problem.clients
        form = problem.quadratics(threads)
        if form is not None:
            form = _plain(form)
            rank = form.W.shape[1] if isinstance(form, Spectral) else 0
            kind = (type(form), form.g.shape[1], rank, isinstance(problem, Zero))
            quadratic.setdefault(kind, []).append((own, form))
        elif isinstance(problem, Absolute):
            absolute.setdefault(problem.dimension, []).append((own, problem.a))
        else:
            found.append(SmoothGroup(own, problem, np.arange(problem.clients)))
    for kind, parts in quadratic.items():
        nodes = _joined(n for n, _ in parts)
        found.append(QuadraticGroup(nodes, _merged([f for _, f in parts]), zero=kind[-1]))
    found.extend(
        AbsoluteGroup(_joined(n for n, _ in pieces), _joined(a for _, a in pieces))
        for pieces in absolute.values()
    )
    return found


def inexact(group: Group, steps: int, step_size: float | None) -> Group:
    """The group with K gradient steps, if its functions have gradients worth following."""
    if isinstance(group, QuadraticGroup):
        return group if group.zero else GradientGroup(group, steps, step_size)
    if isinstance(group, SmoothGroup):
        return group if group.with_prox else GradientGroup(group, steps, step_size)
    return group


def _plain(form: Quadratics) -> Quadratics:
    """Numbers rather than matrices of one entry."""
    if isinstance(form, Gram) and form.H.shape[1] == 1:
        return Diagonal(form.H[:, :, 0], form.g, form.c)
    return form


def _joined(parts: Any) -> Any:
    listed = list(parts)
    return listed[0] if len(listed) == 1 else np.concatenate(listed)


def _merged(forms: list[Quadratics]) -> Quadratics:
    """Quadratics of one form as one."""
    if len(forms) == 1:
        return forms[0]
    kind: Any = type(forms[0])
    names = {Diagonal: ("h",), Gram: ("H",), Spectral: ("W", "e")}[kind]
    merged: Quadratics = kind(
        *(_joined(getattr(form, name) for form in forms) for name in (*names, "g", "c"))
    )
    return merged
