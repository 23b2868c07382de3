"""A fitted model: its numbers, tests, predictions, and what is made of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from pdmm.common.checks import number
from pdmm.problems.glm.statistics import Statistics
from pdmm.result import Certificate, Result
from pdmm.tables import nested, predicting
from pdmm.tables.design import Table
from pdmm.tables.inference import Test
from pdmm.tables.sites import own_estimates, score_tests
from pdmm.tables.stored import Stored, read, save
from pdmm.tables.summary import Summary, summarise

Vector = npt.NDArray[np.float64]


class Fit:
    """A model that was fitted to tables in silos, or read from a file.

    Its numbers have the names and the conventions of ``sm.GLM(...).fit()`` of statsmodels; those of
    a Cox model, of ``PHReg``.
    """

    def __init__(
        self,
        stored: Stored,
        result: Result | None = None,
        table: Table | None = None,
        each: Sequence[Statistics] = (),
    ) -> None:
        self._stored = stored
        self._table = table
        self._each = each
        self.result = result
        """The run behind it, a :class:`pdmm.Result`; None of a model that was read from a file."""

    # --- what it is ---------------------------------------------------------------------------

    @property
    def formula(self) -> str:
        """The formula, as it was written."""
        return self._stored.formula.text

    @property
    def family(self) -> str:
        """The name of the family."""
        return self._stored.family

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The classes of the outcome; of two, the second is the one whose odds are modelled."""
        return self._stored.encoding.classes

    @property
    def levels(self) -> dict[str, tuple[Any, ...]]:
        """The levels of each category, the reference first."""
        return dict(self._stored.encoding.levels)

    @property
    def certificate(self) -> Certificate:
        """How near the coefficients are to the optimum of the pooled table."""
        return self._stored.certificate

    @property
    def error_bound(self) -> float | None:
        """No coefficient is further from the pooled estimate than so many of its standard errors.

        None where that is not proven, or there are no standard errors.
        """
        inference, proven = self._stored.inference, self.certificate.standard_errors
        if proven is None or inference.covariance is None or inference.spread is None:
            return None
        errors = np.sqrt(np.diag(inference.covariance))
        return proven * float((inference.spread / errors).max())

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how the data were read."""
        return self._stored.notes

    @property
    def penalty(self) -> dict[str, float]:
        """The weights of the penalty, those that cross-validation chose among them."""
        return {"l1": self._stored.l1, "l2": self._stored.l2}

    @cached_property
    def path(self) -> pd.DataFrame | None:
        """Of cross-validation: a row for each penalty that was tried; None without one.

        ``loss`` is the deviance per row that was held out (of Cox's model, per event), ``error``
        its standard error over folds, ``nonzero`` how many penalised coefficients the fit on all
        rows has. ``rounds`` are those spent at this penalty, and ``path.attrs["rounds"]`` all.
        """
        stored = self._stored.path
        if stored is None:
            return None
        found = pd.DataFrame(stored["columns"])
        losses = {name: found[name].astype(np.float64) for name in ("loss", "error")}
        found = found.assign(**losses)
        found.attrs["rounds"] = stored["rounds"]
        return found

    # --- estimates ----------------------------------------------------------------------------

    @property
    def params(self) -> "pd.Series[float]":
        """The coefficients, the intercept first."""
        return self._series(self._stored.x)

    def cov_params(self) -> pd.DataFrame:
        """The covariance of the coefficients, of the kind that was asked for."""
        order, index = self._stored.layout.order, self._stored.layout.index
        covariance = self._covariance[np.ix_(order, order)]
        return pd.DataFrame(covariance, index=index, columns=index)

    @property
    def bse(self) -> "pd.Series[float]":
        """The standard errors."""
        return self._series(np.sqrt(np.diag(self._covariance)))

    @property
    def tvalues(self) -> "pd.Series[float]":
        """Coefficients divided by their standard errors."""
        return self.params / self.bse

    @property
    def pvalues(self) -> "pd.Series[float]":
        """Two-sided, by the normal distribution."""
        return pd.Series(2 * stats.norm.sf(np.abs(self.tvalues)), index=self.params.index)

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals that hold the true coefficients with a probability of 1 - alpha."""
        if not 0 < number("alpha", alpha) < 1:
            raise ValueError(f"alpha must be between 0 and 1, got {alpha!r}")
        reach = float(stats.norm.ppf(1 - alpha / 2)) * self.bse
        return pd.DataFrame({0: self.params - reach, 1: self.params + reach})

    # --- the fit as a whole -------------------------------------------------------------------

    @property
    def nobs(self) -> float:
        """The number of rows, or the sum of their weights."""
        return self._stored.inference.n

    @property
    def df_model(self) -> int:
        """How many coefficients there are beside the intercept."""
        layout = self._stored.layout
        return len(self._stored.x) - layout.intercept * max(1, len(layout.classes))

    @property
    def df_resid(self) -> float:
        """Rows less coefficients."""
        return self.nobs - len(self._stored.x)

    @property
    def scale(self) -> float:
        """The dispersion that standard errors were computed with."""
        return self._stored.inference.scale

    @property
    def llf(self) -> float:
        """The log-likelihood with its constants; of Cox's model, the partial one."""
        return self._stored.inference.log_likelihood

    @property
    def aic(self) -> float:
        """Akaike's criterion, which counts the coefficients and no scale."""
        return -2 * self.llf + 2 * len(self._stored.x)

    @property
    def bic(self) -> float:
        """The Bayesian criterion, from the log-likelihood."""
        return -2 * self.llf + float(np.log(self.nobs)) * len(self._stored.x)

    @property
    def deviance(self) -> float:
        """Twice what a model with a parameter for each row gains in log-likelihood."""
        return self._stored.inference.deviance

    @property
    def pearson_chi2(self) -> float:
        """Pearson's chi²."""
        return self._stored.inference.pearson

    # --- tests --------------------------------------------------------------------------------

    def wald_test(self, names: Any) -> Test:
        """Test that all of these coefficients are 0.

        Args:
            names: of coefficients, or one term of the formula such as "C(sex)".
        """
        if isinstance(names, str):
            names = self._stored.encoding.terms.get(names, [names])
        return nested.wald(self, names)

    def compare_wald_test(self, restricted: "Fit") -> Test:
        """Test that what a smaller model lacks is 0, by this model's covariance."""
        return nested.wald(self, nested.extra(self, restricted))

    def compare_lr_test(self, restricted: "Fit") -> Test:
        """The likelihood-ratio test of a smaller model on the same rows against this one."""
        return nested.likelihood_ratio(self, restricted)

    # --- clients ------------------------------------------------------------------------------

    @cached_property
    def sites(self) -> pd.DataFrame:
        """A row for each client: its rows, its score test against the rest, its own estimate.

        ``rows`` are those that were used and ``dropped`` those that were not; ``score``, ``df`` and
        ``pvalue`` ask whether the client differs from the others; the columns ``own ...`` are the
        coefficients of a fit to the client's rows alone, NaN where these determine none.
        """
        told = self._stored.sites
        found = pd.DataFrame.from_dict(told, orient="index").reindex(list(told))
        found.index.name = self._stored.client or "client"
        if self._table is not None:
            found = found.join(self._computed_at_clients())
        kinds = {name: int if name in ("rows", "dropped") else float for name in found}
        shown = found.astype(kinds).drop(columns=["n"], errors="ignore")
        if self.family not in ("binomial", "cox"):
            shown = shown.drop(columns=["events"], errors="ignore")
        return shown

    def _computed_at_clients(self) -> pd.DataFrame:
        assert self._table is not None
        names = list(self._table.names)
        tests = score_tests(self._stored, self._each)
        own = own_estimates(self._stored, self._table)
        columns = [f"own {label}" for label in self._stored.layout.labels]
        errors = [f"own se {label}" for label in self._stored.layout.labels]
        return pd.concat(
            [
                pd.DataFrame(tests, index=names, columns=["score", "df", "pvalue"]),
                pd.DataFrame(own.params, index=names, columns=columns),
                pd.DataFrame(own.errors, index=names, columns=errors),
            ],
            axis=1,
        )

    # --- predictions --------------------------------------------------------------------------

    def predict(self, frame: pd.DataFrame) -> "pd.Series[float] | pd.DataFrame":
        """The mean of the outcome of each row, as in statsmodels.

        It is a probability for "binomial", one for each class for "multinomial", and exp(eta) for
        "cox". A row with a missing entry has a missing prediction; a level that the model does not
        know is an error.
        """
        return predicting.mean(self._stored, frame)

    def predict_proba(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The probability of each class."""
        return predicting.probabilities(self._stored, frame)

    def predict_class(self, frame: pd.DataFrame) -> "pd.Series[Any]":
        """The most likely class of each row."""
        return predicting.classes(self._stored, frame)

    def predict_linear(self, frame: pd.DataFrame) -> Any:
        """The linear predictor eta of each row, with the offset."""
        eta = predicting.linear_predictor(self._stored, frame)
        if eta.ndim == 1:
            return pd.Series(eta, index=frame.index)
        return pd.DataFrame(eta, index=frame.index, columns=list(self._stored.layout.classes))

    def design_matrix(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows of the model matrix of a table."""
        return predicting.design_matrix(self._stored, frame)

    def evaluate(self, frame: pd.DataFrame, client: str | None = None) -> pd.DataFrame:
        """How well it predicts outcomes that are known, for each client and for all together."""
        from pdmm.tables.evaluation import evaluate

        return evaluate(self._stored, frame, client)

    def calibration(self, frame: pd.DataFrame, bins: int = 10) -> pd.DataFrame:
        """Of a binomial model: observed and expected frequencies in groups of known outcomes."""
        from pdmm.tables.evaluation import calibration_table

        return calibration_table(self._stored, frame, bins)

    # --- what is made of it -------------------------------------------------------------------

    def summary(self) -> Summary:
        """The fit as text."""
        return summarise(self)

    def report(self, path: str | Path) -> Path:
        """Write a page about the fit, one HTML file that opens offline."""
        from pdmm.tables.page import write_report

        return write_report(self, Path(path))

    def save(self, path: str | Path) -> Path:
        """Write the model to a file, which :func:`pdmm.load` reads.

        It holds coefficients, covariance, how to encode rows, counts of the clients and how the
        model was made, and no row.
        """
        rows = self.sites.to_dict("index")
        sites = {name: own | rows.get(name, {}) for name, own in self._stored.sites.items()}
        save(replace(self._stored, sites=sites), Path(path))
        return Path(path)

    def to_sklearn(self) -> Any:
        """A pipeline of scikit-learn that takes tables and predicts what this model does."""
        from pdmm.tables.export import to_sklearn

        return to_sklearn(self)

    def __repr__(self) -> str:
        what = f"{self.formula!r}, {self.family}"
        return f"Fit({what}, {self.nobs:g} rows of {self._stored.counts.clients} clients)"

    # --- inside -------------------------------------------------------------------------------

    @property
    def stored(self) -> Stored:
        """All that a model file holds."""
        return self._stored

    @property
    def _covariance(self) -> Vector:
        covariance = self._stored.inference.covariance
        if covariance is None:
            raise ValueError(self.why_no_errors)
        return covariance

    @property
    def why_no_errors(self) -> str:
        """Why there are no standard errors; empty where there are."""
        if not self._stored.penalised:
            return self._stored.no_errors
        return (
            "a penalised fit has no standard errors or p-values: a penalty moves coefficients "
            "towards 0 on purpose, and the usual formulas do not know of that. Fit without l1 and "
            "l2 for them"
        )

    def _series(self, values: Vector) -> "pd.Series[float]":
        layout = self._stored.layout
        return pd.Series(values[layout.order], index=layout.index)


def load(path: str | Path) -> Fit:
    """Read a model that was saved by ``fit.save``.

    Args:
        path: of the file. One that is damaged, or was written by a newer pdmm, is refused.

    Returns:
        A :class:`pdmm.tables.Fit` that predicts, and tells all that was saved of it.
    """
    return Fit(read(Path(path)))
