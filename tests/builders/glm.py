"""Tables of generalised linear models, and their optima by Newton's method on summed curvature."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import pdmm

Array = npt.NDArray[Any]
HUBER = pdmm.Huber(0.8)
FAMILIES = ("gaussian", "binomial", "poisson", "gamma", "multinomial", "cox", HUBER)


class Table(NamedTuple):
    X: list[Array]
    y: list[Array]
    w: list[Array]
    offset: list[Array]


def table(
    family: Any, counts: tuple[int, ...] = (30, 1, 45, 2), p: int = 3, seed: int = 0
) -> Table:
    """Rows of several clients of a family's model, with whole weights and offsets."""
    rng = np.random.default_rng(seed)
    beta = rng.standard_normal(p) / 2
    X = [rng.standard_normal((n, p)) for n in counts]
    offset = [rng.uniform(-0.5, 0.5, n) for n in counts]
    w = [rng.integers(1, 4, n).astype(float) for n in counts]
    y = [outcomes(family, rows @ beta + o + 0.3, rng) for rows, o in zip(X, offset, strict=True)]
    return Table(X, y, w, offset)


def outcomes(family: Any, eta: Array, rng: np.random.Generator) -> Array:
    n = len(eta)
    if family == "binomial":
        return np.asarray(rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    if family == "poisson":
        return np.asarray(rng.poisson(np.exp(eta)))
    if family == "gamma":
        return np.asarray(rng.gamma(2.0, np.exp(eta) / 2))
    if family == "multinomial":
        noise = rng.gumbel(size=(n, 3))
        return np.asarray(np.argmax(np.outer(eta, [0.0, 1.0, -1.0]) + noise, axis=1))
    if family == "cox":
        time = np.ceil(8 * rng.exponential(np.exp(-eta))) + 1  # some are tied
        return np.column_stack([time, rng.random(n) < 0.7])
    return np.asarray(eta + rng.standard_t(3, n))


def problem(family: Any, given: Table | None = None, **more: Any) -> pdmm.GLM:
    """The model of these rows, with weights, and with offsets where the family has any."""
    own = table(family) if given is None else given
    if family != "multinomial":
        more.setdefault("offset", own.offset)
    more.setdefault("sample_weight", own.w)
    return pdmm.GLM(own.X, own.y, family, **more)


def optimum(glm: pdmm.GLM, l2: float = 0.0) -> Array:
    """The minimiser of F + l2/2 ‖x‖², by Newton's method from working responses."""
    f = glm.at(slice(0, glm.clients))
    ridge = l2 * np.eye(glm.dimension)
    begin = f.working()
    x = -np.linalg.solve(begin.hessian.sum(0) + ridge, begin.gradient.sum(0))
    for _ in range(60):
        at = f.curvature(x)
        g = at.gradient.sum(0) + l2 * x
        step = np.linalg.solve(at.hessian.sum(0) + ridge, g)
        t = 1.0
        values = f.value(x).sum() + l2 / 2 * x @ x
        while _penalised(f, x - t * step, l2) > values + 1e-9 * abs(values) and t > 1e-6:
            t /= 2
        x = x - t * step
        if g @ step < 1e-24:
            break
    return np.asarray(x)


def _penalised(f: Any, x: Array, l2: float) -> float:
    return float(f.value(x).sum() + l2 / 2 * x @ x)
