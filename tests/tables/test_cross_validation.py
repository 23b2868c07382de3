import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.linear_model import (
    LassoCV,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    enet_path,
)

import pdmm
from pdmm.common.threads import Threads
from pdmm.tables.cross_validation import judge, sums_of
from pdmm.tables.design import Layout, Table, spreads
from pdmm.tables.fold_sums import ClientSums
from pdmm.tables.folds import Folds, count_held, draw_folds, no_folds
from pdmm.tables.path import Path as Fits
from pdmm.tables.path import follow
from pdmm.tables.penalties import Sweep
from twins.cross_validation import held_deviances

Vector = npt.NDArray[np.float64]

LASSO = Sweep(None, 0.0)
RIDGE = Sweep(0.0, None)
NET = Sweep(None, None)
FAMILIES = ("gaussian", "binomial", "poisson", "gamma", "multinomial", "cox", "huber")
SIZES = (40, 25, 3, 52)


def outcomes(family: str, eta: Vector, rng: np.random.Generator) -> Any:
    n = len(eta)
    if family == "binomial":
        return (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    if family == "poisson":
        return rng.poisson(np.exp(eta / 2)).astype(float)
    if family == "gamma":
        return rng.gamma(2.0, np.exp(eta / 2) / 2) + 1e-3
    if family == "multinomial":
        return np.argmax(np.column_stack([0 * eta, eta, -eta]) + rng.gumbel(size=(n, 3)), axis=1)
    if family == "cox":
        time = np.round(rng.exponential(np.exp(-eta / 2)), 1) + 0.1
        return np.column_stack([time, rng.random(n) < 0.7])
    return eta + rng.standard_normal(n)


def table(
    family: Any, seed: int = 0, columns: int = 5, weighted: bool = False, sizes: Any = SIZES
) -> Table:
    """Clients with three to fifty rows, whose columns have different scales."""
    rng = np.random.default_rng(seed)
    name = "huber" if isinstance(family, pdmm.Huber) else family
    X = rng.standard_normal((sum(sizes), columns)) * 2.0 ** np.arange(-1, columns - 1) + 3.0
    slopes = np.where(np.arange(columns) % 2, 0.0, 1.0) / 2.0 ** np.arange(-1, columns - 1)
    y = outcomes(name, (X - 3.0) @ slopes, rng)
    cuts = np.cumsum(sizes)[:-1]
    w = rng.integers(0, 3, len(X)).astype(float) if weighted else np.ones(len(X))
    w[np.append(0, cuts)] = 2.0
    offset = None if name == "multinomial" else np.split(rng.standard_normal(len(X)) / 4, cuts)
    problem = pdmm.GLM(
        np.split(X, cuts),
        np.split(y, cuts),
        family,
        sample_weight=np.split(w, cuts) if weighted else None,
        offset=offset if weighted else None,
    )
    names = (*(f"c{j}" for j in range(columns)), *(["Intercept"] * problem.intercept))
    classes = tuple(problem._rows.kept)
    layout = Layout(names, problem.intercept, classes)
    return Table(problem, layout, tuple(f"site {i}" for i in range(len(sizes))))


def paths(
    made: Table,
    sweep: Sweep,
    folds: Folds | None = None,
    count: int = 6,
    close: float = 1e-8,
    widths: Vector | None = None,
) -> Fits:
    problem = made.problem
    split = no_folds(problem) if folds is None else folds
    shares = np.ones(1) if folds is None else count_held(problem, folds).shares
    with Threads(1) as threads:
        return follow(
            sums_of(problem, split, threads),
            sweep,
            made.layout.weights(widths),
            shares,
            count,
            int(problem.samples.sum()) > problem.dimension,
            close,
        )


def pooled(made: Table) -> tuple[Vector, Vector]:
    problem = made.problem
    return np.vstack([A[:, : problem.features] for A in problem._rows.A]), problem._rows.y


def frame(family: str = "binomial", rows: int = 120, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 3))
    y = outcomes(family, X @ [1.0, -0.5, 0.0], rng)
    found = pd.DataFrame(X, columns=["a", "b", "c"])
    found["site"] = np.repeat(["x", "y", "z"], rows // 3)
    if family == "cox":
        return found.assign(time=y[:, 0], event=y[:, 1])
    return found.assign(y=y)


# --- the path, beside scikit-learn's -------------------------------------------------------------


@pytest.mark.parametrize(("sweep", "ratio"), [(LASSO, 1.0), (NET, 0.5)])
def test_least_squares_with_l1_have_the_path_of_scikit_learn(sweep: Sweep, ratio: float) -> None:
    made = table("gaussian", columns=8)
    found = paths(made, sweep, count=30)
    X, y = pooled(made)
    centred = X - X.mean(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no gap is as small as 0
        _, theirs, _ = enet_path(
            centred,
            y - y.mean(),
            l1_ratio=ratio,
            alphas=found.penalties / len(y),
            tol=0.0,
            max_iter=3000,
        )
    assert np.abs(found.coefficients[:, :-1] - theirs.T).max() < 1e-8
    intercepts = y.mean() - theirs.T @ X.mean(axis=0)
    assert np.abs(found.coefficients[:, -1] - intercepts).max() < 1e-8
    assert not found.coefficients[0, :-1].any()
    assert found.coefficients[1, :-1].any()


def test_ridge_has_the_coefficients_of_scikit_learn() -> None:
    made = table("gaussian")
    found = paths(made, RIDGE, count=20)
    X, y = pooled(made)
    for c, ours in zip(found.penalties, found.coefficients, strict=True):
        theirs = Ridge(alpha=c, solver="cholesky").fit(X, y)
        assert np.allclose(ours, np.append(theirs.coef_, theirs.intercept_), rtol=1e-8, atol=1e-10)


def test_cross_validated_lasso_is_that_of_scikit_learn() -> None:
    made = table("gaussian", sizes=(40, 20, 60))
    folds = draw_folds(made, 5, 0)
    found = paths(made, LASSO, folds, count=20)
    losses = judge(found, count_held(made.problem, folds))
    X, y = pooled(made)
    splits = [
        (np.flatnonzero(folds.labels != k), np.flatnonzero(folds.labels == k)) for k in range(5)
    ]
    theirs = LassoCV(alphas=found.penalties / len(y), cv=splits, tol=1e-13, max_iter=10**6)
    theirs.fit(X, y)
    assert np.allclose(losses.mean, theirs.mse_path_.mean(axis=1), rtol=1e-9)
    spread = theirs.mse_path_.std(axis=1, ddof=1) / np.sqrt(5)
    assert np.allclose(losses.error, spread, rtol=1e-7)
    assert np.isclose(found.penalties[losses.best] / len(y), theirs.alpha_)


def test_logistic_ridge_is_that_of_scikit_learn() -> None:
    made = table("binomial")
    found = paths(made, RIDGE, count=5)
    X, y = pooled(made)
    for c, ours in zip(found.penalties, found.coefficients, strict=True):
        theirs = LogisticRegression(C=1 / c, solver="newton-cholesky", tol=1e-12, max_iter=500)
        theirs.fit(X, y)
        assert np.allclose(ours, np.append(theirs.coef_[0], theirs.intercept_), atol=1e-8)


@pytest.mark.parametrize(("sweep", "ratio"), [(LASSO, 1.0), (NET, 0.5)])
def test_logistic_paths_with_l1_are_those_of_scikit_learn(sweep: Sweep, ratio: float) -> None:
    made = table("binomial")
    X, y = pooled(made)
    X = (X - X.mean(axis=0)) / X.std(axis=0)  # saga does not arrive on columns as they come
    cuts = made.problem._rows.starts[1:-1]
    problem = pdmm.GLM(np.split(X, cuts), np.split(y, cuts))
    found = paths(Table(problem, made.layout, made.names), sweep, count=8)
    assert found.coefficients[0, -1] == pytest.approx(np.log(y.mean() / (1 - y.mean())), rel=1e-9)
    for c, ours in list(zip(found.penalties, found.coefficients, strict=True))[1:6]:
        theirs = LogisticRegression(
            C=1 / c, l1_ratio=ratio, solver="saga", tol=1e-11, max_iter=100_000, random_state=0
        ).fit(X, y)
        assert np.allclose(ours, np.append(theirs.coef_[0], theirs.intercept_), atol=1e-6)
        assert np.array_equal(ours[:-1] == 0, theirs.coef_[0] == 0)


def test_poisson_paths_are_those_of_scikit_learn() -> None:
    made = table("poisson")
    found = paths(made, RIDGE, count=6)
    X, y = pooled(made)
    for c, ours in zip(found.penalties, found.coefficients, strict=True):
        theirs = PoissonRegressor(
            alpha=c / len(y), solver="newton-cholesky", tol=1e-12, max_iter=1000
        ).fit(X, y)
        assert np.allclose(ours, np.append(theirs.coef_, theirs.intercept_), atol=1e-7)


# --- the loss, beside a naive twin ---------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_losses_are_those_of_refitting_every_fold(family: Any) -> None:
    given = pdmm.Huber(1.0) if family == "huber" else family
    made = table(given, seed=1, weighted=True)
    widths = spreads(made.problem)
    folds = draw_folds(made, 3, 7)
    sweep = {"poisson": RIDGE, "gamma": NET, "cox": LASSO}.get(family, Sweep(None, 0.5))
    found = paths(made, sweep, folds, count=4, widths=widths)
    pairs = [sweep.at(c) for c in found.penalties]
    unit = made.layout.weights(widths)
    twin = held_deviances(made.problem, given, folds.labels, unit, pairs, False)
    assert np.allclose(found.held, twin, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "cox"])
def test_leaving_out_clients_is_the_naive_loop(family: str) -> None:
    made = table(family, seed=2, columns=3, sizes=(30, 40, 12))
    folds = draw_folds(made, "client", 0)
    assert folds.count == 3
    found = paths(made, RIDGE, folds, count=4)
    pairs = [RIDGE.at(c) for c in found.penalties]
    unit = made.layout.weights(None)
    twin = held_deviances(made.problem, family, folds.labels, unit, pairs, True)
    assert np.allclose(found.held, twin, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("family", ["binomial", "gamma", "cox"])
def test_the_usual_tolerance_does_not_show_in_the_losses(family: str) -> None:
    made = table(family, seed=4)
    folds = draw_folds(made, 4, 0)
    held = count_held(made.problem, folds)
    loose = judge(paths(made, LASSO, folds, count=20, close=1e-3), held)
    tight = judge(paths(made, LASSO, folds, count=20, close=1e-9), held)
    assert np.abs(loose.mean - tight.mean).max() < 1e-2 * tight.error.min()
    assert loose.best == tight.best


# --- warm starts, rounding, hard cases -----------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "binomial", "multinomial"])
def test_where_a_fit_began_does_not_matter(family: str) -> None:
    made = table(family)
    few = paths(made, NET, count=2)
    many = paths(made, NET, count=25)
    assert np.isclose(few.penalties[-1], many.penalties[-1])
    assert np.allclose(few.coefficients[-1], many.coefficients[-1], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_columns_far_from_zero_cost_no_digits(family: str) -> None:
    made = table(family)
    problem = made.problem
    X, y = pooled(made)
    cuts = problem._rows.starts[1:-1]
    far = pdmm.GLM(np.split(X + 1e6, cuts), np.split(y, cuts), family)
    folds = draw_folds(made, 3, 0)
    near = paths(made, LASSO, folds)
    moved = paths(Table(far, made.layout, made.names), LASSO, folds)
    assert np.allclose(moved.penalties, near.penalties, rtol=1e-8)
    assert np.allclose(moved.held, near.held, rtol=1e-7)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
@pytest.mark.parametrize("sweep", [LASSO, RIDGE])
def test_more_columns_than_rows(family: str, sweep: Sweep) -> None:
    made = table(family, columns=25, sizes=(8, 9))
    scales = spreads(made.problem)
    found = paths(made, sweep, draw_folds(made, 4, 0), count=15, close=1e-4, widths=scales)
    assert np.isfinite(found.held).all()
    assert np.isclose(found.penalties[-1] / found.penalties[0], 1e-2 if sweep is LASSO else 1e-5)
    if sweep is LASSO:
        assert 0 < np.count_nonzero(found.coefficients[-1, :-1]) <= 16


def test_columns_that_are_alike_and_columns_that_are_constant() -> None:
    data = frame("binomial")
    data["twin"] = data["a"]
    data["flat"] = 4.0
    plain = pdmm.fit("y ~ a + b + c", data, "site", l2="cv", penalties=5, folds=3)
    fit = pdmm.fit("y ~ a + b + c + twin + flat", data, "site", l2="cv", penalties=5, folds=3)
    assert np.isclose(fit.params["a"], fit.params["twin"])
    assert np.isclose(fit.params["flat"], 0.0, atol=1e-6)
    assert fit.path is not None
    assert plain.path is not None
    assert fit.path["loss"].iloc[-1] == pytest.approx(plain.path["loss"].iloc[-1], rel=1e-2)


def test_separated_outcomes_have_a_path() -> None:
    data = frame("binomial").assign(y=lambda own: (own["a"] > 0).astype(int))
    fit = pdmm.fit("y ~ a + b", data, "site", l1="cv", penalties=10)
    assert fit.path is not None
    assert fit.path["loss"].is_monotonic_decreasing
    assert fit.path["rounds"].max() < 20


def test_outcomes_of_any_size_have_a_null_model() -> None:
    made = table("poisson")
    X, y = pooled(made)
    cuts = made.problem._rows.starts[1:-1]
    large = pdmm.GLM(np.split(X, cuts), np.split(1e6 * (y + 1), cuts), "poisson")
    found = paths(Table(large, made.layout, made.names), LASSO, count=5)
    assert found.total < 40
    assert found.coefficients[0, -1] == pytest.approx(np.log(1e6 * (y + 1).mean()))


# --- folds ---------------------------------------------------------------------------------------


def test_folds_come_from_the_seed_and_the_clients_own_name() -> None:
    made = table("gaussian")
    folds = draw_folds(made, 5, 3)
    assert np.array_equal(folds.labels, draw_folds(made, 5, 3).labels)
    assert not np.array_equal(folds.labels, draw_folds(made, 5, 4).labels)
    first = made.problem.subset([slice(None), slice(0), slice(0), slice(0)])
    alone = draw_folds(Table(first, made.layout, made.names[:1]), 5, 3)
    assert np.array_equal(alone.labels, folds.labels[: SIZES[0]])
    starts = made.problem._rows.starts
    for i, rows in enumerate(SIZES):
        counts = np.bincount(folds.labels[starts[i] : starts[i + 1]], minlength=5)
        assert counts.sum() == rows
        assert counts.max() - counts.min() <= 1


def test_rows_that_count_nothing_change_nothing() -> None:
    data = frame("poisson").assign(times=1.0)
    extra = data.iloc[::7].assign(times=0.0, y=50)
    more = pd.concat([data, extra], ignore_index=True)
    options: dict[str, Any] = {"family": "poisson", "l1": "cv", "weights": "times", "penalties": 5}
    plain = pdmm.fit("y ~ a + b", data, "site", **options)
    longer = pdmm.fit("y ~ a + b", more, "site", **options)
    assert plain.path is not None
    assert longer.path is not None
    pd.testing.assert_frame_equal(plain.path, longer.path, rtol=1e-9)


def test_threads_do_not_matter() -> None:
    one = pdmm.fit("y ~ a + b + c", frame(), "site", l1="cv", penalties=8, threads=1)
    two = pdmm.fit("y ~ a + b + c", frame(), "site", l1="cv", penalties=8, threads=2)
    assert one.path is not None
    pd.testing.assert_frame_equal(one.path, two.path, check_exact=True)


# --- what a user sees ----------------------------------------------------------------------------


@pytest.mark.parametrize(("l1", "l2"), [("cv", 0.0), (0.0, "cv"), ("cv", "cv"), ("cv", 1.0)])
def test_the_chosen_penalty_has_the_smallest_loss_and_is_fitted(l1: Any, l2: Any) -> None:
    fit = pdmm.fit("y ~ a + b + c", frame(), "site", l1=l1, l2=l2, standardise=True, penalties=12)
    path = fit.path
    assert path is not None
    columns = "penalty l1 l2 loss error nonzero rounds chosen one_se"
    assert list(path) == columns.split()
    assert len(path) == 12
    best = path[path["chosen"]].iloc[0]
    assert best["loss"] == path["loss"].min()
    assert fit.penalty == {"l1": best["l1"], "l2": best["l2"]}
    simple = path[path["one_se"]].iloc[0]
    within = path[path["loss"] <= best["loss"] + best["error"]]
    assert simple["penalty"] == within["penalty"].max()
    if (l1, l2) == ("cv", "cv"):
        assert (path["l1"] == path["penalty"] / 2).all()
        assert (path["l2"] == path["penalty"] / 2).all()
    chosen: dict[str, Any] = fit.penalty
    again = pdmm.fit("y ~ a + b + c", frame(), "site", standardise=True, **chosen)
    assert np.array_equal(fit.params, again.params)
    assert fit.certificate.gap is not None
    assert np.count_nonzero(fit.params.iloc[1:]) == best["nonzero"]


def test_the_path_is_told_and_kept(tmp_path: Path) -> None:
    fit = pdmm.fit("y ~ a + b + c", frame(), "site", l1="cv", penalties=6)
    path = fit.path
    assert path is not None
    rounds = path.attrs["rounds"]
    assert rounds > path["rounds"].sum() > 0
    words = "5-fold cross-validation within clients out of 6 values, in"
    said = " ".join(fit.summary().split())
    assert f"l1 = {fit.penalty['l1']:.4g} was chosen by {words} {rounds} rounds" in said
    loaded = pdmm.load(fit.save(tmp_path / "model.pdmm"))
    assert loaded.path is not None
    pd.testing.assert_frame_equal(loaded.path, path)
    assert loaded.path.attrs == path.attrs
    assert loaded.notes == fit.notes


def test_a_fit_without_cross_validation_has_no_path(tmp_path: Path) -> None:
    fit = pdmm.fit("y ~ a", frame(), "site", l1=1.0)
    assert fit.path is None
    assert pdmm.load(fit.save(tmp_path / "model.pdmm")).path is None


def test_rounds_are_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    exchange = ClientSums._exchange

    def counted(self: ClientSums, *given: Any) -> Any:
        asked.append(given)
        return exchange(self, *given)

    monkeypatch.setattr(ClientSums, "_exchange", counted)
    fit = pdmm.fit("y ~ a + b", frame(), "site", l1="cv", penalties=10)
    assert fit.path is not None
    assert fit.path.attrs["rounds"] == len(asked) + 2  # means, and squares about them
    assert len(asked) <= 25
    linear = pdmm.fit("y ~ a + b", frame("gaussian"), "site", "gaussian", l1="cv", penalties=10)
    assert linear.path is not None
    assert linear.path.attrs["rounds"] == 2


def test_survival_by_folds_and_by_client() -> None:
    data = frame("cox")
    for folds in (4, "client"):
        fit = pdmm.fit(
            "Surv(time, event) ~ a + b + c", data, "site", "cox", l1="cv", folds=folds, penalties=8
        )
        assert fit.path is not None
        assert fit.params["a"] > 0
        assert fit.path["loss"].min() < fit.path["loss"].iloc[0]


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "folds must be at least 2, got 1"),
        ({"folds": 2.5}, "folds must be a whole number, got 2.5"),
        ({"folds": "site"}, "folds must be a whole number or 'client', got 'site'"),
        ({"folds": 41}, "folds=41, but no client has more than 40 rows: give folds=40 or fewer"),
        ({"penalties": 1}, "penalties must be at least 2, got 1"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"curvature": "none"}, "needs Hessians of the clients, which curvature='none' does not"),
    ],
)
def test_bad_options_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.fit("y ~ a", frame(), "site", l1="cv", **options)


