"""The problems of full auto's benchmark: twelve of the kinds it was developed on, twelve others.

The second dozen was fixed when the code was finished, before any of it had been run, and
neither half was changed after results were seen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

import pdmm
from pdmm.common.threads import Threads
from pdmm.problems.block import Floats
from pdmm.problems.softmax import SoftmaxBlock
from pdmm.problems.sums import SumOfBlocks

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A problem, how it is made, and what is true of it by construction."""

    name: str
    about: str
    make: Callable[[], pdmm.Problem]
    alike: bool  # every client's data come from one and the same distribution
    afterwards: bool  # chosen when the code was finished


# --- a problem, and what is known of it -----------------------------------------------------


class Known:
    """A problem with its optimum, the gap to it, and the constants that sweeps start from."""

    def __init__(self, case: Case, threads: Threads) -> None:
        self.case, self.problem = case, case.make()
        p, w = self.problem, np.ones(self.problem.clients)
        if isinstance(p, pdmm.LeastSquares):
            p.factorise()
        self.quick = p
        if isinstance(p, pdmm.SoftmaxRegression) and p.dimension < 100:
            self.quick = QuickSoftmax(p.X, p.y, p.classes, p.l2)  # gives the same, sooner
        total = p.total(w, threads)
        self.total = total or SumOfBlocks(p, p.evaluator(p), w, threads)
        x = None if total is None else total.minimiser(0.0)
        self.x, self.kappa, doubt = self._polish(self._descend() if x is None else x)
        self.lowest = self.total.value(self.x)
        self.first = self.gap(np.zeros(p.dimension))
        if not doubt <= 1e-12 * self.first:
            raise SystemExit(f"{case.name}: the optimum is only known to {doubt / self.first:.0e}")
        L, mu = p.smoothness(), p.strong_convexity()
        self.L, self.mu = float(L.clients.max()), float(mu.clients.min())
        self.L_mean, self.mu_mean = L.overall / p.clients, mu.overall / p.clients

    def gap(self, x: Floats) -> float:
        """F(x) - F*, the way that is cheap."""
        if isinstance(self.problem, pdmm.LeastSquares):
            return self.total.divergence(x, self.x)
        return self.total.value(x) - self.lowest

    def _descend(self) -> Array:
        def f(x: Array) -> tuple[float, Array]:
            return self.total.value(x), self.total.gradient(x)

        options = {"maxiter": 5000, "maxfun": 10000, "ftol": 0.0, "gtol": 1e-9, "maxcor": 30}
        start = np.zeros(self.problem.dimension)
        found = minimize(f, start, jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x)

    def _polish(self, x: Array) -> tuple[Array, float, float]:
        """x* by Newton's method, kappa of F there (on its range), and what F may still fall."""
        for _ in range(1 if isinstance(self.problem, pdmm.LeastSquares) else 6):
            near = 1e-5 * np.eye(len(x))
            up, down = ([self.total.gradient(x + s * v) for v in near] for s in (1, -1))
            H = (np.array(up) - np.array(down)) / 2e-5
            values, vectors = np.linalg.eigh((H + H.T) / 2)
            kept = values > 1e-9 * values[-1]
            values, vectors = values[kept], vectors[:, kept]
            slope = vectors.T @ self.total.gradient(x)
            best, fall = x, 0.5 * float(slope @ (slope / values))
            x = x - vectors @ (slope / values)
        return best, float(values[-1] / values[0]), fall


class QuickSoftmax(pdmm.SoftmaxRegression):
    """Softmax regression whose exact steps are Newton's: with few unknowns, ten times as fast."""

    def at(self, clients: Any, cursor: Any = None) -> "QuickBlock":
        return QuickBlock(self, np.arange(self.clients)[clients], cursor)


