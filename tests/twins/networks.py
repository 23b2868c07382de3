"""Naive twins of PDMM on a graph: dicts of x_i and lam_{i|j}, one node at a time.

Slow and plain, so that they can be checked against SPEC.md section 2 (eq. x_update and
lambda_update_2nd) by reading. A constraint B_{i|j} x_i = B_{j|i} x_j is ``B[i, j]``, an
identity where nothing else was given.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Node = Hashable
Update = Callable[[Matrix, Vector], Vector]
Lost = Callable[[Node, Node], bool]


def solve(M: Matrix, v: Vector) -> Vector:
    return np.asarray(np.linalg.solve(M, v), dtype=np.float64)


@dataclass
class Function:
    """A node's function, which answers questions about itself."""

    d: int
    update: Update
    """update(M, v): argmin f(x) + 1/2 x'M x - v·x."""
    value: Callable[[Vector], float]
    gradient: Callable[[Vector], Vector] | None = None
    H: Matrix | None = None
    c: Vector | None = None


def quadratic(H: Any, c: Any) -> Function:
    """1/2 x'Hx - c·x; H a matrix, a diagonal or a number."""
    right = np.atleast_1d(np.asarray(c, dtype=np.float64))
    given = np.asarray(H, dtype=np.float64)
    d = len(right)
    full = given if given.ndim == 2 else np.diag(np.broadcast_to(given, (d,)))
    return Function(
        d,
        lambda M, v: solve(full + M, right + v),
        lambda x: float(x @ full @ x / 2 - right @ x),
        lambda x: full @ x - right,
        full,
        right,
    )


def zero(d: int) -> Function:
    return quadratic(np.zeros(d), np.zeros(d))


def absolute(a: Any) -> Function:
    """The sum of |x_k - a_k|: its update by trying which entries are at a kink, below, above."""
    centre = np.atleast_1d(np.asarray(a, dtype=np.float64))
    d = len(centre)

    def objective(x: Vector, M: Matrix, v: Vector) -> float:
        return float(np.abs(x - centre).sum() + x @ M @ x / 2 - v @ x)

    def diagonal(m: Vector, v: Vector) -> Vector:
        x = centre.copy()
        for k in range(d):
            for sign in (-1.0, 1.0):
                if sign * ((v[k] - sign) / m[k] - centre[k]) > 0:
                    x[k] = (v[k] - sign) / m[k]
        return x

    def update(M: Matrix, v: Vector) -> Vector:
        if not (M - np.diag(np.diag(M))).any():
            return diagonal(np.diag(M), v)
        candidates = []
        for signs in product((-1.0, 0.0, 1.0), repeat=d):
            s = np.array(signs)
            free = s != 0
            x = centre.copy()
            if free.any():
                right = (v - s - M @ np.where(free, 0, centre))[free]
                x[free] = solve(M[np.ix_(free, free)], right)
            candidates.append(x)
        return min(candidates, key=lambda x: objective(x, M, v))

    return Function(d, update, lambda x: float(np.abs(x - centre).sum()))


def smooth(
    d: int,
    parts: Callable[[Vector], tuple[float, Vector, Matrix]],
) -> Function:
    """A function from its value, gradient and Hessian: its update by damped Newton steps."""

    def update(M: Matrix, v: Vector) -> Vector:
        x = np.zeros(d)
        for _ in range(200):
            value, slope, hessian = parts(x)
            slope, here = slope + M @ x - v, value + float(x @ M @ x / 2 - v @ x)
            step = solve(hessian + M, slope)
            t = 1.0
            while t > 1e-3:
                y = x - t * step
                if parts(y)[0] + float(y @ M @ y / 2 - v @ y) <= here:
                    break
                t /= 2
            x = x - t * step
            if np.abs(step).max() <= 1e-15 * (1 + np.abs(x).max()):
                break
        return x

    return Function(d, update, lambda x: parts(x)[0], lambda x: parts(x)[1])


