"""Which client differs from the rest, and what each would have found alone."""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.threads import Threads
from pdmm.problems import GLM
from pdmm.problems.glm.statistics import Statistics, statistics
from pdmm.solve import solve
from pdmm.tables.design import Table
from pdmm.tables.inference import SCALED, inverse, score_test
from pdmm.tables.stored import Stored

Vector = npt.NDArray[np.float64]


class Own(NamedTuple):
    """What each client's rows say alone, in the order of a summary; NaN where they say nothing."""

    params: Vector
    errors: Vector


def score_tests(stored: Stored, each: Sequence[Statistics]) -> list[tuple[float, float, float]]:
    """Statistic, degrees of freedom and p-value for each client."""
    nothing = (np.nan, np.nan, np.nan)
    if stored.penalised or stored.family == "huber" or len(each) < 2:
        return [nothing for _ in each]
    total = np.sum([own.hessian for own in each], axis=0)
    information = inverse(total)
    tests = [score_test(own, information, stored.inference.scale) for own in each]
    return [(test.statistic, test.df, test.pvalue) for test in tests]


def own_estimates(stored: Stored, table: Table) -> Own:
    """Fit each client's rows alone."""
    d, m = len(stored.x), table.problem.clients
    params = np.full((m, d), np.nan)
    errors = np.full((m, d), np.nan)
    order = table.layout.order
    if stored.penalised:
        return Own(params, errors)
    with Threads() as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = partial(estimate_alone, table, x=stored.x)
        for i, found in enumerate(pool.map(alone, range(m))):
            if found is not None:
                params[i] = found[0][order]
                errors[i] = found[1][order]
    return Own(params, errors)


def estimate_alone(table: Table, i: int, x: Vector) -> tuple[Vector, Vector] | None:
    """The estimate of one client's rows and its standard errors, None where there is none.

    Args:
        table: the rows of all clients.
        i: which of them.
        x: the joint estimate, where the search begins.
    """
    problem = table.problem
    few = problem.samples[i] * max(1, len(table.layout.classes)) <= len(x)
    if few:
        return None
    everybody = range(problem.clients)
    alone = problem.subset([slice(None) if k == i else slice(0) for k in everybody])
    result = solve(alone, x0=x, curvature="full", optimum=False, rounds=60, threads=1)
    if result.certificate.gap is None:
        return None
    return result.x, _errors(alone, result.x)


def _errors(alone: GLM, x: Vector) -> Vector:
    own = statistics(alone, x, 0, robust=False)
    phi = own.pearson / (own.n - len(x)) if alone.family in SCALED and own.n > len(x) else 1.0
    if alone.family == "huber":
        return np.full(len(x), np.nan)
    return np.asarray(np.sqrt(phi * np.diag(inverse(own.expected))))
