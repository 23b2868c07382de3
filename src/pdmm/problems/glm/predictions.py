"""What a fitted model says of new rows."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pdmm.common.arrays import Names, as_array, in_order
from pdmm.common.checks import vector
from pdmm.common.matrices import Matrix, is_sparse
from pdmm.common.variables import Variables
from pdmm.problems.glm.data import Rows
from pdmm.problems.glm.entries import numbers
from pdmm.problems.glm.families import Family

Vector = npt.NDArray[np.float64]


class Predictions:
    """The part of a generalised linear model that predicts outcomes."""

    family: str
    dimension: int
    features: int
    """How many columns X has."""
    intercept: bool
    """Whether there is one."""
    classes: tuple[Any, ...] | None
    """The classes of the outcome, the second of two being the one whose odds are modelled."""
    columns: Names | None
    """The names of the columns, where X has names."""
    _rowwise: Family | None
    _variables: Variables | None
    _rows: Rows

    def predict(self, x: Any, X: Any, offset: Any = None) -> npt.NDArray[Any]:
        """The most likely class of every row of X, or the expected outcome where none is a class.

        Cox's model gives the risk exp(eta) of each row, relative to a row whose eta is 0.
        """
        mean = self.predict_mean(x, X, offset)
        if self.family == "binomial":
            return np.asarray(np.array(self.classes)[(mean > 0.5).astype(int)])
        if self.family == "multinomial":
            return np.asarray(np.array(self.classes)[mean.argmax(1)])
        return mean

    def predict_mean(self, x: Any, X: Any, offset: Any = None) -> Vector:
        """The expected outcome of every row of X.

        "binomial": the probability (n,) of the second class; "multinomial": those of all classes,
        (n, classes); "cox": exp(eta). A table of pandas is brought into the order of the columns
        that the problem was made with.
        """
        eta = self._eta(vector("x", x, self.dimension), X, offset)
        if self.family == "cox":
            return np.asarray(np.exp(eta))
        if self._rowwise is not None:
            return self._rowwise.mean(eta)
        assert self.classes is not None
        full = np.zeros((len(eta), len(self.classes)))
        full[:, [self.classes.index(label) for label in self._rows.kept]] = eta
        full -= full.max(1, keepdims=True)
        P = np.exp(full)
        return np.asarray(P / P.sum(1, keepdims=True))

    def _eta(self, x: Vector, X: Any, offset: Any) -> Vector:
        if self._variables is not None:
            raise ValueError("predictions are made by the problem that was given, not in others")
        rows = self._new_rows(X)
        W = x.reshape(self.features + self.intercept, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            eta = np.asarray(rows @ W[: self.features])
        if self.intercept:
            eta = eta + W[-1]
        bad = ~np.isfinite(eta).all(1)
        if bad.any():
            raise ValueError(
                f"X cannot be predicted in row {int(bad.argmax())}: there is a NaN or an infinity "
                "in it, or it is too large"
            )
        if not self._rows.kept:
            eta = eta[:, 0]
        if offset is None:
            return eta
        if self.family == "multinomial":
            raise ValueError("the family 'multinomial' takes no offset")
        added = numbers("offset", as_array("offset", offset))
        if added.shape != eta.shape:
            raise ValueError(f"offset has shape {added.shape}, but X has {len(eta)} rows")
        return np.asarray(eta + added)

    def _new_rows(self, X: Any) -> Matrix:
        """Rows of columns, in the order of the problem's."""
        if self.columns is not None:
            X = in_order("X", X, self.columns, "the problem")
        rows = sparse.csr_array(X) if is_sparse(X) else as_array("X", X)
        if rows.ndim != 2 or rows.shape[1] != self.features:
            raise ValueError(f"X must have shape (rows, {self.features}), got {rows.shape}")
        if rows.dtype.kind not in "fiub":
            raise ValueError(f"X must hold numbers, got {rows.dtype}")
        return rows
