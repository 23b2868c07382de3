"""How well a model predicts outcomes that are known."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pdmm.common.checks import one_of
from pdmm.tables import predicting
from pdmm.tables.formulas import columns_in
from pdmm.tables.reading import client_name
from pdmm.tables.stored import Stored

Vector = npt.NDArray[np.float64]

ALL = "all"
"""The row of the table that is about all clients together."""
EDGE = 1e-15  # a probability of 0 or 1 would make a wrong guess infinitely bad


def evaluate(stored: Stored, frame: pd.DataFrame, client: str | None) -> pd.DataFrame:
    """Measures of all rows together and of each client's.

    Args:
        stored: the model.
        frame: rows with the columns of the formula, the outcome among them.
        client: the column of the clients; the model's, where the table has it.
    """
    absent = [name for name in needed_columns(stored) if name not in frame]
    if absent:
        raise ValueError(f"the table has no column {absent[0]!r}, which the outcome needs")
    if client is None and stored.client in frame:
        client = stored.client
    if client is not None and client not in frame:
        raise ValueError(f"client={client!r} is no column of the table")
    whole = complete_rows(stored, frame)
    measures = MEASURES[stored.family]
    found = {ALL: measures(stored, frame[whole])}
    if client is not None:
        for name, own in frame[whole].groupby(client, sort=True):
            found[client_name(name)] = measures(stored, own)
    table = pd.DataFrame.from_dict(found, orient="index")
    table.insert(0, "rows", table.pop("rows").astype(int))
    table.index.name = client
    return table


def needed_columns(stored: Stored) -> list[str]:
    """The columns of the outcome and of the weights."""
    texts = [*stored.formula.outcome, *([] if stored.weights is None else [stored.weights])]
    return sorted({name for text in texts for name in columns_in(text)})


def complete_rows(stored: Stored, frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which rows have all entries; those with a missing one cannot be judged."""
    wanted = list(dict.fromkeys([*needed_columns(stored), *predicting.right_columns(stored)]))
    absent = [name for name in wanted if name not in frame]
    if absent:
        raise ValueError(f"the table has no column {absent[0]!r}, which the model needs")
    whole = ~stored.encoding.read_new(frame, wanted).isna().any(axis=1).to_numpy()
    if not whole.any():
        raise ValueError("no row of the table has an outcome and all entries")
    return np.asarray(whole)


def outcome(stored: Stored, frame: pd.DataFrame, part: int = 0) -> Vector:
    """Outcomes as numbers; classes as their positions."""
    expression = stored.formula.outcome[part]
    read = stored.encoding.read(frame, sorted(columns_in(expression)))
    value = stored.encoding.value(expression, read)
    classes = stored.encoding.classes
    if classes is None:
        return np.asarray(value, dtype=np.float64)
    codes = pd.Index(classes).get_indexer(pd.Series(value))
    if (codes < 0).any():
        label = pd.Series(value)[codes < 0].tolist()[0]
        raise ValueError(f"the outcome {label!r} is none of the classes {classes} of the model")
    return np.asarray(codes, dtype=np.float64)


def row_weights(stored: Stored, frame: pd.DataFrame) -> Vector:
    """How often each row counts."""
    if stored.weights is None:
        return np.ones(len(frame))
    read = stored.encoding.read(frame, sorted(columns_in(stored.weights)))
    return stored.encoding.numbers(stored.weights, read)


def _binomial(stored: Stored, frame: pd.DataFrame) -> dict[str, float]:
    from sklearn.metrics import roc_auc_score

    y, w = outcome(stored, frame), row_weights(stored, frame)
    p = np.asarray(predicting.mean(stored, frame), dtype=np.float64)
    inside = np.clip(p, EDGE, 1 - EDGE)
    losses = -(y * np.log(inside) + (1 - y) * np.log1p(-inside))
    both = np.isin(y, (0.0, 1.0)).all() and 0 < w @ y < w.sum()
    slope, intercept = _calibration(predicting.linear_predictor(stored, frame), y, w)
    return {
        "rows": len(y),
        "AUC": float(roc_auc_score(y, p, sample_weight=w)) if both else np.nan,
        "Brier": float(w @ (p - y) ** 2 / w.sum()),
        "log-loss": float(w @ losses / w.sum()),
        "calibration slope": slope,
        "calibration in the large": intercept,
        "observed": float(w @ y / w.sum()),
        "expected": float(w @ p / w.sum()),
    }


def _calibration(eta: Vector, y: Vector, w: Vector) -> tuple[float, float]:
    """The slope of a logistic model of y by eta, and its intercept where the slope is 1.

    They are 1 and 0 for a model that is well calibrated; NaN where they are not determined.
    """
    from pdmm.problems import GLM
    from pdmm.solve import solve

    if not 0 < w @ y < w.sum():
        return np.nan, np.nan
    slope = np.nan
    if np.ptp(eta) > 0:
        result = solve(GLM([eta[:, None]], [y], sample_weight=[w]), curvature="full")
        if result.certificate.gap is not None:
            slope = float(result.x[0])
    ones = np.ones((len(y), 1))
    shift = GLM([ones], [y], intercept=False, sample_weight=[w], offset=[eta])
    return slope, float(solve(shift, curvature="full").x[0])


