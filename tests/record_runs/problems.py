"""Small problems of some of the clients, so that ranks and sites can each make their own."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import pdmm

D = 6
Clients = Sequence[int]


def squares(clients: Clients, dtype: Any = np.float64) -> pdmm.LeastSquares:
    """Tall least squares, every client with another number of rows."""
    data = []
    for i in clients:
        rng = np.random.default_rng([5, i])
        A = rng.standard_normal((20 + i, D)) * np.geomspace(1, 3, D)
        data.append((A.astype(dtype), (A @ rng.standard_normal(D) + i).astype(dtype)))
    return pdmm.LeastSquares([A for A, _ in data], [b for _, b in data])


def squares32(clients: Clients) -> pdmm.LeastSquares:
    """The same in float32."""
    return squares(clients, np.float32)


def stacked(clients: Clients) -> pdmm.LeastSquares:
    """Least squares from one array, in which all clients have equally many rows."""
    rng = [np.random.default_rng([8, i]) for i in clients]
    A = np.stack([r.standard_normal((9, D)) for r in rng])
    return pdmm.LeastSquares(A, A.sum(2) + np.stack([r.standard_normal(9) for r in rng]))


def factorised(clients: Clients) -> pdmm.LeastSquares:
    """The paper's random problem, its eigenbases computed before."""
    mine = range(clients[0], clients[-1] + 1)
    return pdmm.LeastSquares.random(mine, samples=30, features=10, seed=4).factorise()


def wide(clients: Clients) -> pdmm.LeastSquares:
    """Fewer rows than columns: no client has a unique minimiser, nor has the sum."""
    rng = [np.random.default_rng([6, i]) for i in clients]
    return pdmm.LeastSquares([r.standard_normal((2, 40)) for r in rng], np.ones((len(rng), 2)))


def ragged(clients: Clients) -> pdmm.LeastSquares:
    """Some clients have fewer rows than columns, others have many more."""
    data = []
    for i in clients:
        rng = np.random.default_rng([9, i])
        data.append(
            (rng.standard_normal((1 + 7 * (i % 4), D)), rng.standard_normal(1 + 7 * (i % 4)))
        )
    return pdmm.LeastSquares([A for A, _ in data], [b for _, b in data])


def many(clients: Clients) -> pdmm.LeastSquares:
    """A thousand small clients, whatever was asked for: several blocks."""
    rng = np.random.default_rng(10)
    return pdmm.LeastSquares(rng.standard_normal((1000, 5, 3)), rng.standard_normal((1000, 5)))


def softmax(
    clients: Clients,
    batch: int | None = None,
    l2: float = 0.1,
    dtype: Any = np.float64,
    rows: int | None = None,
) -> pdmm.SoftmaxRegression:
    """Two classes, every client with another number of rows unless that is given."""
    X, y = [], []
    for i in clients:
        x = np.random.default_rng([7, i]).standard_normal((rows or 15 + i, 4))
        X.append(x.astype(dtype))
        y.append((x[:, 0] + 0.3 * i > 1).astype(int))
    return pdmm.SoftmaxRegression(X, y, 2, l2=l2, batch_size=batch)


softmax32: Callable[[Clients], pdmm.SoftmaxRegression] = partial(softmax, dtype=np.float32)
batches: Callable[[Clients], pdmm.SoftmaxRegression] = partial(softmax, batch=8, rows=24)


def smooth(clients: Clients) -> tuple[list[Any], list[Any]]:
    """Values and gradients of smooth functions, mu being 1 and L 1.25."""

    def value(x: Any, i: int) -> float:
        return float(np.logaddexp(0, x - i / 5).sum() + 0.5 * ((x + 1) ** 2).sum())

    def gradient(x: Any, i: int) -> Any:
        return 1 / (1 + np.exp(i / 5 - x)) + (x + 1)

    return [partial(value, i=i) for i in clients], [partial(gradient, i=i) for i in clients]


def functions(clients: Clients, **given: Any) -> pdmm.Functions:
    """Smooth functions of a user."""
    return pdmm.Functions(*smooth(clients), D, **given)


known: Callable[[Clients], pdmm.Functions] = partial(
    functions, smoothness=1.25, strong_convexity=1.0
)
too_convex: Callable[[Clients], pdmm.Functions] = partial(functions, strong_convexity=1.2)


