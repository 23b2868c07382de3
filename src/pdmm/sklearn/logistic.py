"""Logistic regression of two classes or more."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

import pdmm
from pdmm.common.checks import number
from pdmm.sklearn.federated import Federated, Vector
from pdmm.sklearn.linear import mixed, share
from pdmm.sklearn.silos import Split


class LogisticRegression(ClassifierMixin, Federated):  # type: ignore[misc]
    """Logistic regression with the optimum of scikit-learn's, over all clients' rows.

    It minimises C times the sum of the log-losses and l1_ratio ‖w‖₁ + (1 - l1_ratio)/2 ‖w‖².
    Three classes or more make a multinomial model, in which every class has coefficients.

    Args:
        C: the inverse of the penalty's weight; ``math.inf`` for no penalty.
        l1_ratio: from 0 for l2 alone to 1 for l1 alone.
        fit_intercept: whether there are intercepts, which are never penalised.
        class_weight: {class: weight}, or "balanced" for n/(classes times the class's rows), which
            are counted over all clients; None for 1. It multiplies ``sample_weight``.
        tol: see docs/scikit_learn.md; the share of the way from 0 to the optimum that may be left.
        max_iter: rounds, at most; None for 400.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from pdmm.sklearn import LogisticRegression
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> gardens = ["east", "west", "south"] * 50
        >>> model = LogisticRegression().fit(X, y, clients=gardens)
        >>> model.coef_.round(3).tolist()[0]
        [-0.424, 0.967, -2.517, -1.079]
        >>> model.predict_proba(X[:1]).round(3).tolist()
        [[0.982, 0.018, 0.0]]
    """

    classes_: npt.NDArray[Any]

    def __init__(
        self,
        *,
        C: float = 1.0,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-10,
        max_iter: int | None = 100,
    ) -> None:
        self.C = C
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, clients: Any = None) -> Self:
        """Fit the model.

        Args:
            X: (n, columns): an array, a table of pandas or a sparse matrix.
            y: (n,): the classes, of any kind that scikit-learn takes.
            sample_weight: (n,): how often each row counts.
            clients: (n,): who holds each row; None for one client that holds all of them. A client
                may have rows of a single class.

        Returns:
            The estimator itself.
        """
        X, y = self._read(X, y)
        check_classification_targets(y)
        split, weight = self._rows(X, sample_weight, clients)
        self.classes_ = _classes(split, y)
        codes = np.searchsorted(self.classes_, y)
        weight = weight * self._class_weights(split, codes, weight)[codes]
        self._check_classes(split, codes, weight)
        if len(self.classes_) == 2:
            result = self._minimise(split, X, codes, weight, "binomial")(self._penalty())
            x = result.x[None]
        else:
            result, x = self._several(split, X, codes, weight)
        features = self.n_features_in_
        self.coef_ = x[:, :features].copy()
        self.intercept_ = np.zeros(len(x))
        if self.fit_intercept:
            self.intercept_ = x[:, features].copy()
        self._conclude([result])
        return self

    def _penalty(self) -> pdmm.Regulariser | None:
        ratio = share(self.l1_ratio)
        if isinstance(self.C, float | np.floating) and np.isposinf(self.C):
            return None
        C = number("C", self.C)
        if C <= 0:
            raise ValueError(f"C must be above 0, and inf for no penalty, got {self.C!r}")
        return mixed(1 / C, ratio)

    def _class_weights(self, split: Split, codes: npt.NDArray[np.int64], weight: Vector) -> Vector:
        """One weight for each class; "balanced" ones from sums over the clients."""
        given = self.class_weight
        if given is None:
            return np.ones(len(self.classes_))
        if isinstance(given, str) and given == "balanced":
            counts = _counts(split, codes, weight, len(self.classes_))
            with np.errstate(divide="ignore"):
                return np.where(counts > 0, counts.sum() / (len(counts) * counts), 0.0)
        if not isinstance(given, dict):
            raise ValueError(
                f"class_weight must be 'balanced', a dict of weights or None, got {given!r}"
            )
        found = compute_class_weight(given, classes=self.classes_, y=self.classes_)
        return np.asarray(found, dtype=np.float64)

    def _check_classes(self, split: Split, codes: npt.NDArray[np.int64], weight: Vector) -> None:
        if len(self.classes_) < 2:
            raise ValueError(
                "y must have rows of at least 2 classes, but all clients together have only one "
                f"class: {self.classes_.tolist()[0]!r}"
            )
        counts = _counts(split, codes, weight, len(self.classes_))
        if not counts.all() and len(counts) > 2:
            absent = self.classes_.tolist()[int(counts.argmin())]
            raise ValueError(
                f"the class {absent!r} has rows of weight 0 alone, in sample_weight or "
                "class_weight: leave its rows out"
            )

    def _several(
        self, split: Split, X: Any, codes: npt.NDArray[np.int64], weight: Vector
    ) -> tuple[pdmm.Result, Vector]:
        """The result, and coefficients (classes, columns and intercept) for every class."""
        classes = len(self.classes_)
        penalty = self._penalty()
        if penalty is None:
            # Only differences of classes are determined: those from the first, which are centred.
            result = self._minimise(split, X, codes, weight, "multinomial")(None)
            others = result.x.reshape(-1, classes - 1)
            x = np.column_stack([np.zeros(len(others)), others]).T
            return result, x - x.mean(0)
        minimise = self._minimise(split, X, codes, weight, "multinomial", reference=False)
        if self.fit_intercept:
            total = float(sum(own.sum() for own in split.parts(weight)))
            penalty = _with_anchor(penalty, minimise.problem, total)
        result = minimise(penalty)
        x = result.x.reshape(-1, classes).T.copy()
        if self.fit_intercept:
            x[:, -1] -= x[:, -1].mean()
        return result, x

    # --- predictions ------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Vector:
        """The linear predictors: (n,) of the second of two classes, or (n, classes)."""
        eta = np.asarray(self._new_rows(X) @ self.coef_.T + self.intercept_)
        return eta[:, 0] if len(self.classes_) == 2 else eta

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most likely class of each row of X."""
        eta = self.decision_function(X)
        chosen = (eta > 0).astype(int) if eta.ndim == 1 else eta.argmax(1)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: Any) -> Vector:
        """(n, classes): the probability of every class, in the order of ``classes_``."""
        eta = self.decision_function(X)
        if eta.ndim == 1:
            return np.column_stack([expit(-eta), expit(eta)])
        return np.asarray(softmax(eta, axis=1))

    def predict_log_proba(self, X: Any) -> Vector:
        """(n, classes): the logarithms of the probabilities, finite however small these are."""
        eta = self.decision_function(X)
        if eta.ndim == 1:
            return np.column_stack([log_expit(-eta), log_expit(eta)])
        return np.asarray(log_softmax(eta, axis=1))


