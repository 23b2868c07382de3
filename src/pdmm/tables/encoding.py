"""From rows of a table to rows of a model matrix, the same way at every client."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pdmm.tables.columns import NUMBERS, Agreed, read_as, refuse_other
from pdmm.tables.expressions import evaluate, functions
from pdmm.tables.formulas import Formula

Vector = npt.NDArray[np.float64]
State = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Encoding:
    """All that was agreed of a formula: with it, any client encodes its rows alone."""

    formula: Formula
    columns: dict[str, Agreed]
    levels: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Of each factor that is a category, its levels, the reference first."""
    state: State = field(default_factory=dict)
    """Of each call of center and scale, what was agreed."""
    means: dict[str, float] = field(default_factory=dict)
    """Of each column of numbers, what is put in the place of a missing entry."""
    classes: tuple[Any, ...] | None = None
    """Of an outcome that is a class, all classes."""

    def read(self, frame: pd.DataFrame, columns: Any = None) -> pd.DataFrame:
        """The columns of a table that the formula needs, in their agreed kinds."""
        wanted = self.columns if columns is None else columns
        read = {name: read_as(frame[name], self.columns[name]) for name in wanted}
        for name, mean in self.means.items():
            if name in read:
                read[name] = read[name].fillna(mean)
        return pd.DataFrame(read, index=frame.index, copy=False)

    def read_new(self, frame: pd.DataFrame, columns: Any) -> pd.DataFrame:
        """The same of rows that nobody has described: columns of other kinds are refused."""
        for name in columns:
            refuse_other(name, frame[name], self.columns[name])
        return self.read(frame, columns)

    def complete(self, read: pd.DataFrame, rows: npt.NDArray[np.bool_]) -> pd.DataFrame:
        """Those rows of a table that was read, which have all entries.

        A missing entry makes true and 3 the floats 1.0 and 3.0. Without it they are what they are
        at other clients, so that a level has one name.
        """
        kept = read if rows.all() else read[rows]
        again = {
            name: read_as(kept[name], self.columns[name])
            for name in kept
            if self.columns[name].kind in ("int", "bool")
            and kept[name].dtype == np.float64
            and name not in self.means
        }
        return kept.assign(**again) if again else kept

    def value(self, expression: str, frame: pd.DataFrame) -> Any:
        """What an expression is for the rows of a table that was read."""
        return evaluate(expression, self.environment(frame), self.state)

    def environment(self, frame: pd.DataFrame) -> dict[Any, Any]:
        """The columns by name, and by the Python names that stand for them."""
        found: dict[Any, Any] = {name: frame[name] for name in frame}
        aliases = self.formula.aliases.items()
        return found | {alias: frame[name] for alias, name in aliases if name in frame}

    def numbers(self, expression: str, frame: pd.DataFrame) -> Vector:
        """An expression that must be a number for each row."""
        found = np.asarray(self.value(expression, frame), dtype=np.float64)
        return np.broadcast_to(found, (len(frame),)) if found.ndim == 0 else found

    def labels(self, factor: str, frame: pd.DataFrame) -> "pd.Series[Any] | None":
        """The levels of a factor in each row; None where it is no category."""
        return as_labels(self.value(as_code(factor, self.formula), frame), frame.index)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model matrix."""
        return tuple(self._matrix(self._nobody()).model_spec.column_names)

    @property
    def terms(self) -> dict[str, list[str]]:
        """The columns of each term but the intercept."""
        spec = self._matrix(self._nobody()).model_spec
        names = spec.column_names
        found = {str(term): [names[j] for j in where] for term, where in spec.term_indices.items()}
        return {term: names for term, names in found.items() if term != "1"}

    def matrix(self, frame: pd.DataFrame) -> Vector:
        """The rows of the model matrix (n, columns), the intercept's among them."""
        plain = self._numbers_alone()
        if plain is None:
            return np.asarray(self._matrix(frame), dtype=np.float64)
        X = np.empty((len(frame), len(plain)))
        for j, name in enumerate(plain):
            X[:, j] = 1.0 if name is None else frame[name]
        return X

    def _numbers_alone(self) -> list[str | None] | None:
        """The columns of a formula that only adds up columns of numbers, None for the intercept.

        These need no formulaic, which takes longer on a large table than the fit itself. None where
        the formula has more in it.
        """
        found: list[str | None] = []
        for term in _parsed(self.formula.right):
            name = str(term)
            column = self.columns.get(name)
            if name != "1" and (column is None or column.kind not in NUMBERS):
                return None
            found.append(None if name == "1" else name)
        return found

    def _matrix(self, frame: pd.DataFrame) -> Any:
        from formulaic import ModelSpec
        from formulaic.parser.types import Factor

        category = Factor.Kind.CATEGORICAL
        spec: Any = ModelSpec.from_spec(
            _parsed(self.formula.right),
            encoder_state={
                factor: (category, {"categories": list(levels)})
                for factor, levels in self.levels.items()
            },
            transform_state={call: dict(state) for call, state in self.state.items()},
            output="numpy",
            na_action="ignore",
        )
        # Levels that nobody agreed on were refused before. The row that nobody has has one.
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return spec.get_model_matrix(frame, context=functions())

    def _nobody(self) -> pd.DataFrame:
        """A row that nobody has, for the names of the columns."""
        invented = {
            name: pd.Series(["" if agreed.kind == "label" else np.nan], dtype=_dtype(agreed))
            for name, agreed in self.columns.items()
        }
        return pd.DataFrame(invented)


