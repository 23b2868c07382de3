"""A client's side: its table, and the few questions about it that it answers.

Every answer is a count, a sum, a kind or a set of levels. A server that joins clients over a
network asks the same questions, see ``agreement``.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from pdmm.tables.columns import NUMBERS, Column, describe
from pdmm.tables.encoding import Encoding, as_code
from pdmm.tables.expressions import Call

Vector = npt.NDArray[np.float64]


class MissingError(ValueError):
    """A client's rows have no entry where the model needs one."""


class RareError(ValueError):
    """A level stands in fewer rows than a client is willing to tell of."""


OTHER = "(other)"  # the level of those that a client has merged


class Counts(NamedTuple):
    """How many rows a client has, and how many of them have all entries."""

    rows: int
    complete: int


class Moments(NamedTuple):
    """Sums over a client's complete rows, from which means and deviations are made."""

    size: float
    total: float
    squares: float
    """Of differences from a mean that was agreed before; 0 where there is none."""

    @property
    def mean(self) -> float:
        """Of the entries."""
        return self.total / self.size


class Rows(NamedTuple):
    """A client's rows as its model needs them. They never leave it."""

    X: Vector
    y: npt.NDArray[Any]
    weights: Vector | None
    offset: Vector | None


class ClientTable:
    """One client's table.

    Args:
        name: of the client.
        frame: its table. It is let go once its rows are encoded.
        label: the column that holds the client's name, if formulas may use it.
        value: what that column holds, if the table has none; the name if not given.
    """

    def __init__(
        self,
        name: str,
        frame: pd.DataFrame,
        label: str | None = None,
        value: Any = None,
    ) -> None:
        self.name = name
        if label is not None and label not in frame:
            frame = frame.assign(**{label: name if value is None else value})
        self._frame: pd.DataFrame | None = frame
        self._complete: pd.DataFrame | None = None
        self.undefined = 0
        """Rows that have all entries, and for which an expression has no value all the same."""
        self.absent = 0
        """Complete rows whose weight is 0."""

    # --- questions ----------------------------------------------------------------------------

    def columns(self) -> list[str]:
        """The names of its columns."""
        return [str(name) for name in self._table()]

    def describe(self, wanted: Sequence[str]) -> dict[str, Column]:
        """Of the columns that it has, their kinds."""
        frame = self._table()
        return {name: describe(frame[name]) for name in wanted if name in frame}

    def present(self, encoding: Encoding, names: Sequence[str]) -> dict[str, Moments]:
        """Of columns of numbers, counts and sums of the entries that are there."""
        read = replace(encoding, means={}).read(self._table(), names)
        found = {}
        for name in names:
            entries = read[name].dropna().to_numpy(dtype=np.float64)
            found[name] = Moments(float(entries.size), float(entries.sum()), 0.0)
        return found

    def count(
        self, encoding: Encoding, extra: Sequence[str], missing: str, weights: str | None
    ) -> Counts:
        """How many rows it has and how many of them are complete, which are all that it keeps.

        Args:
            encoding: what was agreed so far.
            extra: expressions beside those of the formula, which must be there too.
            missing: "error" refuses rows that are not complete.
            weights: how often each row counts: those of weight 0 are as good as absent.
        """
        frame = encoding.read(self._table())
        lacking = {name: frame[name].isna().to_numpy() for name in frame}
        calls = [call.argument for call in encoding.formula.calls]
        factors = [as_code(factor, encoding.formula) for factor in encoding.formula.factors]
        for expression in (*encoding.formula.outcome, *calls, *factors, *extra):
            if expression.strip("`") not in lacking:
                lacking[expression] = self._undefined(expression, encoding, frame)
        gone = np.zeros(len(frame), dtype=bool)
        for name, rows in lacking.items():
            if missing == "error" and rows.any():
                raise MissingError(
                    f"{int(rows.sum())} of the {len(frame)} rows of client {self.name!r} have no "
                    f"{name!r}: give missing='drop' to leave such rows out, or missing='mean'"
                )
            gone |= rows
        entries = np.zeros(len(frame), dtype=bool)
        for name in frame:
            entries |= lacking[name]
        self.undefined = int((gone & ~entries).sum())
        absent = np.zeros(len(frame), dtype=bool)
        if weights is not None and not gone.all():
            absent[~gone] = self._numbers(weights, encoding, frame[~gone]) == 0
        self.absent = int(absent.sum())
        self._complete = encoding.complete(frame, ~gone & ~absent)
        self._frame = None
        return Counts(len(frame) - self.absent, len(self._complete))

    def moments(self, encoding: Encoding, call: Call, mean: float | None) -> Moments:
        """Sums of what center or scale is computed of, over its complete rows."""
        values = encoding.numbers(call.argument, self._rows())
        squares = 0.0 if mean is None else float(((values - mean) ** 2).sum())
        return Moments(float(values.size), float(values.sum()), squares)

    def levels(
        self, encoding: Encoding, fewest: int = 0, merge: bool = False
    ) -> dict[str, list[Any]]:
        """Of each factor that is a category, the levels that its complete rows have.

        Args:
            encoding: what was agreed so far.
            fewest: rows that a level stands in at least, to be told.
            merge: whether rarer ones become one level, where the factor is a column of words; else
                they are an error.
        """
        found = {}
        for factor in encoding.formula.factors:
            if factor in encoding.columns and encoding.columns[factor].kind in NUMBERS:
                continue
            labels = encoding.labels(factor, self._rows())
            if labels is None:
                continue
            counts = labels.value_counts()
            rare = counts[counts < fewest]
            if len(rare):
                self._merge(factor, rare, encoding, fewest, merge)
                labels = encoding.labels(factor, self._rows())
                assert labels is not None
            found[factor] = pd.unique(labels).tolist()
        return found

    def _merge(
        self, factor: str, rare: "pd.Series[int]", encoding: Encoding, fewest: int, merge: bool
    ) -> None:
        """Put one level in the place of those that are rare."""
        column = factor.removeprefix("C(").removesuffix(")")
        agreed = encoding.columns.get(column)
        words = agreed is not None and agreed.kind == "label"
        if not (merge and words) or int(rare.sum()) < fewest:
            raise RareError(f"{factor!r} has levels that stand in fewer than {fewest} rows")
        frame = self._rows()
        merged = frame[column].where(~frame[column].isin(list(rare.index)), OTHER)
        self._complete = frame.assign(**{column: merged})

    def classes(self, encoding: Encoding, numbers: bool) -> list[Any] | None:
        """The classes of its outcomes; None where these are numbers.

        Args:
            encoding: what was agreed.
            numbers: whether numbers are classes too.
        """
        frame = self._rows()
        value = encoding.value(encoding.formula.outcome[0], frame)
        values = pd.Series(value, index=frame.index)
        if numbers or values.dtype == object or values.dtype == bool:
            return list(pd.unique(values).tolist())
        return None

    def rows(self, encoding: Encoding, offset: str | None, weights: str | None) -> Rows:
        """Its complete rows as a model needs them; the table is let go."""
        frame = self._rows()
        self._complete = None
        X = encoding.matrix(frame)
        self._refuse_infinite(X, encoding)
        return Rows(
            X=X,
            y=self._outcome(encoding, frame),
            weights=None if weights is None else self._numbers(weights, encoding, frame),
            offset=None if offset is None else self._numbers(offset, encoding, frame),
        )

    @property
    def complete(self) -> pd.DataFrame:
        """Its complete rows, once they are counted."""
        return self._rows()

    # --- its own ------------------------------------------------------------------------------

    def _table(self) -> pd.DataFrame:
        assert self._frame is not None
        return self._frame

    def _rows(self) -> pd.DataFrame:
        """Its complete rows, in the agreed kinds."""
        assert self._complete is not None
        return self._complete

    def _undefined(self, expression: str, encoding: Encoding, frame: pd.DataFrame) -> Any:
        """Which rows an expression has no value for, as log(-1) has none.

        Whatever is agreed later for center and scale, these stay the same.
        """
        anything = {
            call.text: {"ddof": 1, "center": 0.0, "scale": 1.0} for call in encoding.formula.calls
        }
        try:
            value = replace(encoding, state=anything).value(expression, frame)
        except Exception as error:
            raise ValueError(
                f"{expression!r} cannot be computed at client {self.name!r}: "
                f"{type(error).__name__}: {error}"
            ) from None
        plain = getattr(value, "__wrapped__", value)
        if isinstance(plain, dict):
            parts = [
                np.asarray(part) for key, part in plain.items() if not str(key).startswith("__")
            ]
            plain = np.column_stack(parts)
        missing = np.asarray(pd.isna(plain))
        if missing.ndim == 0:
            return np.full(len(frame), bool(missing))
        return missing if missing.ndim == 1 else missing.any(axis=1)

    def _outcome(self, encoding: Encoding, frame: pd.DataFrame) -> npt.NDArray[Any]:
        parts = encoding.formula.outcome
        if encoding.classes is not None:
            value = pd.Series(encoding.value(parts[0], frame), index=frame.index)
            return np.asarray(pd.Index(encoding.classes).get_indexer(value)).astype(np.int64)
        values = [self._numbers(part, encoding, frame) for part in parts]
        return values[0] if len(values) == 1 else np.column_stack(values)

    def _numbers(self, expression: str, encoding: Encoding, frame: pd.DataFrame) -> Vector:
        try:
            found = encoding.numbers(expression, frame)
        except (TypeError, ValueError):
            raise ValueError(
                f"{expression!r} must be numbers, and holds words at client {self.name!r}"
            ) from None
        if not np.isfinite(found).all():
            raise ValueError(f"{expression!r} is infinite in some rows of client {self.name!r}")
        return found

    def _refuse_infinite(self, X: Vector, encoding: Encoding) -> None:
        bad = ~np.isfinite(X).all(axis=0)
        if bad.any():
            name = encoding.names[int(bad.argmax())]
            raise ValueError(
                f"{name!r} is infinite in some rows of client {self.name!r}: is it the logarithm "
                "of 0, or something divided by 0?"
            )
