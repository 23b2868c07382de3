"""What is to be minimised: F of a table or of a synthetic problem, and how far a point is off."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import pdmm
from benchmarks.auto_problems import Case, Known, cases
from benchmarks.tables import Table, tables
from benchmarks.tables.optimum import Truth
from pdmm.common.threads import Threads
from pdmm.common.variables import Scaled
from pdmm.engines.in_process import InProcess
from pdmm.run.metric import measure

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Goal:
    """A problem whose optimum is known to many digits."""

    name: str
    kind: str
    """The family of a table's model; "synthetic" for the others."""
    problem: pdmm.Problem
    h: pdmm.SquaredL2 | None
    gap: Callable[[Vector], float]
    """F(x) - F*."""
    lowest: float
    """F*."""
    first: float
    """The gap at 0."""
    x: Vector
    """The optimum."""
    l2: float = 0.0
    held_out: bool = False
    given: "Goal | None" = None
    """The same as its user would give it, where that is not a problem that knows its Hessians."""
    exchanges: int = 0
    """Rounds that went into its variables, and belong to every method that works in them."""
    numbers: int = 0
    """Numbers that each client sent for these."""

    @property
    def synthetic(self) -> bool:
        return self.kind == "synthetic"

    @property
    def plain(self) -> "Goal":
        """The problem as its user would give it."""
        return self.given or self


# --- of the tables ----------------------------------------------------------------------------


def of_tables(chosen: Callable[[str], bool]) -> Iterator[Goal]:
    """One for each table and each of its penalties, made when it is asked for."""
    for table in tables():
        for l2 in table.l2:
            name = f"{table.name}, l2 = {l2:g}" if l2 else table.name
            if chosen(name):
                yield _of_table(table, l2, name)


def _of_table(table: Table, l2: float, name: str) -> Goal:
    truth = Truth(table, l2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the affairs of "fair" are not whole numbers
        problem = pdmm.GLM(
            table.X,
            table.y,
            family=table.family,
            sample_weight=table.sample_weight,
            offset=table.offset,
        )
    h = pdmm.SquaredL2(l2) if l2 else None

    def gap(x: Vector) -> float:  # Cox's model is slow in plain NumPy
        penalty = 0.0 if h is None else h.value(x)
        return problem.objective(x) + penalty - truth.lowest

    goal = Goal(
        name=name,
        kind=table.family,
        problem=problem,
        h=h,
        gap=gap if table.family == "cox" else truth.gap,
        lowest=truth.lowest,
        first=truth.first,
        x=truth.x,
        l2=l2,
        held_out=table.held_out,
    )
    _check_same(goal)
    return goal


def _check_same(goal: Goal) -> None:
    """Refuse to measure anything where F of the library is another one than the truth's."""
    penalty = 0.0
    if goal.h is not None:
        penalty = _penalty(goal).value(goal.x)
    away = abs(goal.problem.objective(goal.x) + penalty - goal.lowest)
    if not away <= 1e-12 * (abs(goal.lowest) + goal.first):
        raise SystemExit(f"{goal.name}: F at the optimum is off by {away:.1e}")


def _penalty(goal: Goal) -> pdmm.SquaredL2:
    """With one weight for each entry of x."""
    assert goal.h is not None
    return goal.h.for_problem(goal.problem.dimension, goal.problem.intercepts)


# --- synthetic --------------------------------------------------------------------------------


def of_problems(chosen: Callable[[str], bool], threads: Threads) -> Iterator[Goal]:
    """The problems of :mod:`benchmarks.auto`, with their Hessians where a GLM has the same F."""
    for case in cases():
        if chosen(case.name):
            yield _of_case(case, threads)


def _of_case(case: Case, threads: Threads) -> Goal:
    known = Known(case, threads)
    given = Goal(
        name=case.name,
        kind="synthetic",
        problem=known.problem,
        h=None,
        gap=known.gap,
        lowest=known.lowest,
        first=known.first,
        x=known.x,
    )
    found = _as_glm(known.problem)
    if found is None:
        return given
    glm, h = found
    if glm.dimension == len(known.x):  # F may differ by a constant
        penalty = 0.0 if h is None else h.value(known.x)
        lowest = glm.objective(known.x) + penalty
        return replace(given, problem=glm, h=h, lowest=lowest, given=given)
    # With a reference class, x has fewer entries.
    coefficients = known.x.reshape(glm.features + 1, -1)
    x = (coefficients - coefficients[:, :1])[:, 1:].ravel()

    def gap(x: Vector) -> float:
        return glm.objective(x) - known.lowest

    return replace(given, problem=glm, gap=gap, x=x, given=given)


def _as_glm(p: pdmm.Problem) -> tuple[pdmm.GLM, pdmm.SquaredL2 | None] | None:
    """The same F as that of a generalised linear model, which knows its Hessians."""
    if isinstance(p, pdmm.LeastSquares):
        A, b = _rows(p)
        return pdmm.GLM(A, b, family="gaussian", intercept=False), None
    if isinstance(p, pdmm.SoftmaxRegression):
        means = [np.full(len(rows), 1 / len(rows)) for rows in p.X]
        every = False if p.l2 else None
        glm = pdmm.GLM(p.X, p.y, family="multinomial", sample_weight=means, reference=every)
        h = pdmm.SquaredL2(np.full(glm.dimension, p.clients * p.l2)) if p.l2 else None
        return glm, h
    return None


def _rows(p: pdmm.LeastSquares) -> tuple[list[Vector], list[Vector]]:
    """Its data; where it has moments alone, as few rows as have the same, up to a constant."""
    forms = p._forms
    if forms.samples is not None:
        return list(forms.samples.A), list(forms.samples.b)
    assert forms.given is not None
    roots = [np.linalg.cholesky(H) for H in forms.given.H]
    pairs = zip(roots, forms.given.g, strict=True)
    return [R.T for R in roots], [np.linalg.solve(R, g) for R, g in pairs]


# --- other variables --------------------------------------------------------------------------


def treated(goal: Goal) -> Goal | None:
    """The same with columns scaled and centred, as the diagonal metric has them.

    None where the problem does not know its Hessians, or where the penalty of an intercept would
    become one of sums of coefficients.
    """
    problem = goal.problem
    if not isinstance(problem, pdmm.GLM):
        return None
    d, m = problem.dimension, problem.clients
    clients = InProcess(problem)
    with clients.working(1):
        clients.weigh(np.ones(m))
        found = measure(clients, "diagonal", np.zeros(d), goal.h, float(m))
    variables = found.variables
    assert isinstance(variables, Scaled)
    h = None
    if goal.h is not None:
        weights = np.asarray(_penalty(goal).quadratic(d))
        if problem.intercepts is not None and weights[problem.intercepts].any():
            return None
        h = pdmm.SquaredL2(weights * variables.scale**2)

    def gap(y: Vector) -> float:
        return goal.gap(variables.to_x(y))

    return replace(
        goal,
        problem=problem.in_variables(variables),
        h=h,
        gap=gap,
        x=variables.to_y(goal.x),
        given=None,
        exchanges=found.exchanges,
        numbers=found.numbers_up,
    )