@dataclass
class Graph:
    """Nodes, neighbours, functions, and a matrix for each end of every edge."""

    nodes: list[Node]
    edges: list[tuple[Node, Node]]
    functions: dict[Node, Function]
    given: dict[tuple[Node, Node], Matrix] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.neighbours: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        self.B: dict[tuple[Node, Node], Matrix] = {}
        for i, j in self.edges:
            self.neighbours[i].append(j)
            self.neighbours[j].append(i)
            for ends in ((i, j), (j, i)):
                self.B[ends] = self.given.get(ends, np.eye(self.functions[ends[0]].d))

    def zeros(self) -> dict[Node, Vector]:
        return {node: np.zeros(self.functions[node].d) for node in self.nodes}

    def constraint_matrix(self) -> Matrix:
        """A block row B_{i|j} x_i - B_{j|i} x_j for every edge."""
        first, total = {}, 0
        for node in self.nodes:
            first[node] = total
            total += self.functions[node].d
        blocks = []
        for i, j in self.edges:
            block = np.zeros((len(self.B[i, j]), total))
            block[:, first[i] : first[i] + self.functions[i].d] = self.B[i, j]
            block[:, first[j] : first[j] + self.functions[j].d] = -self.B[j, i]
            blocks.append(block)
        return np.vstack(blocks) if blocks else np.zeros((0, total))

    def optimum(self) -> Vector:
        """All x_i of quadratics at the optimum, one after the other: a dense KKT solve."""
        A = self.constraint_matrix()
        n, rows = A.shape[1], A.shape[0]
        H, c, at = np.zeros((n, n)), np.zeros(n), 0
        for node in self.nodes:
            f = self.functions[node]
            assert f.H is not None
            assert f.c is not None
            H[at : at + f.d, at : at + f.d] = f.H
            c[at : at + f.d] = f.c
            at += f.d
        kkt = np.block([[H, A.T], [A, np.zeros((rows, rows))]])
        solution = np.linalg.lstsq(kkt, np.concatenate([c, np.zeros(rows)]), rcond=1e-13)[0]
        return np.asarray(solution[:n], dtype=np.float64)

    def gaps(self, x: dict[Node, Vector]) -> list[Vector]:
        """B_{i|j} x_i - B_{j|i} x_j, edge by edge."""
        return [self.B[i, j] @ x[i] - self.B[j, i] @ x[j] for i, j in self.edges]


class Pdmm:
    """eq. x_update and lambda_update_2nd as they are written: without relaxation and loss."""

    def __init__(self, graph: Graph, rho: float, x0: dict[Node, Vector] | None = None) -> None:
        self.graph, self.rho = graph, rho
        self.x = graph.zeros() if x0 is None else dict(x0)
        self.lam = {ends: np.zeros(len(B)) for ends, B in graph.B.items()}

    def _moved(self, i: Node) -> tuple[Vector, dict[tuple[Node, Node], Vector]]:
        B, rho, x, lam = self.graph.B, self.rho, self.x, self.lam
        f = self.graph.functions[i]
        M, v = np.zeros((f.d, f.d)), np.zeros(f.d)
        for j in self.graph.neighbours[i]:
            M += rho * B[i, j].T @ B[i, j]
            v += B[i, j].T @ (rho * B[j, i] @ x[j] - lam[j, i])
        new = f.update(M, v)
        duals = {
            (i, j): rho * (B[j, i] @ x[j] - B[i, j] @ new) - lam[j, i]
            for j in self.graph.neighbours[i]
        }
        return new, duals

    def synchronous(self) -> None:
        moved = {i: self._moved(i) for i in self.graph.nodes}
        for i, (x, duals) in moved.items():
            self.x[i] = x
            self.lam.update(duals)

    def asynchronous(self, order: Iterable[Node]) -> None:
        for i in order:
            self.x[i], duals = self._moved(i)
            self.lam.update(duals)


def never(sender: Node, receiver: Node) -> bool:
    return False


class Averaged:
    """The same by what nodes hear: ``heard[i, j]`` is what i last made of j's messages.

    Node i sends j the message B_{i|j} x_i - lam_{i|j}/rho; j moves what it has part of the
    way there, unless the message is lost.
    """

    def __init__(
        self,
        graph: Graph,
        rho: float,
        relaxation: float = 1.0,
        x0: dict[Node, Vector] | None = None,
    ) -> None:
        self.graph, self.rho, self.relaxation = graph, rho, relaxation
        self.x = graph.zeros() if x0 is None else dict(x0)
        self.lam = {ends: np.zeros(len(B)) for ends, B in graph.B.items()}
        self.heard = {(i, j): graph.B[j, i] @ self.x[j] for i, j in graph.B}

    def find(self, i: Node, M: Matrix, v: Vector) -> Vector:
        return self.graph.functions[i].update(M, v)

    def _move(self, i: Node) -> dict[tuple[Node, Node], Vector]:
        """Node i's update; its messages by (sender, receiver)."""
        B, rho = self.graph.B, self.rho
        d = self.graph.functions[i].d
        M, v = np.zeros((d, d)), np.zeros(d)
        for j in self.graph.neighbours[i]:
            M += rho * B[i, j].T @ B[i, j]
            v += rho * B[i, j].T @ self.heard[i, j]
        self.x[i] = self.find(i, M, v)
        messages = {}
        for j in self.graph.neighbours[i]:
            self.lam[i, j] = rho * (self.heard[i, j] - B[i, j] @ self.x[i])
            messages[i, j] = B[i, j] @ self.x[i] - self.lam[i, j] / rho
        return messages

    def _deliver(self, messages: dict[tuple[Node, Node], Vector], lost: Lost) -> None:
        for (i, j), message in messages.items():
            if not lost(i, j):
                old = self.heard[j, i]
                self.heard[j, i] = old + self.relaxation * (message - old)

    def synchronous(self, lost: Lost = never) -> None:
        messages: dict[tuple[Node, Node], Vector] = {}
        for i in self.graph.nodes:
            messages.update(self._move(i))
        self._deliver(messages, lost)

    def asynchronous(self, order: Iterable[Node], lost: Sequence[Lost] | None = None) -> None:
        for k, i in enumerate(order):
            self._deliver(self._move(i), never if lost is None else lost[k])


