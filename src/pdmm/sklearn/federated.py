"""What all estimators share: their parameters, the fit over clients, and what is said of it."""

import warnings
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

import pdmm
from pdmm.common.checks import not_negative, whole
from pdmm.sklearn.refusals import REMEDIES, refuse
from pdmm.sklearn.silos import Split, split_by

try:
    from sklearn.utils.validation import validate_data
except ImportError:  # scikit-learn 1.5

    def validate_data(estimator: Any, *data: Any, **how: Any) -> Any:
        """The check of X and y that was a method of every estimator before 1.6."""
        return estimator._validate_data(*data, **how)


Vector: TypeAlias = npt.NDArray[np.float64]

LARGEST_HESSIAN = 2000  # coefficients up to which clients are asked for Hessians
ROUNDS = 400  # where max_iter is None
TO_ROUNDING = 1e-300  # for tol=0: a run ends where a certificate is rounding
# How a run ends that has found a minimiser.
FOUND = ("certified", "the start is optimal")
ONE_OF_MANY = "not determined by the data"
BY_GRADIENT = "below tolerance"  # without Hessians nothing is proven, and the gradient is all


class Federated(BaseEstimator):  # type: ignore[misc]
    """A linear model whose rows are held by clients; the base of all estimators."""

    fit_intercept: bool
    tol: float
    max_iter: int | None

    coef_: Vector
    intercept_: Any
    n_iter_: int
    """Rounds: how often the clients were asked."""
    n_features_in_: int
    clients_: tuple[Any, ...] | None
    """The labels of the clients, in order; None where one client held all rows."""
    result_: Any
    """The :class:`pdmm.Result` of the fit; of several targets, a tuple of them."""
    certificate_: Any
    """The :class:`pdmm.Certificate`: how far the coefficients can be from the optimum."""

    def __new__(cls, *_: Any, **params: Any) -> Self:
        # Not in __init__, whose signature scikit-learn reads: these are no parameters.
        taken = cls._get_param_names()
        refuse(cls, {name: params[name] for name in params if name not in taken}, taken)
        made: Self = super().__new__(cls)
        return made

    def set_params(self, **params: Any) -> Self:
        """Set parameters, or refuse by name those of scikit-learn that mean nothing here."""
        others = {name: value for name, value in params.items() if name in REMEDIES}
        refuse(type(self), others, self._get_param_names())
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # --- the fit ----------------------------------------------------------------------------

    def _read(self, X: Any, y: Any, **how: Any) -> tuple[Any, Any]:
        """X and y as arrays of numbers, with the checks of all estimators of scikit-learn."""
        kinds = [np.float64, np.float32]
        rows, outcomes = validate_data(self, X, y, accept_sparse="csr", dtype=kinds, **how)
        return rows, outcomes

    def _new_rows(self, X: Any) -> Any:
        """Rows to predict, whose columns are those of the fit."""
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", reset=False)

    def _rows(self, X: Any, sample_weight: Any, clients: Any) -> tuple[Split, Vector]:
        """Who holds which rows, and the weights of all rows."""
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise ValueError(f"fit_intercept must be True or False, got {self.fit_intercept!r}")
        split = split_by(clients, X.shape[0])
        self.clients_ = split.names
        return split, np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))

    def _minimise(
        self, split: Split, X: Any, y: Any, weight: Vector, family: str, **how: Any
    ) -> "Minimiser":
        """The model of the family, whose penalty is still to come."""
        w = split.parts(weight)
        absent = [not own.any() for own in w]
        if any(absent) and not all(absent):
            split = split.without(absent)  # rows of weight 0 say nothing
            w = split.parts(weight)
        problem = pdmm.GLM(
            split.named(split.parts(X)),
            split.named(split.parts(y)),
            family,
            intercept=bool(self.fit_intercept),
            sample_weight=split.named(w),
            **how,
        )
        return Minimiser(self, problem)

    def _conclude(self, results: list[pdmm.Result]) -> None:
        """Keep what the fits say of themselves, and warn where one has found no minimiser."""
        self.n_iter_ = max(result.rounds for result in results)
        for result in results:
            if not _has_found(result):
                warnings.warn(self._warning(result), ConvergenceWarning, stacklevel=3)
        if len(results) == 1:
            self.result_ = results[0]
            self.certificate_ = results[0].certificate
            return
        self.result_ = tuple(results)
        self.certificate_ = tuple(result.certificate for result in results)

    def _warning(self, result: pdmm.Result) -> str:
        remedy = "a penalty, or a stronger one, may give an answer"
        if result.reason.startswith("all"):
            remedy = f"give more than max_iter={self.max_iter}, or a tol above {self.tol:g}"
        name = type(self).__name__
        return f"{name} has no certificate at tol={self.tol:g}: {result.reason}; {remedy}"


class Minimiser:
    """A problem and how precisely it is to be solved.

    Args:
        estimator: has tol and max_iter.
        problem: the model of the clients' rows.
    """

    def __init__(self, estimator: Federated, problem: pdmm.GLM) -> None:
        tol = not_negative("tol", estimator.tol)
        self.full = problem.dimension <= LARGEST_HESSIAN
        # Distances are roots of gaps. Without Hessians, a run is judged by its gradients.
        self.tolerance = max(tol**2 if self.full else tol, TO_ROUNDING)
        self.rounds = ROUNDS
        if estimator.max_iter is not None:
            self.rounds = whole("max_iter", estimator.max_iter, at_least=1)
        self.problem = problem

    def __call__(self, regulariser: pdmm.Regulariser | None) -> pdmm.Result:
        """The optimum with a penalty, certified where it can be."""
        return pdmm.solve(
            self.problem,
            rounds=self.rounds,
            regulariser=regulariser,
            tolerance=self.tolerance,
            curvature="full" if self.full else "auto",
            optimum=False,
        )


def _has_found(result: pdmm.Result) -> bool:
    """Whether x minimises F: proven, or because steps or gradients have come to nothing."""
    said = result.reason
    return said.startswith(FOUND) or ONE_OF_MANY in said or BY_GRADIENT in said
