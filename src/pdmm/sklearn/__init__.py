"""Estimators with the names, parameters and optima of scikit-learn, fitted over clients.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from pdmm.sklearn import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> hospitals = ["north"] * 200 + ["south"] * 250 + ["west"] * 119
    >>> model = LogisticRegression(C=1.0).fit(X, y, clients=hospitals)
    >>> model.clients_
    ('north', 'south', 'west')
    >>> model.certificate_.standard_errors < 1e-6
    True

docs/scikit_learn.md shows pipelines, searches and what is different.
"""

from pdmm.sklearn.linear import ElasticNet, Lasso, Ridge
from pdmm.sklearn.log_link import GammaRegressor, PoissonRegressor
from pdmm.sklearn.logistic import LogisticRegression

__all__ = [
    "ElasticNet",
    "GammaRegressor",
    "Lasso",
    "LogisticRegression",
    "PoissonRegressor",
    "Ridge",
]