def _multinomial(stored: Stored, frame: pd.DataFrame) -> dict[str, float]:
    y, w = outcome(stored, frame).astype(int), row_weights(stored, frame)
    P = predicting.probabilities(stored, frame).to_numpy()
    own = np.clip(P[np.arange(len(y)), y], EDGE, 1.0)
    right = P.argmax(axis=1) == y
    truth = np.eye(P.shape[1])[y]
    return {
        "rows": len(y),
        "accuracy": float(w @ right / w.sum()),
        "Brier": float(w @ ((P - truth) ** 2).sum(axis=1) / w.sum()),
        "log-loss": float(-(w @ np.log(own)) / w.sum()),
    }


def _numbers(stored: Stored, frame: pd.DataFrame) -> dict[str, float]:
    y, w = outcome(stored, frame), row_weights(stored, frame)
    mu = np.asarray(predicting.mean(stored, frame), dtype=np.float64)
    spread = float(w @ (y - w @ y / w.sum()) ** 2)
    squares = float(w @ (y - mu) ** 2)
    return {
        "rows": len(y),
        "R²": 1 - squares / spread if spread > 0 else np.nan,
        "RMSE": float(np.sqrt(squares / w.sum())),
        "MAE": float(w @ np.abs(y - mu) / w.sum()),
        "observed": float(w @ y / w.sum()),
        "expected": float(w @ mu / w.sum()),
    }


def _counts(stored: Stored, frame: pd.DataFrame) -> dict[str, float]:
    """With the part of the deviance that is explained, as scikit-learn's D² has it."""
    from sklearn.metrics import d2_tweedie_score

    found = _numbers(stored, frame)
    y, w = outcome(stored, frame), row_weights(stored, frame)
    mu = np.asarray(predicting.mean(stored, frame), dtype=np.float64)
    power = 1 if stored.family == "poisson" else 2
    constant = np.ptp(y) == 0
    found["D²"] = (
        np.nan if constant else float(d2_tweedie_score(y, mu, sample_weight=w, power=power))
    )
    return found


def _cox(stored: Stored, frame: pd.DataFrame) -> dict[str, float]:
    time, event = outcome(stored, frame, 0), outcome(stored, frame, 1)
    return {
        "rows": len(time),
        "events": float(event.sum()),
        "concordance": concordance(time, event, predicting.linear_predictor(stored, frame)),
    }


def concordance(time: Vector, event: Vector, eta: Vector) -> float:
    """Harrell's: of pairs whose order is known, how many eta puts in it; ties of eta count half."""
    agreed, known = concordant(time, event, eta)
    return agreed / known if known else np.nan


def concordant(time: Vector, event: Vector, eta: Vector) -> tuple[float, float]:
    """Of pairs whose order is known, how many eta puts in it, and how many there are.

    Args:
        time: when each row was last seen.
        event: 1 where the event happened then.
        eta: the higher, the earlier the event is expected.
    """
    agreed = 0.0
    known = 0.0
    for i in np.flatnonzero(event > 0):
        later = (time > time[i]) | ((time == time[i]) & (event == 0))
        known += int(later.sum())
        agreed += float((eta[later] < eta[i]).sum() + 0.5 * (eta[later] == eta[i]).sum())
    return agreed, known


MEASURES: dict[str, Callable[[Stored, pd.DataFrame], dict[str, Any]]] = {
    "binomial": _binomial,
    "multinomial": _multinomial,
    "gaussian": _numbers,
    "huber": _numbers,
    "poisson": _counts,
    "gamma": _counts,
    "cox": _cox,
}


def calibration_table(stored: Stored, frame: pd.DataFrame, bins: int = 10) -> pd.DataFrame:
    """Observed and expected frequencies in groups of rows of equal size, by expected frequency.

    Args:
        stored: a binomial model.
        frame: rows with outcomes.
        bins: how many groups.
    """
    one_of("family", stored.family, ("binomial",))
    whole = complete_rows(stored, frame)
    y, w = outcome(stored, frame[whole]), row_weights(stored, frame[whole])
    p = np.asarray(predicting.mean(stored, frame[whole]), dtype=np.float64)
    group = pd.qcut(p, bins, labels=False, duplicates="drop")
    table = pd.DataFrame({"rows": w, "expected": w * p, "observed": w * y}).groupby(group).sum()
    table["expected"] /= table["rows"]
    table["observed"] /= table["rows"]
    table.index.name = "group"
    return table
