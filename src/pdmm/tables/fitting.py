"""``pdmm.fit``: from tables in silos to a model, by a formula."""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import not_negative, one_of
from pdmm.common.threads import Threads
from pdmm.problems.glm.families import Huber
from pdmm.problems.glm.statistics import Statistics, statistics
from pdmm.regularisers import ElasticNet, Regulariser
from pdmm.result import Result
from pdmm.solve import solve
from pdmm.tables.agreement import Agreement, reach_agreement
from pdmm.tables.cross_validation import choose
from pdmm.tables.design import Table, build, encode, spreads
from pdmm.tables.fitted import Fit
from pdmm.tables.folds import check_options
from pdmm.tables.formulas import Formula, columns_in, read_formula
from pdmm.tables.inference import dependent, infer
from pdmm.tables.reading import Given, read_data
from pdmm.tables.stored import Stored, how_it_was_made

Vector = npt.NDArray[np.float64]


def fit(
    formula: str,
    data: Any,
    client: str | None = None,
    family: Any = "binomial",
    l1: Any = 0.0,
    l2: Any = 0.0,
    standardise: bool = False,
    missing: Literal["error", "drop", "mean"] = "error",
    covariance: Literal["model", "robust", "client"] = "model",
    offset: str | None = None,
    weights: str | None = None,
    *,
    scale: Any = None,
    ties: Literal["efron", "breslow"] = "efron",
    reference: Any = None,
    folds: Any = 5,
    penalties: int = 50,
    seed: int = 0,
    curvature: Literal["auto", "full", "diagonal", "none"] = "auto",
    rounds: int | None = None,
    progress: bool = False,
    threads: int | None = None,
) -> Fit:
    """Fit a model to tables that stay with their clients, by a formula.

    The answer is that of one table with the rows of all clients: coefficients, standard errors,
    p-values and likelihood are those of ``sm.GLM`` of statsmodels on it. Clients agree on kinds,
    levels and means by sums and unions, and then send sums of gradients and Hessians.

    Args:
        formula: e.g. ``"died ~ age + C(sex) + bmi"``, as formulaic reads it; of Cox's model
            ``"Surv(time, event) ~ age"``.
        data: a DataFrame with a column of clients, a dict of DataFrames (or paths) by client, the
            path of a CSV or Parquet file, or several paths, whose names are the clients.
        client: the column that holds the clients' names. It may stand in the formula.
        family: "gaussian", "binomial", "poisson", "gamma", "multinomial", "cox" or
            ``pdmm.Huber(delta)``.
        l1: the weight of the sum of the absolute coefficients, or "cv" to choose it by
            cross-validation. The intercept is never penalised.
        l2: the weight of half the sum of the squared coefficients, or "cv".
        standardise: whether penalties treat all columns as if their standard deviation over all
            clients were 1. Coefficients are in the units of the columns all the same.
        missing: what becomes of rows with missing entries: "error" refuses them, "drop" leaves
            them out, "mean" puts the mean over all clients in the place of a number.
        covariance: "model"; "robust" (HC0), which does not trust the variance of the family; or
            "client", clustered by client.
        offset: a column, or an expression such as ``"np.log(years)"``, added to the linear
            predictor.
        weights: a column, or an expression, of how often each row counts.
        scale: None for the family's own, "pearson" for overdispersed counts, or a number.
        ties: of Cox's model.
        reference: the class of a multinomial model that others are compared with; the first one
            if not given.
        folds: of cross-validation: how many parts each client's rows are split into, or "client"
            to leave out one client at a time.
        penalties: of cross-validation: how many values are tried.
        seed: of the folds.
        curvature: what clients may reveal of their Hessians; see :func:`pdmm.solve`.
        rounds: at most so many.
        progress: show a progress bar (needs ``rich``).
        threads: how many work on blocks of clients; all cores if not given.

    Returns:
        A :class:`pdmm.tables.Fit`.

    Example:
        >>> import pandas as pd, pdmm
        >>> table = pd.DataFrame({
        ...     "ward": ["a", "a", "a", "b", "b", "b", "b", "c", "c"],
        ...     "dose": [1.0, 2.0, 3.0, 1.0, 2.0, 2.5, 4.0, 1.5, 3.0],
        ...     "falls": [1, 3, 4, 0, 2, 5, 9, 1, 3],
        ... })
        >>> model = pdmm.fit("falls ~ dose", table, client="ward", family="poisson")
        >>> model.params.round(4).to_dict()
        {'Intercept': -0.8364, 'dose': 0.765}
        >>> model.predict(pd.DataFrame({"dose": [2.0]})).round(3).tolist()
        [2.001]
    """
    _check(family, l1, l2, standardise, missing, covariance, scale)
    _check_expressions(offset=offset, weights=weights)
    if "cv" in (l1, l2):
        check_options(folds, penalties, seed)
    extra = [expression for expression in (offset, weights) if expression is not None]
    given, read = _read(formula, data, client, missing, extra)
    name = family.name if isinstance(family, Huber) else family
    if read.survival != (name == "cox"):
        raise ValueError(
            "Surv(time, event) on the left of a formula and family='cox' go together, got "
            f"{formula!r} and family={name!r}"
        )
    agreement = reach_agreement(given.clients, read, extra, missing, name, weights)
    rows = encode(given.clients, agreement, offset, weights)
    table = build(rows, agreement, family, ties, reference)
    widths = spreads(table.problem) if standardise and _is_penalised(l1, l2) else None
    settings = Settings(curvature, rounds, progress, threads)
    notes = agreement.notes
    path = None
    if "cv" in (l1, l2):
        choice = choose(table, l1, l2, widths, folds, penalties, seed, settings)
        l1 = choice.l1
        l2 = choice.l2
        path = choice.path
        notes = (*notes, choice.note)
    penalised = _is_penalised(l1, l2)
    result = settings.solve(table, penalty(table, l1, l2, widths))
    if not penalised:
        _refuse_undetermined(result, table)
    each = sums(table, result.x, covariance == "robust" and not penalised, threads)
    total = added(each)
    if covariance == "client" and not penalised:
        _check_clusters(len(each), len(result.x))
    found = infer(total, each, name, covariance, scale, penalised)
    stored = Stored(
        encoding=agreement.encoding,
        layout=table.layout,
        family=name,
        delta=family.delta if isinstance(family, Huber) else None,
        x=result.x,
        inference=found,
        covariance=covariance,
        l1=float(l1),
        l2=float(l2),
        standardise=bool(standardise),
        missing=missing,
        offset=offset,
        weights=weights,
        ties=ties,
        client=client,
        sites=_counted(given, agreement, table, each),
        unlabelled=given.unlabelled,
        notes=notes,
        certificate=result.certificate,
        how=how_it_was_made(result, table.problem),
        path=path,
    )
    return Fit(stored, result=result, table=table, each=tuple(each))


