"""Generalised linear models by plain loops over rows, in 40 digits."""

from typing import Any

import mpmath
import numpy as np

from twins.survival import Cox


def vector(values: Any) -> list[Any]:
    return [mpmath.mpf(float(v)) for v in values]


def loss(family: Any, eta: Any, y: Any) -> Any:
    if family == "gaussian":
        return (y - eta) ** 2 / 2
    if family == "binomial":
        return mpmath.log(1 + mpmath.exp(eta)) - y * eta
    if family == "poisson":
        return mpmath.exp(eta) - y * eta
    if family == "gamma":
        return y * mpmath.exp(-eta) + eta
    r = abs(y - eta)
    delta = mpmath.mpf(family.delta)
    return r * r / 2 if r <= delta else delta * r - delta**2 / 2


def slope(family: Any, eta: Any, y: Any) -> Any:
    if family == "gaussian":
        return eta - y
    if family == "binomial":
        return 1 / (1 + mpmath.exp(-eta)) - y
    if family == "poisson":
        return mpmath.exp(eta) - y
    if family == "gamma":
        return 1 - y * mpmath.exp(-eta)
    delta = mpmath.mpf(family.delta)
    return max(-delta, min(delta, eta - y))


def value_and_gradient(
    family: Any, X: Any, y: Any, w: Any, offset: Any, x: Any, intercept: bool = True
) -> tuple[Any, list[Any]]:
    """f_i and its gradient; the first of three classes 0, 1, 2 is the reference."""
    rows = [vector([*row, 1.0] if intercept and family != "cox" else row) for row in X]
    weights = vector(w)
    if family == "multinomial":
        return _multinomial(rows, y, weights, vector(x))
    point = vector(x)
    eta = [
        sum((a * b for a, b in zip(row, point, strict=True)), mpmath.mpf(float(o)))
        for row, o in zip(rows, offset, strict=True)
    ]
    if family == "cox":
        model = Cox(y[:, 0].tolist(), y[:, 1].tolist(), weights, "efron", mpmath)
        slopes = model.slope(eta)
        total = model.value(eta)
    else:
        outcomes = vector(y)
        pairs = list(zip(weights, eta, outcomes, strict=True))
        slopes = [v * slope(family, e, o) for v, e, o in pairs]
        total = sum(v * loss(family, e, o) for v, e, o in pairs)
    d = len(point)
    return total, [sum(s * row[j] for s, row in zip(slopes, rows, strict=True)) for j in range(d)]


def _multinomial(rows: Any, y: Any, w: Any, x: Any) -> tuple[Any, list[Any]]:
    classes = len(x) // len(rows[0])
    total = mpmath.mpf(0)
    gradient = [mpmath.mpf(0)] * len(x)
    for row, label, weight in zip(rows, y, w, strict=True):
        own = [sum(a * x[j * classes + c] for j, a in enumerate(row)) for c in range(classes)]
        eta = [mpmath.mpf(0), *own]
        sizes = [mpmath.exp(e) for e in eta]
        total += weight * (mpmath.log(sum(sizes)) - eta[int(label)])
        for c in range(classes):
            s = weight * (sizes[c + 1] / sum(sizes) - int(label == c + 1))
            for j, a in enumerate(row):
                gradient[j * classes + c] += s * a
    return total, gradient


def distance(g: Any, exact: list[Any]) -> float:
    """How far a gradient is from the exact one."""
    return float(mpmath.norm([mpmath.mpf(float(a)) - b for a, b in zip(g, exact, strict=True)]))


def times(T: np.ndarray[Any, Any], g: list[Any]) -> list[Any]:
    """T' g."""
    columns = [vector(column) for column in T.T]
    return [sum(a * b for a, b in zip(column, g, strict=True)) for column in columns]