def _classes(split: Split, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The classes that any client has: the union of what each one says of its own rows."""
    return np.unique(np.concatenate([np.unique(own) for own in split.parts(y)]))


def _counts(split: Split, codes: npt.NDArray[np.int64], weight: Vector, classes: int) -> Vector:
    """(classes,): the weights of each class's rows: the sum of what each client has counted."""
    total = np.zeros(classes)
    for own, w in zip(split.parts(codes), split.parts(weight), strict=True):
        total += np.bincount(own, weights=w, minlength=classes)
    return total


def _with_anchor(penalty: pdmm.Regulariser, problem: pdmm.GLM, strength: float) -> pdmm.ElasticNet:
    """The penalty, with a square of the first class's intercept.

    F does not change if all intercepts move together, so that it has no single minimiser and no
    certificate. With the square, it has one: its minimum is the same, because any x can be moved
    to where that intercept is 0.
    """
    assert isinstance(penalty, pdmm.ElasticNet)
    assert problem.intercepts is not None
    intercepts = np.unique(problem.intercepts)
    l1 = np.full(problem.dimension, penalty.l1)
    l2 = np.full(problem.dimension, penalty.l2)
    l1[intercepts] = 0.0
    l2[intercepts] = 0.0
    l2[intercepts[0]] = strength
    return pdmm.ElasticNet(l1, l2)