@lru_cache(maxsize=64)
def _parsed(right: str) -> Any:
    """The right side of a formula, read once for all clients."""
    from formulaic import Formula as Parsed

    return Parsed.from_spec(right)


def _dtype(agreed: Agreed) -> Any:
    return object if agreed.kind == "label" else np.float64


def as_code(factor: str, formula: Formula) -> str:
    """A factor as an expression: a column whose name is no Python name is quoted."""
    return f"`{factor}`" if factor in formula.aliases.values() else factor


def as_labels(value: Any, index: Any) -> "pd.Series[Any] | None":
    """The categories that an expression gives, None where it gives numbers."""
    kind = getattr(getattr(value, "__formulaic_metadata__", None), "kind", None)
    marked = kind is not None and getattr(kind, "value", "") == "categorical"
    plain = getattr(value, "__wrapped__", value)
    if isinstance(plain, pd.Series):
        if marked or plain.dtype == object or isinstance(plain.dtype, pd.CategoricalDtype):
            return plain
        return None
    if marked:
        return pd.Series(np.asarray(plain), index=index)
    return None


def to_json(encoding: Encoding) -> dict[str, Any]:
    """An encoding as it stands in a model file."""
    return {
        "formula": encoding.formula.text,
        "right": encoding.formula.right,
        "columns": {name: [c.kind, _listed(c.order)] for name, c in encoding.columns.items()},
        "levels": {name: list(levels) for name, levels in encoding.levels.items()},
        "state": {call: dict(state) for call, state in encoding.state.items()},
        "means": encoding.means,
        "classes": _listed(encoding.classes),
    }


def from_json(stored: Mapping[str, Any], formula: Formula) -> Encoding:
    """The encoding of a model file, whose formula was read again."""
    return Encoding(
        formula=formula,
        columns={
            name: Agreed(kind, _tupled(order)) for name, (kind, order) in stored["columns"].items()
        },
        levels={name: tuple(levels) for name, levels in stored["levels"].items()},
        state={call: dict(state) for call, state in stored["state"].items()},
        means=dict(stored["means"]),
        classes=_tupled(stored["classes"]),
    )


def _listed(values: Any) -> list[Any] | None:
    return None if values is None else list(values)


def _tupled(values: Any) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)