class QuickBlock(SoftmaxBlock):
    """Exact steps by Newton's method, with halved steps where a whole one goes too far."""

    def prox(self, anchor: Any, rho: float, start: Any, slack: Any = None) -> Array:
        starts = np.broadcast_to(start, anchor.shape)
        enough = np.zeros(self.size) if slack is None else slack
        rows = enumerate(zip(anchor, starts, enough, strict=True))
        return np.stack([self._newton(i, a, rho, x, float(e)) for i, (a, x, e) in rows])

    def _newton(self, i: int, anchor: Array, rho: float, x: Array, enough: float) -> Array:
        f = self.smooth(i)

        def h(x: Array) -> tuple[float, Array]:
            value, slope = f(x)
            return value + rho / 2 * float((x - anchor) @ (x - anchor)), slope + rho * (x - anchor)

        value, slope = h(x)
        small = max(enough, 1e-10 * rho * float(np.linalg.norm(x) + np.linalg.norm(anchor)))
        for _ in range(100):
            if np.linalg.norm(slope) <= small:
                break
            step = np.linalg.solve(self._hessian(i, x) + rho * np.eye(len(x)), slope)
            size = 1.0
            new, its_slope = h(x - step)
            while new > value - 1e-4 * size * float(step @ slope) + 1e-14 * abs(value) > -np.inf:
                size /= 2
                new, its_slope = h(x - size * step)
            x, value, slope = x - size * step, new, its_slope
        return x

    def _hessian(self, i: int, x: Array) -> Array:
        (p, c), n = self.shape, len(self.X[i])
        R = np.column_stack([self.X[i], np.ones(n)])
        P = np.exp((logits := R @ x.reshape(p, c)) - logits.max(1, keepdims=True))
        P /= P.sum(1, keepdims=True)
        U = (R[:, :, None] * P[:, None, :]).reshape(n, -1)
        H = (-U.T @ U / n).reshape(p, c, p, c)
        for j in range(c):
            H[:, j, :, j] += (R * P[:, j : j + 1] / n).T @ R
        return np.asarray(H.reshape(p * c, p * c) + self.problem.l2 * np.eye(p * c))


# --- the set --------------------------------------------------------------------------------


def cases() -> list[Case]:
    """All problems, in the order of the tables."""
    before = [
        ("paper", "the paper's: m = 25, n = 5000, d = 500", pdmm.LeastSquares.random, True),
        ("iid", "Gaussian rows, the same for all", iid, True),
        ("iid, bad columns", "the same, columns scaled so that kappa is 150", iid_scaled, True),
        ("different optima", "Gaussian rows, each client its own optimum", optima, False),
        ("hard clients, easy F", "random bases, kappa_i 1e4 each", hard_clients, False),
        ("scales", "rows scaled by 0.1 .. 10: L_i up to 1e4 apart", scales, False),
        ("ill-conditioned", "one basis, spectra 1e-2 .. 150 jittered by client", ill, False),
        ("very ill-conditioned", "the same, 1e-4 .. 1e2", very_ill, False),
        ("wide clients", "8 rows for 20 unknowns each: mu_i = 0", wide, True),
        ("singular F", "40 rows in all for 60 unknowns", singular, True),
        ("two clients", "two random bases, kappa_i 1e4", two, False),
        ("softmax", "one class a client, 10 classes, l2 = 1e-3", softmax, False),
    ]
    after = [
        ("1000 clients", "12 rows each, own optima, power-law columns", thousand, False),
        ("polynomial", "degree 7 in powers of t, each client an interval of t", polynomial, False),
        ("power law", "spectra k^-2, bases turned a little by client", power_law, False),
        ("one outlier", "19 alike, one with 1000 times their L, optimum far off", outlier, False),
        ("duplicates", "4 kappa_i = 1e3 clients, 10 copies of each", duplicates, False),
        ("sensor network", "differences of neighbours, 3 rows a client", sensors, False),
        ("d > all rows", "40 rows for 100 unknowns, own column scales", wider, False),
        ("logistic mixture", "3 classes, skewed labels, shifted data, l2 = 0", mixture, False),
        ("log-cosh", "robust regression, own optima, outliers; user functions", log_cosh, False),
        ("Huber", "robust regression, heavy tails; user functions", huber, True),
        ("softmax, bad scales", "one class a client, features 1 .. 30", softmax_scaled, False),
        ("4 to 2000 rows", "sums, not means: L_i 500 apart, own optima", sizes, False),
    ]
    return [Case(*c, afterwards=False) for c in before] + [Case(*c, afterwards=True) for c in after]


# --- of the kinds that full auto was developed on -------------------------------------------


def iid() -> pdmm.LeastSquares:
    rng = np.random.default_rng(101)
    A = rng.standard_normal((20, 200, 20))
    return _linear(rng, A, rng.standard_normal(20), noise=0.5)


def iid_scaled() -> pdmm.LeastSquares:
    rng = np.random.default_rng(102)
    A = rng.standard_normal((20, 200, 20)) * np.geomspace(1, 150, 20) ** 0.5
    return _linear(rng, A, rng.standard_normal(20), noise=0.5)


def optima() -> pdmm.LeastSquares:
    rng = np.random.default_rng(103)
    A, y = rng.standard_normal((20, 60, 20)), rng.standard_normal(20)
    return pdmm.LeastSquares(A, np.stack([a @ (y + 3 * rng.standard_normal(20)) for a in A]))


def hard_clients() -> pdmm.LeastSquares:
    rng = np.random.default_rng(104)
    spectrum = np.geomspace(1e-2, 1e2, 20)
    return _quadratics([(_basis(rng, 20), spectrum, rng.standard_normal(20)) for _ in range(20)])