@dataclass(frozen=True)
class Settings:
    """How problems are solved."""

    curvature: Any
    rounds: int | None
    progress: bool
    threads: int | None

    def solve(self, table: Table, regulariser: Regulariser | None, x0: Any = None) -> Result:
        """Minimise over all clients."""
        return solve(
            table.problem,
            rounds=self.rounds,
            x0=x0,
            regulariser=regulariser,
            curvature=self.curvature,
            progress=self.progress,
            threads=self.threads,
            optimum=False,
        )


def _check(
    family: Any, l1: Any, l2: Any, standardise: Any, missing: str, covariance: str, scale: Any
) -> None:
    one_of("missing", missing, ("error", "drop", "mean"))
    one_of("covariance", covariance, ("model", "robust", "client"))
    for name, value in (("l1", l1), ("l2", l2)):
        if not (isinstance(value, str) and value == "cv"):
            not_negative(name, value)
    if not isinstance(standardise, bool | np.bool_):
        raise ValueError(f"standardise must be True or False, got {standardise!r}")
    if scale is not None and scale != "pearson":
        not_negative("scale", scale)
    if isinstance(family, Huber) and covariance == "model" and not _is_penalised(l1, l2):
        raise ValueError(
            "a Huber loss is no likelihood, so that its model has no covariance: give "
            "covariance='robust' or 'client'"
        )