def with_prox(clients: Clients) -> pdmm.Functions:
    """Distances to centres, with kinks, and with a proximal step of their own."""

    def centre(i: int) -> Any:
        return np.array([i, np.cos(i), -i / 3])

    def value(x: Any, i: int) -> float:
        return float(np.abs(x - centre(i)).sum())

    def gradient(x: Any, i: int) -> Any:
        return np.sign(x - centre(i))

    def prox(v: Any, t: float, i: int) -> Any:
        return centre(i) + np.sign(v - centre(i)) * np.maximum(np.abs(v - centre(i)) - t, 0)

    made = [[partial(f, i=i) for i in clients] for f in (value, gradient, prox)]
    return pdmm.Functions(made[0], made[1], 3, prox=made[2])


def steepening(clients: Clients) -> pdmm.Functions:
    """Functions that are steeper where the run goes than where L is estimated."""

    def value(x: Any, c: float) -> float:
        over = np.maximum(x - 15, 0)
        return 0.5 * float(np.sum((x - c) ** 2)) + 4 * float(over @ over)

    def gradient(x: Any, c: float) -> Any:
        return (x - c) + 8 * np.maximum(x - 15, 0)

    centres = [40.0 + 5 * i for i in clients]
    return pdmm.Functions(
        [partial(value, c=c) for c in centres], [partial(gradient, c=c) for c in centres], 3
    )


def not_convex(clients: Clients, **given: Any) -> pdmm.Functions:
    """Waves on a parabola: client 5's are steep enough to curve it downwards."""

    def value(x: Any, height: float) -> float:
        return float((x**2).sum() / 2 - height * np.cos(x).sum())

    def gradient(x: Any, height: float) -> Any:
        return x + height * np.sin(x)

    heights = [2.0 if i == 5 else 0.2 for i in clients]
    return pdmm.Functions(
        [partial(value, height=h) for h in heights],
        [partial(gradient, height=h) for h in heights],
        2,
        **given,
    )


def breaking(clients: Clients, after: int, what: str = "gradient") -> pdmm.Functions:
    """Functions of which client 4's value or gradient fails from some call on."""
    values, gradients = smooth(clients)
    if 4 in clients:
        parts, k, calls = values if what == "value" else gradients, list(clients).index(4), 0
        plain = parts[k]

        def fails(x: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > after:
                raise OSError("the disk is gone")
            return plain(x)

        parts[k] = fails
    return pdmm.Functions(values, gradients, D)


def diagonals(clients: Clients) -> pdmm.Quadratic:
    """Quadratics with diagonal matrices."""
    c = np.array([[i, 1.0, -i] for i in clients])
    return pdmm.Quadratic(np.array([[1.0 + i, 2.0, 0.5] for i in clients]), c)


def matrices(clients: Clients, dtype: Any = np.float64) -> pdmm.Quadratic:
    """Quadratics with full matrices."""
    rng = [np.random.default_rng([11, i]) for i in clients]
    B = np.stack([r.standard_normal((5, 4)) for r in rng])
    H = np.swapaxes(B, 1, 2) @ B + 0.1 * np.eye(4)
    H = (H + np.swapaxes(H, 1, 2)) / 2
    return pdmm.Quadratic(
        H.astype(dtype), np.stack([r.standard_normal(4) for r in rng]).astype(dtype)
    )


matrices32: Callable[[Clients], pdmm.Quadratic] = partial(matrices, dtype=np.float32)


def averaging(clients: Clients) -> pdmm.Quadratic:
    """1/2 ‖x - a_i‖²: the minimiser of the sum is the mean."""
    return pdmm.Quadratic(1.0, np.array([[i * 1.0, np.sin(i)] for i in clients]))


def absolute(clients: Clients) -> pdmm.Absolute:
    """Sums of absolute values: the minimiser of the sum is a median."""
    return pdmm.Absolute(np.array([[i * 1.0, np.cos(i)] for i in clients]))


def zero(clients: Clients) -> pdmm.Zero:
    """One client that does not care."""
    return pdmm.Zero(3)


def lazy(clients: Clients, **more: Any) -> pdmm.Lazy:
    """The clients of ``squares``, each made when it first takes part."""
    return pdmm.Lazy(len(clients), lambda k: squares([clients[k]]), **more)


def lazy_evaluated(clients: Clients) -> pdmm.Lazy:
    """The same, with an F that somebody can evaluate."""
    whole = squares(clients)
    return lazy(clients, evaluate=whole.objective, keep=5)