class Inexact(Averaged):
    """The same with K gradient steps for an update, as Alg. 1 takes them."""

    def __init__(
        self,
        graph: Graph,
        rho: float,
        K: int,
        eta: dict[Node, float],
        x0: dict[Node, Vector] | None = None,
    ) -> None:
        super().__init__(graph, rho, 1.0, x0)
        self.K, self.eta = K, eta
        self.own = {node: x.copy() for node, x in self.x.items()}

    def find(self, i: Node, M: Matrix, v: Vector) -> Vector:
        if i not in self.eta:
            return super().find(i, M, v)
        gradient = self.graph.functions[i].gradient
        assert gradient is not None
        x, iterates = self.own[i], []
        stiff = float(np.linalg.eigvalsh(M)[-1])
        for _ in range(self.K):
            x = x - (gradient(x) + M @ x - v) / (1 / self.eta[i] + stiff)  # Alg. 1, line 7
            iterates.append(x)
        self.own[i] = x
        return np.asarray(sum(iterates, 0 * x) / self.K)


class Admm:
    """Consensus ADMM over the edges: B_{i|j} x_i = y_e at both ends, with a multiplier each."""

    def __init__(self, graph: Graph, rho: float, x0: dict[Node, Vector]) -> None:
        self.graph, self.rho, self.x = graph, rho, dict(x0)
        B = graph.B
        self.y: dict[tuple[Node, Node], Vector] = {}
        self.u: dict[tuple[Node, Node], Vector] = {}
        for i, j in graph.edges:  # so that y_e - u/rho is what the other end starts from
            self.y[i, j] = self.y[j, i] = (B[i, j] @ x0[i] + B[j, i] @ x0[j]) / 2
            self.u[i, j] = rho * (B[i, j] @ x0[i] - B[j, i] @ x0[j]) / 2
            self.u[j, i] = -self.u[i, j]

    def iterate(self) -> None:
        B, rho = self.graph.B, self.rho
        for i in self.graph.nodes:
            d = self.graph.functions[i].d
            M, v = np.zeros((d, d)), np.zeros(d)
            for j in self.graph.neighbours[i]:
                M += rho * B[i, j].T @ B[i, j]
                v += B[i, j].T @ (rho * self.y[i, j] - self.u[i, j])
            self.x[i] = self.graph.functions[i].update(M, v)
        for i, j in self.graph.edges:
            ours, theirs = B[i, j] @ self.x[i], B[j, i] @ self.x[j]
            y = (ours + self.u[i, j] / rho + theirs + self.u[j, i] / rho) / 2
            self.y[i, j] = self.y[j, i] = y
            self.u[i, j] = self.u[i, j] + rho * (ours - y)
            self.u[j, i] = self.u[j, i] + rho * (theirs - y)


def ordered_edges(graph: Graph) -> list[tuple[Node, Node]]:
    """Edges (i, j) as the product stacks them: by the positions of i, then of j, i before j."""
    place = {node: k for k, node in enumerate(graph.nodes)}
    both = [sorted((place[i], place[j])) for i, j in graph.edges]
    return [(graph.nodes[u], graph.nodes[v]) for u, v in sorted(both)]


class Losses:
    """The product's draws: from ``default_rng([seed, 1])``, one for each message.

    Synchronous: of all edges (i, j) in order what i would hear, then what j would hear.
    Asynchronous: activation by activation, first to later nodes in order, then to earlier.
    """

    def __init__(self, graph: Graph, loss: float, seed: int) -> None:
        self.graph, self.loss = graph, loss
        self.rng = np.random.default_rng([seed, 1])
        self.count = 0

    def synchronous(self) -> Lost:
        edges = ordered_edges(self.graph)
        messages = [(j, i) for i, j in edges] + [(i, j) for i, j in edges]
        flags = self.rng.random(len(messages)) < self.loss
        gone = {m for m, flag in zip(messages, flags, strict=True) if flag}
        self.count += len(gone)
        return lambda sender, receiver: (sender, receiver) in gone

    def asynchronous(self, order: Sequence[Node]) -> list[Lost]:
        place = {node: k for k, node in enumerate(self.graph.nodes)}
        total = sum(len(self.graph.neighbours[i]) for i in order)
        flags, at = self.rng.random(total) < self.loss, 0
        result: list[Lost] = []
        for i in order:
            near = sorted(self.graph.neighbours[i], key=lambda j: place[j])
            near = [j for j in near if place[j] > place[i]] + [
                j for j in near if place[j] < place[i]
            ]
            gone = {j for j, flag in zip(near, flags[at:], strict=False) if flag}
            at += len(near)
            self.count += len(gone)
            result.append(lambda sender, receiver, gone=gone: receiver in gone)  # type: ignore[misc]
        return result
