"""Steps, gradients and residuals, as their formulas say."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

import pdmm
from pdmm.problems.block import Block

Array = npt.NDArray[Any]


def whole(problem: pdmm.Problem) -> Block:
    return problem.at(slice(0, problem.clients))


def literal_steps(
    gradient: Callable[[Array, int], Array],
    start: Array,
    step: float,
    count: int,
    shift: Array | None,
    anchor: Array | None,
    rho: float,
) -> tuple[Array, Array]:
    """Gradient steps of one client, written out; (last, mean)."""
    x, iterates = start.astype(np.float64), []
    for k in range(count):
        slope = gradient(x, k)
        if shift is not None:
            slope = slope + shift
        if anchor is not None:
            slope = slope + rho * (x - anchor)
        x = x - step * slope
        iterates.append(x)
    return x, np.mean(iterates, axis=0)


def numeric_gradient(f: Callable[[Array], float], x: Array) -> Array:
    h = 1e-5
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])


def kkt_residual(slope: Array, x: Array, anchor: Array, rho: float) -> float:
    """The relative residual as ``pdmm.problems.minimise.minimise`` states it."""
    scale = np.linalg.norm(slope) + rho * (np.linalg.norm(x) + np.linalg.norm(anchor))
    return float(np.linalg.norm(slope + rho * (x - anchor)) / scale)


def entropy(X: Array, y: Array, x: Array, classes: int, l2: Any) -> Any:
    """f_i of softmax regression, in the precision of its arguments."""
    W = x.reshape(-1, classes)
    logits = X @ W[:-1] + W[-1]
    top = logits.max(1)
    sums = np.log(np.exp(logits - top[:, None]).sum(1)) + top
    return (sums - logits[np.arange(len(y)), y]).mean() + l2 / 2 * (x * x).sum()


def entropy_gradient(X: Array, y: Array, x: Array, classes: int, l2: float) -> Array:
    W = x.reshape(-1, classes)
    logits = X @ W[:-1] + W[-1]
    P = np.exp(logits - logsumexp(logits, axis=1, keepdims=True)) - np.eye(classes)[y]
    design = np.hstack([X, np.ones((len(X), 1))])
    return np.asarray((design.T @ P / len(y)).ravel() + l2 * x)
