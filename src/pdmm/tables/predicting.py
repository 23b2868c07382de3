"""What a fitted model says of new rows."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pdmm.problems.glm.families import Binomial, Family, Gamma, Gaussian, Poisson
from pdmm.tables.encoding import as_code
from pdmm.tables.formulas import columns_in
from pdmm.tables.stored import Stored

Vector = npt.NDArray[np.float64]

MEANS: dict[str, Family] = {
    "gaussian": Gaussian(),
    "huber": Gaussian(),
    "binomial": Binomial(),
    "poisson": Poisson(),
    "gamma": Gamma(),
}


def design_matrix(stored: Stored, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the model matrix of a table; NaN where a row has a missing entry.

    Args:
        stored: the model.
        frame: new rows, with the columns on the right of the formula.
    """
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"predictions need a DataFrame, got {type(frame).__name__}")
    encoding = stored.encoding
    needed = right_columns(stored)
    absent = [name for name in needed if name not in frame]
    if absent:
        words = ", ".join(repr(name) for name in absent)
        raise ValueError(f"the table has no column {words}, which the model needs")
    read = encoding.read_new(frame, needed)
    whole = ~read.isna().any(axis=1).to_numpy()
    rows = encoding.complete(read, whole)
    for factor, levels in encoding.levels.items():
        _refuse_unknown(factor, levels, encoding.labels(factor, rows))
    columns = encoding.names
    X = np.full((len(frame), len(columns)), np.nan)
    if whole.any():
        X[whole] = encoding.matrix(rows)
    return pd.DataFrame(X, index=frame.index, columns=list(columns))[list(stored.layout.columns)]


def right_columns(stored: Stored) -> list[str]:
    """The columns that are needed to predict."""
    formula = stored.formula
    texts = [as_code(factor, formula) for factor in formula.factors]
    found = dict.fromkeys(name for text in texts for name in sorted(columns_in(text)))
    return list(found)


def _refuse_unknown(factor: str, levels: Any, labels: Any) -> None:
    unknown = [level for level in pd.unique(labels).tolist() if level not in levels]
    if unknown:
        known = ", ".join(repr(level) for level in levels[:8])
        raise ValueError(
            f"{factor!r} has the level {unknown[0]!r} in the table, which the model was not fitted "
            f"with: it knows {known}" + (" and others" if len(levels) > 8 else "")
        )


def linear_predictor(stored: Stored, frame: pd.DataFrame) -> Vector:
    """(n,) or (n, classes with coefficients), with the offset."""
    X = design_matrix(stored, frame).to_numpy()
    C = max(1, len(stored.layout.classes))
    coefficients = stored.x[stored.layout.order].reshape(C, -1).T
    eta: Vector = X @ coefficients
    if stored.layout.classes:
        return eta
    eta = eta[:, 0]
    return eta if stored.offset is None else eta + offset(stored, frame)


def offset(stored: Stored, frame: pd.DataFrame) -> Vector:
    """What is added to the linear predictor of each row."""
    assert stored.offset is not None
    needed = sorted(columns_in(stored.offset))
    absent = [name for name in needed if name not in frame]
    if absent:
        raise ValueError(f"the table has no column {absent[0]!r}, which the model's offset needs")
    read = stored.encoding.read_new(frame, needed)
    return stored.encoding.numbers(stored.offset, read)


def mean(stored: Stored, frame: pd.DataFrame) -> "pd.Series[Any] | pd.DataFrame":
    """The expected outcome of each row."""
    eta = linear_predictor(stored, frame)
    with np.errstate(over="ignore", invalid="ignore"):
        if stored.family == "multinomial":
            return _probabilities(stored, eta, frame.index)
        if stored.family == "cox":
            return pd.Series(np.exp(eta), index=frame.index, name="relative risk")
        values = MEANS[stored.family].mean(eta)
    return pd.Series(values, index=frame.index, name=stored.formula.outcome[0])


def _probabilities(stored: Stored, eta: Vector, index: Any) -> pd.DataFrame:
    classes = stored.encoding.classes
    assert classes is not None
    full = np.zeros((len(eta), len(classes)))
    full[:, [classes.index(label) for label in stored.layout.classes]] = eta
    full[np.isnan(eta).any(axis=1)] = np.nan
    full -= full.max(axis=1, keepdims=True)
    P = np.exp(full)
    return pd.DataFrame(P / P.sum(axis=1, keepdims=True), index=index, columns=list(classes))


def probabilities(stored: Stored, frame: pd.DataFrame) -> pd.DataFrame:
    """The probability of each class, of a binomial or multinomial model."""
    if stored.family == "multinomial":
        found = mean(stored, frame)
        assert isinstance(found, pd.DataFrame)
        return found
    if stored.family != "binomial":
        raise ValueError(
            f"predict_proba is for outcomes that are classes, and the family is {stored.family!r}"
        )
    eta = linear_predictor(stored, frame)
    family = MEANS["binomial"]
    classes = stored.encoding.classes or (0, 1)
    P = np.column_stack([family.mean(-eta), family.mean(eta)])
    return pd.DataFrame(P, index=frame.index, columns=list(classes))


def classes(stored: Stored, frame: pd.DataFrame) -> "pd.Series[Any]":
    """The most likely class of each row; None where a row has a missing entry."""
    P = probabilities(stored, frame)
    labels = np.array([*P.columns, None], dtype=object)
    best = np.where(P.isna().any(axis=1), P.shape[1], P.fillna(0.0).to_numpy().argmax(axis=1))
    found = pd.Series(labels[best], index=frame.index, name=stored.formula.outcome[0])
    return found if (best == P.shape[1]).any() else found.infer_objects()