def scales() -> pdmm.LeastSquares:
    rng = np.random.default_rng(105)
    A = rng.standard_normal((20, 60, 20)) * 10 ** rng.uniform(-1, 1, (20, 1, 1))
    y = rng.standard_normal(20)
    return pdmm.LeastSquares(A, np.stack([a @ (y + rng.standard_normal(20)) for a in A]))


def ill() -> pdmm.LeastSquares:
    return _one_basis(106, np.geomspace(1e-2, 150, 20))


def very_ill() -> pdmm.LeastSquares:
    return _one_basis(107, np.geomspace(1e-4, 1e2, 20))


def wide() -> pdmm.LeastSquares:
    rng = np.random.default_rng(108)
    A = rng.standard_normal((20, 8, 20))
    return _linear(rng, A, rng.standard_normal(20), noise=0.5)


def singular() -> pdmm.LeastSquares:
    rng = np.random.default_rng(109)
    return pdmm.LeastSquares(rng.standard_normal((10, 4, 60)), rng.standard_normal((10, 4)))


def two() -> pdmm.LeastSquares:
    rng = np.random.default_rng(110)
    spectrum = np.geomspace(1e-2, 1e2, 20)
    return _quadratics([(_basis(rng, 20), spectrum, rng.standard_normal(20)) for _ in range(2)])


def softmax() -> pdmm.SoftmaxRegression:
    rng = np.random.default_rng(111)
    centres = rng.standard_normal((10, 20))
    X = [centre + rng.standard_normal((80, 20)) for centre in centres]
    return pdmm.SoftmaxRegression(X, [np.full(80, i) for i in range(10)], classes=10, l2=1e-3)


# --- chosen afterwards ----------------------------------------------------------------------


def thousand() -> pdmm.LeastSquares:
    rng = np.random.default_rng(201)
    A = rng.standard_normal((1000, 12, 10)) / np.arange(1, 11) ** 1.5
    x = rng.standard_normal(10) + rng.standard_normal((1000, 10))
    b = np.einsum("mnd,md->mn", A, x) + 0.1 * rng.standard_normal((1000, 12))
    return pdmm.LeastSquares(A, b)


def polynomial() -> pdmm.LeastSquares:
    rng = np.random.default_rng(202)
    t = -1 + 0.2 * (np.arange(10)[:, None] + rng.random((10, 30)))
    A = t[..., None] ** np.arange(8)
    return pdmm.LeastSquares(A, np.sin(4 * t) + 0.1 * rng.standard_normal(t.shape))


def power_law() -> pdmm.LeastSquares:
    rng = np.random.default_rng(203)
    common, clients = _basis(rng, 40), []
    for _ in range(30):
        turned, _ = np.linalg.qr(common + 0.02 * rng.standard_normal((40, 40)))
        clients.append((turned, np.arange(1.0, 41) ** -2, rng.standard_normal(40)))
    return _quadratics(clients)


def outlier() -> pdmm.LeastSquares:
    rng = np.random.default_rng(204)
    A, y = rng.standard_normal((20, 50, 15)), rng.standard_normal(15)
    b = A @ y + 0.5 * rng.standard_normal((20, 50))
    A[0] *= 1000**0.5
    b[0] = A[0] @ (y + 10 * rng.standard_normal(15))
    return pdmm.LeastSquares(A, b)


def duplicates() -> pdmm.LeastSquares:
    rng = np.random.default_rng(205)
    spectrum = np.geomspace(0.1, 100, 20)
    four = [(_basis(rng, 20), spectrum, 2 * rng.standard_normal(20)) for _ in range(4)]
    return _quadratics(10 * four)


def sensors() -> pdmm.LeastSquares:
    rng = np.random.default_rng(206)
    rows = np.zeros((150, 30))
    for k, row in enumerate(rows):
        j = k % 30
        row[j] = 1.0
        if k % 50:  # three sensors know where they are themselves
            row[(j + (1 if k < 30 else int(rng.integers(1, 4)))) % 30] = -1.0
    A = rows[rng.permutation(150)].reshape(50, 3, 30)
    return _linear(rng, A, 5 * rng.standard_normal(30), noise=0.1)


def wider() -> pdmm.LeastSquares:
    rng = np.random.default_rng(207)
    scale = np.stack([rng.permutation(np.geomspace(0.1, 10, 100)) for _ in range(8)])
    A = rng.standard_normal((8, 5, 100)) * scale[:, None]
    return pdmm.LeastSquares(A, rng.standard_normal((8, 5)))


