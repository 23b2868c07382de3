"""Cross-validation as one would write it first: refit every fold at every penalty, and look."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

import pdmm
from twins.survival import Cox

Vector = npt.NDArray[np.float64]


class _Floats:
    """What ``twins.survival`` asks of mpmath, in floats."""

    mpf = float
    exp = math.exp
    log = math.log


def held_deviances(
    problem: pdmm.GLM, family: Any, labels: Any, unit: Vector, pairs: Any, by_client: bool
) -> Vector:
    """(L, K): of each pair of penalties and each fold, by fits to a certificate."""
    folds = int(labels.max()) + 1
    found = np.empty((len(pairs), folds))
    for k in range(folds):
        trained = labels != k
        share = problem._rows.w[trained].sum() / problem._rows.w.sum()
        training = _model(problem, family, trained)
        for place, (l1, l2) in enumerate(pairs):
            net = pdmm.ElasticNet(share * l1 * unit, share * l2 * unit**2)
            result = pdmm.solve(training, regulariser=net, curvature="full", optimum=False)
            assert result.certificate.gap is not None
            found[place, k] = _deviance(problem, result.x, trained, by_client)
    return found


def _model(problem: pdmm.GLM, family: Any, chosen: Any) -> pdmm.GLM:
    """The clients' chosen rows, given to the model as a user would."""
    rows = problem._rows
    parts: dict[str, list[Any]] = {"X": [], "y": [], "w": [], "offset": []}
    for i in range(problem.clients):
        own = np.arange(rows.starts[i], rows.starts[i + 1])
        own = own[chosen[own]]
        if not own.size or not rows.w[own].any():
            continue
        parts["X"].append(np.asarray(rows.A[i])[own - rows.starts[i], : problem.features])
        parts["y"].append(_outcomes(problem, own))
        parts["w"].append(rows.w[own])
        parts["offset"].append(rows.given[own])
    offset = None if problem.family == "multinomial" else parts["offset"]
    return pdmm.GLM(
        parts["X"], parts["y"], family, problem.intercept, parts["w"], offset, ties=problem.ties
    )


def _outcomes(problem: pdmm.GLM, own: Any) -> Any:
    y = problem._rows.y[own]
    if problem.family != "multinomial":
        return y
    return np.where(y.any(axis=1), y.argmax(axis=1) + 1, 0)


def _deviance(problem: pdmm.GLM, x: Vector, trained: Any, by_client: bool) -> float:
    rows = problem._rows
    A = np.vstack([np.asarray(A) for A in rows.A])
    if problem.family == "cox":
        eta = A @ x + rows.given
        if by_client:
            return 2 * _partial(problem, eta, ~trained)
        everything = np.ones(len(eta), dtype=bool)
        return 2 * (_partial(problem, eta, everything) - _partial(problem, eta, trained))
    held = ~trained
    y = rows.y[held]
    w = rows.w[held]
    if problem.family == "multinomial":
        eta = A[held] @ x.reshape(A.shape[1], -1)
        eta = np.column_stack([np.zeros(len(eta)), eta])
        p = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
        return float(-2 * w @ np.log(p[np.arange(len(y)), _outcomes(problem, held)]))
    eta = A[held] @ x + rows.given[held]
    return float(w @ _row_deviances(problem, eta, y))


def _row_deviances(problem: pdmm.GLM, eta: Vector, y: Vector) -> Vector:
    if problem.family == "gaussian":
        return (y - eta) ** 2
    if problem.family == "binomial":
        p = 1 / (1 + np.exp(-eta))
        return -2 * np.log(np.where(y > 0.5, p, 1 - p))
    mu = np.exp(eta)
    if problem.family == "poisson":
        logs = np.log(np.where(y > 0, y / mu, 1.0))
        return np.asarray(2 * (y * logs - y + mu))
    if problem.family == "gamma":
        return np.asarray(2 * ((y - mu) / mu - np.log(y / mu)))
    delta = problem._rowwise.delta  # type: ignore[union-attr]
    r = np.abs(y - eta)
    return np.where(r <= delta, r * r, 2 * delta * r - delta**2)


def _partial(problem: pdmm.GLM, eta: Vector, chosen: Any) -> float:
    """Minus the log partial likelihood of some rows, each client a stratum."""
    total = 0.0
    rows = problem._rows
    for i in range(problem.clients):
        own = np.arange(rows.starts[i], rows.starts[i + 1])
        own = own[chosen[own]]
        if own.size:
            y = rows.y[own]
            stratum = Cox(
                y[:, 0].tolist(), y[:, 1].tolist(), rows.w[own].tolist(), problem.ties, _Floats
            )
            total += stratum.value(eta[own].tolist())
    return total
