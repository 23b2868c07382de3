"""Regression of outcomes that are never negative: PoissonRegressor, GammaRegressor."""

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score

import pdmm
from pdmm.common.checks import not_negative
from pdmm.sklearn.federated import Federated, Vector


class LogLinkRegressor(RegressorMixin, Federated):  # type: ignore[misc]
    """A model whose predictions are exp(X coef_ + intercept_).

    Args:
        alpha: the weight of the penalty; 0 for none.
        fit_intercept: whether there is an intercept, which is never penalised.
        tol: see docs/scikit_learn.md; the share of the way from 0 to the optimum that may be left.
        max_iter: rounds, at most; None for 400.
    """

    family: ClassVar[str]
    power: ClassVar[int]
    """Of the mean, to which the variance is proportional."""

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        tol: float = 1e-10,
        max_iter: int | None = 100,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, clients: Any = None) -> Self:
        """Fit the model.

        Args:
            X: (n, columns): an array, a table of pandas or a sparse matrix.
            y: (n,): the outcomes.
            sample_weight: (n,): how often each row counts.
            clients: (n,): who holds each row; None for one client that holds all of them.

        Returns:
            The estimator itself.
        """
        X, y = self._read(X, y, y_numeric=True)
        split, weight = self._rows(X, sample_weight, clients)
        strength = not_negative("alpha", self.alpha)
        strength *= float(sum(own.sum() for own in split.parts(weight)))
        with warnings.catch_warnings():
            # Outcomes that are no whole numbers are as welcome here as in scikit-learn.
            warnings.filterwarnings("ignore", ".*which is no whole number", RuntimeWarning)
            minimise = self._minimise(split, X, y.astype(np.float64), weight, self.family)
        result = minimise(pdmm.SquaredL2(strength) if strength else None)
        self.coef_ = result.x[: self.n_features_in_].copy()
        self.intercept_ = float(result.x[-1]) if self.fit_intercept else 0.0
        self._conclude([result])
        return self

    def predict(self, X: Any) -> Vector:
        """The expected outcome of each row of X."""
        return np.asarray(np.exp(self._new_rows(X) @ self.coef_ + self.intercept_))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D², the share of the deviance that is explained: 1 at best."""
        mean = self.predict(X)
        return float(d2_tweedie_score(y, mean, sample_weight=sample_weight, power=self.power))


class PoissonRegressor(LogLinkRegressor):
    """Counts with a log link and an l2 penalty, as scikit-learn's, over all clients' rows.

    It minimises half the mean Poisson deviance and alpha/2 ‖w‖².

    Args:
        alpha: the weight of the penalty; 0 for none.
        fit_intercept: whether there is an intercept, which is never penalised.
        tol: see docs/scikit_learn.md; the share of the way from 0 to the optimum that may be left.
        max_iter: rounds, at most; None for 400.

    Example:
        >>> from pdmm.sklearn import PoissonRegressor
        >>> X = [[1, 2], [2, 3], [3, 4], [4, 3]]
        >>> model = PoissonRegressor().fit(X, [12, 17, 22, 21], clients=["a", "a", "b", "b"])
        >>> model.coef_.round(3).tolist()
        [0.121, 0.158]
        >>> round(model.intercept_, 3)
        2.089
    """

    family = "poisson"
    power = 1


class GammaRegressor(LogLinkRegressor):
    """Positive numbers with a log link and an l2 penalty, as scikit-learn's, over all clients.

    It minimises half the mean gamma deviance and alpha/2 ‖w‖².

    Args:
        alpha: the weight of the penalty; 0 for none.
        fit_intercept: whether there is an intercept, which is never penalised.
        tol: see docs/scikit_learn.md; the share of the way from 0 to the optimum that may be left.
        max_iter: rounds, at most; None for 400.

    Example:
        >>> from pdmm.sklearn import GammaRegressor
        >>> X = [[1, 2], [2, 3], [3, 4], [4, 3]]
        >>> model = GammaRegressor().fit(X, [19, 26, 33, 30], clients=["a", "a", "b", "b"])
        >>> model.predict([[1, 0], [2, 8]]).round(3).tolist()
        [19.491, 35.782]
    """

    family = "gamma"
    power = 2
