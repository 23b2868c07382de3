"""Linear regression with penalties: Ridge, Lasso, ElasticNet."""

from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

import pdmm
from pdmm.common.checks import not_negative, number
from pdmm.sklearn.federated import Federated, Vector


class LinearRegressor(RegressorMixin, Federated):  # type: ignore[misc]
    """A model whose predictions are X coef_ + intercept_."""

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, clients: Any, multi_output: bool = False
    ) -> Self:
        X, y = self._read(X, y, y_numeric=True, multi_output=multi_output)
        split, weight = self._rows(X, sample_weight, clients)
        penalty = self._penalty(float(sum(own.sum() for own in split.parts(weight))))
        columns = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        results = []
        for target in columns.T:
            minimise = self._minimise(split, X, target, weight, "gaussian")
            results.append(minimise(penalty))
        self._keep(np.stack([result.x for result in results]))
        self._conclude(results)
        return self

    def _penalty(self, rows: float) -> pdmm.Regulariser | None:
        """The regulariser, where so many rows are summed up and never divided by their number."""
        raise NotImplementedError

    def _keep(self, x: Vector) -> None:
        """Coefficients and intercepts: of one target without a dimension for it."""
        coef = x[:, : self.n_features_in_]
        intercept = np.zeros(len(x))
        if self.fit_intercept:
            intercept = x[:, -1]
        if len(x) > 1:
            self.coef_ = coef.copy()
            self.intercept_ = intercept.copy()
            return
        self.coef_ = coef[0].copy()
        self.intercept_ = float(intercept[0])

    def predict(self, X: Any) -> Vector:
        """The expected outcome of each row of X."""
        return np.asarray(self._new_rows(X) @ self.coef_.T + self.intercept_)


class Ridge(MultiOutputMixin, LinearRegressor):  # type: ignore[misc]
    """Least squares with an l2 penalty: ‖y - X w - b‖² + alpha ‖w‖², over all clients' rows.

    Args:
        alpha: the weight of the penalty; 0 for none.
        fit_intercept: whether there is an intercept b, which is never penalised.
        tol: see docs/scikit_learn.md; the share of the way from 0 to the optimum that may be left.
        max_iter: rounds, at most; None for 400. Least squares need two.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> from pdmm.sklearn import Ridge
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = Ridge(alpha=1.0).fit(X, y, clients=[row % 3 for row in range(len(y))])
        >>> model.coef_.round(1).tolist()[:3]
        [29.5, -83.2, 306.4]
        >>> model.n_iter_
        2
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-10,
        max_iter: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, clients: Any = None) -> Self:
        """Fit the model; several columns of y are fitted one after the other.

        Args:
            X: (n, columns): an array, a table of pandas or a sparse matrix.
            y: (n,) or (n, targets): the outcomes.
            sample_weight: (n,): how often each row counts.
            clients: (n,): who holds each row; None for one client that holds all of them.

        Returns:
            The estimator itself.
        """
        return self._fit(X, y, sample_weight, clients, multi_output=True)

    def _penalty(self, rows: float) -> pdmm.Regulariser | None:
        alpha = not_negative("alpha", self.alpha)
        return pdmm.SquaredL2(alpha) if alpha else None


class ElasticNet(LinearRegressor):
    """Least squares with both penalties, as scikit-learn's ElasticNet, over all clients' rows.

    It minimises ‖y - X w - b‖²/(2 n) + alpha l1_ratio ‖w‖₁ + alpha (1 - l1_ratio)/2 ‖w‖², n being
    the number of all rows, or the sum of their weights.

    Args:
        alpha: the weight of both penalties; 0 for none.
        l1_ratio: from 0 for l2 alone to 1 for l1 alone.
        fit_intercept: whether there is an intercept b, which is never penalised.
        tol: see docs/scikit_learn.md; the share of the way from 0 to the optimum that may be left.
        max_iter: rounds, at most; None for 400. Least squares need two.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> from pdmm.sklearn import ElasticNet
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = ElasticNet(alpha=0.01, l1_ratio=0.9)
        >>> model = model.fit(X, y, clients=[row % 3 for row in range(len(y))])
        >>> round(model.score(X, y), 3)
        0.491
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        tol: float = 1e-10,
        max_iter: int | None = 1000,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

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
        return self._fit(X, y, sample_weight, clients)

    def _penalty(self, rows: float) -> pdmm.Regulariser | None:
        return mixed(rows * not_negative("alpha", self.alpha), share(self.l1_ratio))


class Lasso(LinearRegressor):
    """Least squares with an l1 penalty: ‖y - X w - b‖²/(2 n) + alpha ‖w‖₁, over all clients' rows.

    n is the number of all rows, or the sum of their weights. Coefficients that the penalty rules
    out are exactly 0.

    Args:
        alpha: the weight of the penalty; 0 for none.
        fit_intercept: whether there is an intercept b, which is never penalised.
        tol: see docs/scikit_learn.md; the share of the way from 0 to the optimum that may be left.
        max_iter: rounds, at most; None for 400. Least squares need two.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> from pdmm.sklearn import Lasso
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = Lasso(alpha=1.0).fit(X, y, clients=[row % 3 for row in range(len(y))])
        >>> model.coef_.round(1).tolist()
        [0.0, 0.0, 367.7, 6.3, 0.0, 0.0, 0.0, 0.0, 307.6, 0.0]
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-10,
        max_iter: int | None = 1000,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter

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
        return self._fit(X, y, sample_weight, clients)

    def _penalty(self, rows: float) -> pdmm.Regulariser | None:
        return mixed(rows * not_negative("alpha", self.alpha), 1.0)


def share(l1_ratio: Any) -> float:
    """The share of l1 in a penalty."""
    ratio = number("l1_ratio", l1_ratio)
    if not 0 <= ratio <= 1:
        raise ValueError(f"l1_ratio must be from 0 (l2 alone) to 1 (l1 alone), got {l1_ratio!r}")
    return ratio


def mixed(strength: float, ratio: float) -> pdmm.Regulariser | None:
    """Strength times (ratio l1 + (1 - ratio)/2 l2); None where that is nothing."""
    if strength == 0:
        return None
    return pdmm.ElasticNet(l1=strength * ratio, l2=strength * (1 - ratio))