def test_one_client_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="folds='client' leaves out one client at a time, and"):
        pdmm.fit("y ~ a", {"only": frame()}, l1="cv", folds="client")


def test_folds_without_a_class_are_refused() -> None:
    data = frame()
    data["y"] = 0.0
    data.loc[5, "y"] = 1.0
    with pytest.raises(ValueError, match=r"fold \d of 5 leaves no row with the outcome 1 to train"):
        pdmm.fit("y ~ a", data, "site", l2="cv")
    with pytest.raises(ValueError, match="leaving out client 'x' leaves no row with the outcome 1"):
        pdmm.fit("y ~ a", data, "site", l2="cv", folds="client")
    data["y"] = 0.0
    with pytest.raises(ValueError, match="no row has the outcome 1"):
        pdmm.fit("y ~ a", data, "site", l2="cv")


def test_survival_without_events_is_refused() -> None:
    data = frame("cox")
    data["event"] = 0.0
    data.loc[[1, 50, 90], "event"] = 1.0
    with pytest.raises(ValueError, match="holds out no event"):
        pdmm.fit("Surv(time, event) ~ a", data, "site", "cox", l1="cv")


def test_nothing_to_penalise_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no coefficient to penalise"):
        pdmm.fit("y ~ d", frame().assign(d=4.0), "site", l1="cv", standardise=True)
    with pytest.raises(ValueError, match="is the outcome constant"):
        pdmm.fit("y ~ a", frame().assign(y=2.0), "site", "gaussian", l1="cv")
