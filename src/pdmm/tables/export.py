"""A fitted model as a pipeline of scikit-learn."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
)
from sklearn.pipeline import Pipeline

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit

ESTIMATORS = {
    "gaussian": LinearRegression,
    "huber": LinearRegression,
    "binomial": LogisticRegression,
    "multinomial": LogisticRegression,
    "poisson": PoissonRegressor,
    "gamma": GammaRegressor,
}


class FormulaTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Makes the model matrix of a table, without its intercept, by a model's formula.

    Args:
        model: the fit that says how columns are read, their levels and means.
    """

    def __init__(self, model: "Fit") -> None:
        self.model = model

    def fit(self, X: Any, y: Any = None) -> "FormulaTransformer":
        """Nothing: all is known from the model."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: pd.DataFrame) -> Any:
        """The rows of the model matrix, as an array."""
        return self.model.design_matrix(X).drop(columns="Intercept", errors="ignore").to_numpy()

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the columns of the model matrix."""
        names = [name for name in self.model.stored.layout.columns if name != "Intercept"]
        return np.array(names, dtype=object)


def to_sklearn(fit: "Fit") -> Pipeline:
    """A pipeline that takes tables and predicts what the model does."""
    stored = fit.stored
    if stored.family not in ESTIMATORS:
        raise ValueError(f"scikit-learn has no model of the family {stored.family!r}")
    if stored.offset is not None:
        raise ValueError("scikit-learn's models take no offset, and this one has one")
    layout = stored.layout
    if layout.columns == ("Intercept",):
        raise ValueError("scikit-learn's models need a column, and this one has an intercept alone")
    C = max(1, len(layout.classes))
    table = stored.x[layout.order].reshape(C, -1)
    intercept = table[:, 0] if layout.intercept else np.zeros(C)
    slopes = table[:, 1:] if layout.intercept else table
    model = ESTIMATORS[stored.family]()
    model.fit_intercept = layout.intercept
    model.n_features_in_ = slopes.shape[1]
    if stored.family in ("binomial", "multinomial"):
        classes = stored.encoding.classes or (0, 1)
        model.classes_ = np.array(classes)
        model.coef_, model.intercept_ = _of_classes(slopes, intercept, classes, layout.classes)
    else:
        model.coef_ = slopes[0]
        model.intercept_ = float(intercept[0])
    if stored.family in ("poisson", "gamma"):
        model._base_loss = model._get_loss()
    return Pipeline([("formula", FormulaTransformer(fit)), ("model", model)])


def _of_classes(slopes: Any, intercept: Any, classes: Any, kept: Any) -> tuple[Any, Any]:
    """Coefficients for each class, 0 for the reference; of two classes, those of the second."""
    if not kept:
        return slopes, intercept
    if len(classes) == 2:
        # One class has coefficients: scikit-learn's are those of the second.
        sign = 1.0 if classes.index(kept[0]) == 1 else -1.0
        return sign * slopes, sign * intercept
    full = np.zeros((len(classes), slopes.shape[1]))
    level = np.zeros(len(classes))
    for row, label in enumerate(kept):
        full[classes.index(label)] = slopes[row]
        level[classes.index(label)] = intercept[row]
    return full, level