def _check_expressions(**given: Any) -> None:
    for name, expression in given.items():
        if expression is not None and not isinstance(expression, str):
            raise ValueError(
                f"{name} must be the name of a column, or an expression such as 'np.log(years)', "
                f"got {type(expression).__name__}"
            )


def _is_penalised(l1: Any, l2: Any) -> bool:
    return "cv" in (l1, l2) or l1 > 0 or l2 > 0


def _read(
    formula: str, data: Any, client: Any, missing: str, extra: Sequence[str]
) -> tuple[Given, Formula]:
    """The clients' tables and the formula, whose dot stands for all columns that they share."""
    if not isinstance(formula, str) or "." not in _bare(formula):
        read = read_formula(formula, None, extra)
        return read_data(data, client, read.columns, missing), read
    given = read_data(data, client, None, missing)
    everywhere = given.clients[0].columns()
    for one in given.clients[1:]:
        own = set(one.columns())
        everywhere = [name for name in everywhere if name in own]
    taken = {client, *(name for text in extra for name in columns_in(text))}
    return given, read_formula(formula, [name for name in everywhere if name not in taken], extra)


def _bare(formula: str) -> str:
    """A formula without the dots that are no columns: those of np.log and of numbers."""
    return re.sub(r"\bnp\.|\d+\.\d*|\.\d+|`[^`]*`|'[^']*'|\"[^\"]*\"", "", formula)


def penalty(table: Table, l1: float, l2: float, widths: Vector | None) -> Regulariser | None:
    """h, with a weight for each entry of x; None where there is none."""
    if not (l1 or l2):
        return None
    weights = table.layout.weights(widths)
    return ElasticNet(l1=l1 * weights, l2=l2 * weights**2)


def sums(table: Table, x: Vector, robust: bool, threads: int | None) -> list[Statistics]:
    """What each client says at x."""
    with Threads(threads) as pool:
        ask = partial(statistics, table.problem, x, robust=robust)
        return list(pool.map(ask, range(table.problem.clients)))


def added(each: Sequence[Statistics]) -> Statistics:
    """What all of them say together."""
    total = each[0]
    for own in each[1:]:
        total = total.plus(own)
    return total


def _refuse_undetermined(result: Result, table: Table) -> None:
    """Raise where there is no estimate, or more than one, and say which columns are to blame."""
    if result.certificate.gap is not None:
        return
    reason = result.reason.split(": ", 1)[-1]
    if "not determined" in reason:
        order = table.layout.order
        H = table.problem.hessian(result.x)[np.ix_(order, order)]
        # Cox's model compares a client's rows with each other only: what they share has no effect.
        cox = table.problem.family == "cox"
        nothing = "is constant within every client" if cox else "is 0 in all rows"
        found = dependent(H, table.layout.labels, nothing)
        words = "; ".join(found[:5]) or "some columns depend on each other, nearly"
        raise ValueError(
            f"the coefficients are not determined: {words}. Leave such columns out of the formula, "
            "or give l2"
        )
    if "separated" in reason or "infinity" in reason:
        raise ValueError(
            "there is no estimate: the outcomes are separated, all or a part of them, by a "
            "combination of the columns, so that the likelihood grows for ever with its "
            "coefficients. Leave out a column, or give l2, which leaves an estimate whatever the "
            "outcomes"
        )
    warnings.warn(f"the estimate is not certified: {result.reason}", stacklevel=3)


def _check_clusters(clusters: int, parameters: int) -> None:
    if clusters < 2:
        raise ValueError("covariance='client' needs at least two clients with complete rows")
    if clusters <= parameters:
        warnings.warn(
            f"covariance='client' has {clusters} clusters for {parameters} parameters: standard "
            "errors from so few are too small",
            stacklevel=3,
        )


def _counted(
    given: Given, agreement: Agreement, table: Table, each: Sequence[Statistics]
) -> dict[str, dict[str, float]]:
    """Rows, dropped rows and events of every client, also of those without a complete row."""
    own = dict(zip(table.names, each, strict=True))
    found = {}
    for one in given.clients:
        rows, complete = agreement.counts[one.name]
        found[one.name] = {
            "rows": complete,
            "dropped": rows - complete,
            "n": own[one.name].n if one.name in own else 0.0,
            "events": own[one.name].events if one.name in own else 0.0,
        }
    return found
