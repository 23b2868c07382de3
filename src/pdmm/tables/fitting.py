"""``pdmm.fit``: from tables in silos to a model, by a formula."""

import re
from collections.abc import Sequence
from typing import Any, Literal

from pdmm.tables.fitted import Fit
from pdmm.tables.formulas import Formula, columns_in, read_formula
from pdmm.tables.joint import check, fit_jointly
from pdmm.tables.own_silos import OwnSilos
from pdmm.tables.reading import Given, read_data
from pdmm.tables.silos import Options


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
    options = Options(
        family=family,
        l1=l1,
        l2=l2,
        standardise=standardise,
        missing=missing,
        covariance=covariance,
        offset=offset,
        weights=weights,
        scale=scale,
        ties=ties,
        reference=reference,
        folds=folds,
        penalties=penalties,
        seed=seed,
        curvature=curvature,
        rounds=rounds,
        progress=progress,
        threads=threads,
    )
    check(options)
    given, read = _read(formula, data, client, missing, options.extra)
    return fit_jointly(OwnSilos(given, client), read, options)


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
