"""A path of 50 penalties beside one fit, and beside scikit-learn on the pooled table.

``python -m benchmarks.path`` prints, for 100,000 rows and 30 columns at 50 clients, the seconds of
one fit by ``pdmm.solve`` and of a whole path on the same rows, their ratio and the rounds of the
path; then a 5-fold cross-validation beside LassoCV and LogisticRegressionCV in the same process.
All on one core. Where celer is installed, its path is printed too; nothing depends on it.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LassoCV, LogisticRegressionCV

import pdmm
from benchmarks.timing import heading, seconds, side_by_side
from pdmm.common.threads import Threads
from pdmm.tables.cross_validation import judge, sums_of
from pdmm.tables.design import Layout, Table
from pdmm.tables.folds import Folds, count_held, draw_folds, no_folds
from pdmm.tables.path import Path, follow
from pdmm.tables.penalties import Sweep

Vector = npt.NDArray[np.float64]

ROWS, COLUMNS, CLIENTS, PENALTIES, FOLDS, TRIES = 100_000, 30, 50, 50, 5, 3
LASSO = Sweep(None, 0.0)
RIDGE = Sweep(0.0, None)
TARGETS = {"gaussian": 6, "binomial": 15, "poisson": 15}


def data(family: str) -> tuple[Vector, Vector]:
    """A third of the columns has an effect."""
    rng = np.random.default_rng(16)
    X = rng.standard_normal((ROWS, COLUMNS))
    eta = X @ np.where(np.arange(COLUMNS) % 3, 0.0, rng.standard_normal(COLUMNS) / 3)
    if family == "binomial":
        return X, (rng.random(ROWS) < 1 / (1 + np.exp(-eta))).astype(float)
    if family == "poisson":
        return X, rng.poisson(np.exp(eta / 2)).astype(float)
    return X, eta + rng.standard_normal(ROWS)


def table(family: str) -> Table:
    X, y = data(family)
    problem = pdmm.GLM(np.array_split(X, CLIENTS), np.array_split(y, CLIENTS), family)
    names = (*(f"c{j}" for j in range(COLUMNS)), "Intercept")
    return Table(problem, Layout(names, True, ()), tuple(f"site {i}" for i in range(CLIENTS)))


def path(made: Table, sweep: Sweep, folds: Folds) -> Path:
    shares = np.ones(1) if not folds.count else count_held(made.problem, folds).shares
    with Threads(1) as threads:
        sums = sums_of(made.problem, folds, threads)
        return follow(sums, sweep, made.layout.weights(None), shares, PENALTIES, wide=True)


def one_fit(made: Table, found: Path, sweep: Sweep) -> None:
    """To its certificate, at the middle of the path."""
    l1, l2 = sweep.at(float(found.penalties[PENALTIES // 2]))
    weights = made.layout.weights(None)
    pdmm.solve(
        made.problem,
        regulariser=pdmm.ElasticNet(l1 * weights, l2 * weights),
        curvature="full",
        optimum=False,
        threads=1,
    )


def ratios() -> None:
    heading(f"One fit and a path of {PENALTIES} on the same {ROWS:,} x {COLUMNS}, one core")
    for family, target in TARGETS.items():
        made = table(family)
        whole = no_folds(made.problem)
        for name, sweep in (("l1", LASSO), ("l2", RIDGE)):
            found = path(made, sweep, whole)
            time = _timed(made, found, sweep, whole)
            ratio = time["path"] / time["fit"]
            print(
                f"  {family:9s} {name}: fit {time['fit']:6.3f} s   path {time['path']:6.3f} s   "
                f"ratio {ratio:5.2f} (at most {target})   {found.total} rounds"
            )


def _timed(made: Table, found: Path, sweep: Sweep, whole: Folds) -> dict[str, float]:
    return side_by_side(
        TRIES,
        fit=lambda: one_fit(made, found, sweep),
        path=lambda: path(made, sweep, whole),
    )


def beside_scikit_learn() -> None:
    heading(f"{FOLDS}-fold cross-validation of {PENALTIES} penalties, beside scikit-learn, pooled")
    for family, sweep, make in (
        ("gaussian", LASSO, _lasso),
        ("binomial", RIDGE, _logistic),
    ):
        made = table(family)
        folds = draw_folds(made, FOLDS, 0)
        found = path(made, sweep, folds)
        X, y = data(family)
        splits = [
            (np.flatnonzero(folds.labels != k), np.flatnonzero(folds.labels == k))
            for k in range(FOLDS)
        ]
        ours = seconds(lambda made=made, sweep=sweep, folds=folds: path(made, sweep, folds))  # type: ignore[misc]
        model, chosen = make(found.penalties, splits)
        with Threads(1):
            theirs = seconds(lambda model=model, X=X, y=y: model.fit(X, y))  # type: ignore[misc]
        best = judge(found, count_held(made.problem, folds)).best
        verdict = "slower" if ours > theirs else "faster"
        print(
            f"  {type(model).__name__:21s} {theirs:7.2f} s   pdmm {ours:7.2f} s in {found.total} "
            f"rounds: {verdict}"
        )
        print(f"    chosen: theirs {chosen(model):.4g}, pdmm {found.penalties[best]:.4g}")


def _lasso(penalties: Vector, splits: Any) -> tuple[Any, Callable[[Any], float]]:
    model = LassoCV(alphas=penalties / ROWS, cv=splits, tol=1e-6)
    return model, lambda fitted: float(fitted.alpha_ * ROWS)


def _logistic(penalties: Vector, splits: Any) -> tuple[Any, Callable[[Any], float]]:
    # Its C does not know of the share of rows: the same strength is (K - 1)/K of ours.
    share = 1 - 1 / FOLDS
    model = LogisticRegressionCV(
        Cs=1 / (share * penalties),
        cv=splits,
        scoring="neg_log_loss",
        tol=1e-6,
        max_iter=1000,
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )
    return model, lambda fitted: float(1 / np.ravel(fitted.C_)[0] / share)


def beside_celer() -> None:
    try:
        from celer import celer_path
    except ImportError:
        return
    heading("celer's lasso path on the pooled table")
    X, y = data("gaussian")
    X = np.asfortranarray(X - X.mean(axis=0))
    y = y - y.mean()
    made = table("gaussian")
    found = path(made, LASSO, no_folds(made.problem))
    alphas = found.penalties / ROWS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = celer_path(X, y, "lasso", alphas=alphas, tol=1e-12)[1].T
        time = side_by_side(
            TRIES,
            celer=lambda: celer_path(X, y, "lasso", alphas=alphas, tol=1e-8),
            pdmm=lambda: path(made, LASSO, no_folds(made.problem)),
        )
    away = np.abs(found.coefficients[:, :-1] - theirs).max()
    print(f"  celer {time['celer']:6.3f} s   pdmm {time['pdmm']:6.3f} s   differ by {away:.0e}")


def main() -> None:
    ratios()
    beside_scikit_learn()
    beside_celer()


if __name__ == "__main__":
    main()