def mixture() -> pdmm.SoftmaxRegression:
    rng = np.random.default_rng(208)
    centres, X, y = 0.7 * rng.standard_normal((3, 6)), [], []
    for _ in range(12):
        label = rng.choice(3, 60, p=rng.dirichlet(np.full(3, 0.3)))
        X.append(centres[label] + 0.5 * rng.standard_normal(6) + rng.standard_normal((60, 6)))
        y.append(label)
    return pdmm.SoftmaxRegression(X, y, classes=3)


def log_cosh() -> pdmm.Functions:
    rng = np.random.default_rng(209)
    A = rng.standard_normal((8, 40, 6)) * np.geomspace(1, 10, 6)
    x = rng.standard_normal(6) + 0.5 * rng.standard_normal((8, 6))
    b = np.einsum("mnd,md->mn", A, x) + 0.5 * rng.standard_normal((8, 40))
    b += 20 * rng.standard_normal((8, 40)) * (rng.random((8, 40)) < 0.1)

    def loss(r: Array) -> Array:  # log cosh r, which overflows nowhere
        size = np.abs(r)
        return np.asarray(size + np.log1p(np.exp(-2 * size)) - np.log(2))

    return _robust(A, b, loss, np.tanh)


def huber() -> pdmm.Functions:
    rng = np.random.default_rng(210)
    A, y = rng.standard_normal((6, 30, 5)), 3 * rng.standard_normal(5)
    b = A @ y + rng.standard_t(2, (6, 30))

    def loss(r: Array) -> Array:
        size = np.abs(r)
        return np.where(size < 1, 0.5 * r * r, size - 0.5)

    return _robust(A, b, loss, lambda r: np.clip(r, -1, 1))


def softmax_scaled() -> pdmm.SoftmaxRegression:
    rng = np.random.default_rng(211)
    centres, size = rng.standard_normal((5, 8)), np.geomspace(1, 30, 8)
    X = [(centre + rng.standard_normal((60, 8))) * size for centre in centres]
    return pdmm.SoftmaxRegression(X, [np.full(60, i) for i in range(5)], classes=5, l2=1e-3)


def sizes() -> pdmm.LeastSquares:
    rng = np.random.default_rng(212)
    scale, y = np.geomspace(1, 100, 12) ** 0.5, rng.standard_normal(12)
    rows = np.geomspace(4, 2000, 16).round().astype(int)
    A = [rng.standard_normal((n, 12)) * scale for n in rows]
    x = y + 0.3 * rng.standard_normal((16, 12))
    noise = [0.2 * rng.standard_normal(n) for n in rows]
    return pdmm.LeastSquares(A, [a @ v + e for a, v, e in zip(A, x, noise, strict=True)])


# --- what they are made of ------------------------------------------------------------------


def _linear(rng: np.random.Generator, A: Array, y: Array, noise: float) -> pdmm.LeastSquares:
    return pdmm.LeastSquares(A, A @ y + noise * rng.standard_normal(A.shape[:2]))


def _basis(rng: np.random.Generator, d: int) -> Array:
    return np.asarray(np.linalg.qr(rng.standard_normal((d, d)))[0])


def _quadratics(clients: list[tuple[Array, Array, Array]]) -> pdmm.LeastSquares:
    """Clients of given eigenvectors (columns), eigenvalues and optima."""
    A = np.stack([np.sqrt(e)[:, None] * Q.T for Q, e, _ in clients])
    return pdmm.LeastSquares(A, np.stack([a @ x for a, (_, _, x) in zip(A, clients, strict=True)]))


def _one_basis(seed: int, spectrum: Array) -> pdmm.LeastSquares:
    """Twenty clients with one basis, each eigenvalue up to 10 apart, optima that differ."""
    rng = np.random.default_rng(seed)
    Q, y = _basis(rng, 20), rng.standard_normal(20)
    return _quadratics(
        [
            (Q, spectrum * 10 ** rng.uniform(-0.5, 0.5, 20), y + rng.standard_normal(20))
            for _ in range(20)
        ]
    )


def _robust(
    A: Array, b: Array, loss: Callable[[Array], Array], slope: Callable[[Array], Array]
) -> pdmm.Functions:
    """f_i(x) = sum of loss(A_i x - b_i), given as a user would: no L, no mu, no prox."""

    def value(a: Array, v: Array) -> Callable[[Array], float]:
        return lambda x: float(loss(a @ x - v).sum())

    def gradient(a: Array, v: Array) -> Callable[[Array], Array]:
        return lambda x: np.asarray(slope(a @ x - v) @ a)

    pairs = list(zip(A, b, strict=True))
    return pdmm.Functions(
        value=[value(a, v) for a, v in pairs],
        gradient=[gradient(a, v) for a, v in pairs],
        dimension=A.shape[2],
    )
