"""The problem of a table: clients' rows as a ``GLM``, and x in the order of a summary."""

import gc
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pdmm.problems import GLM
from pdmm.tables.client_table import ClientTable, Rows
from pdmm.tables.encoding import Encoding

Vector = npt.NDArray[np.float64]

LARGE = 10_000_000  # entries of a model matrix, of which a second copy would be felt


@dataclass(frozen=True)
class Layout:
    """Which entry of x is which coefficient. Summaries have the intercept first."""

    columns: tuple[str, ...]
    """Of the model matrix, the intercept first if there is one."""
    intercept: bool
    classes: tuple[Any, ...]
    """Of a multinomial model, those that have coefficients; else none."""

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """(d,): where each coefficient of a summary stands in x."""
        q, C = len(self.columns), max(1, len(self.classes))
        rows = np.arange(q)
        if self.intercept:
            rows = np.roll(rows, 1)
        return np.concatenate([rows * C + c for c in range(C)])

    @property
    def index(self) -> "pd.Index[Any]":
        """The names of the coefficients; of a multinomial model, a class and a name."""
        if not self.classes:
            return pd.Index(self.columns)
        pairs = [(label, name) for label in self.classes for name in self.columns]
        return pd.MultiIndex.from_tuples(pairs, names=["class", None])

    @property
    def labels(self) -> list[str]:
        """The same as text."""
        if not self.classes:
            return list(self.columns)
        return [f"{label}: {name}" for label in self.classes for name in self.columns]

    def penalised(self) -> npt.NDArray[np.bool_]:
        """(d,) in the order of x: whether a coefficient is penalised, as all but intercepts are."""
        q, C = len(self.columns), max(1, len(self.classes))
        free = np.arange(q) == q - 1 if self.intercept else np.zeros(q, dtype=bool)
        return np.repeat(~free, C)

    def weights(self, widths: Vector | None) -> Vector:
        """(d,) in the order of x: the weight of each coefficient in an l1 penalty.

        Args:
            widths: (q,): of the columns, where penalties treat these alike; None for their units.
        """
        counted = self.penalised().astype(np.float64)
        if widths is None:
            return counted
        return counted * np.repeat(widths, max(1, len(self.classes)))


@dataclass(frozen=True)
class Table:
    """The rows of all clients that have any, and the problem that they make."""

    problem: GLM
    layout: Layout
    names: tuple[str, ...]
    """Of the clients that take part."""


def encode(
    clients: Sequence[ClientTable], encoding: Encoding, offset: str | None, weights: str | None
) -> dict[str, Rows]:
    """Have each client, of which all have complete rows, make its part of the model matrix."""
    found = {client.name: client.rows(encoding, offset, weights) for client in clients}
    if sum(own.X.size for own in found.values()) > LARGE:
        gc.collect()  # formulaic's objects refer to each other, and to tables that are not needed
    return found


def build(
    rows: dict[str, Rows],
    encoding: Encoding,
    family: Any,
    ties: str,
    reference: Any,
    somewhere: bool = False,
) -> Table:
    """Make a problem of the clients' rows.

    Args:
        rows: of each client; emptied on the way, so that no matrix is held twice.
        encoding: how they were made.
        family: as of ``pdmm.GLM``.
        ties: of Cox's model.
        reference: the class of a multinomial model that has no coefficients.
        somewhere: whether there are more clients elsewhere, which may have what these lack.
    """
    layout = layout_of(encoding, family, reference)
    columns = encoding.names
    inner = [name for name in columns if name != "Intercept"]
    place = [columns.index(name) for name in inner]
    names = tuple(rows)
    first = next(iter(rows.values()))
    y = {name: own.y for name, own in rows.items()}
    w = None if first.weights is None else {name: own.weights for name, own in rows.items()}
    added = None if first.offset is None else {name: own.offset for name, own in rows.items()}
    if family == "cox" and not somewhere and not any(own[:, 1].any() for own in y.values()):
        raise ValueError(f"no row of any client has the event {encoding.formula.outcome[1]!r}")
    X = {}
    for name in names:
        own = rows.pop(name).X
        X[name] = own[:, place] if inner else own
    several = family == "multinomial"
    try:
        problem = GLM(
            X,
            y,
            family,
            layout.intercept,
            sample_weight=w,
            offset=added,
            reference=_reference(encoding, reference) if several else reference,
            ties=ties,
            classes=range(len(encoding.classes or ())) if several else None,
        )
    except ValueError as error:
        raise ValueError(_in_terms_of_tables(str(error), encoding.formula.outcome)) from None
    return Table(problem, layout, names)


def layout_of(encoding: Encoding, family: Any, reference: Any) -> Layout:
    """Which coefficients a model has.

    Args:
        encoding: how rows are made.
        family: of the model.
        reference: the class of a multinomial model that has no coefficients.
    """
    columns = encoding.names
    inner = tuple(name for name in columns if name != "Intercept")
    if family == "cox":
        if not inner:
            raise ValueError("the formula has nothing on its right that Cox's model could use")
        return Layout(inner, False, ())
    classes: tuple[Any, ...] = ()
    if family == "multinomial":
        assert encoding.classes is not None
        index = _reference(encoding, reference)
        kept = [k for k in range(len(encoding.classes)) if index is False or k != (index or 0)]
        classes = tuple(encoding.classes[k] for k in kept)
    # An intercept alone is a column as any other.
    return Layout(columns, "Intercept" in columns and bool(inner), classes)


def _reference(encoding: Encoding, reference: Any) -> Any:
    """The number of the class that has no coefficients; None or False as it was given."""
    if reference is None or reference is False:
        return reference
    return _class(reference, encoding.classes)


def _in_terms_of_tables(message: str, outcome: Sequence[str]) -> str:
    """What a GLM says of its arguments, for people who gave a formula instead."""
    words = {
        "y": f"the outcome {', '.join(outcome)!r}",
        "sample_weight": "the weight",
        "offset": "the offset",
    }
    return re.sub(
        r"^(y|sample_weight|offset)\[(.+)\] \(client \d+\)",
        lambda found: f"{words[found[1]]} of client {found[2]}",
        message,
    )


def _class(reference: Any, classes: tuple[Any, ...] | None) -> int:
    if classes is not None and reference in classes:
        return classes.index(reference)
    as_text = [str(label) for label in classes or ()]  # on the command line all classes are text
    if reference not in as_text:
        raise ValueError(f"reference={reference!r} is none of the classes {classes}")
    return as_text.index(reference)


def means(problem: GLM) -> Vector:
    """(q,): the mean of each column over all rows, from sums over clients; 0 for the intercept."""
    q = problem.features
    total = np.zeros(q)
    n = 0.0
    for i in range(problem.clients):
        X, w = _own(problem, i)
        total += w @ X
        n += float(w.sum())
    return np.append(total / n, 0.0) if problem.intercept else total / n


def spreads(problem: GLM, mean: Vector | None = None) -> Vector:
    """(q,): the standard deviation of each column over all rows, from sums over clients.

    Columns are divided by it where a penalty is to treat them alike; it is 1 for the intercept.

    Args:
        problem: whose columns they are.
        mean: of the columns, if it is known.
    """
    q = problem.features
    middle = (means(problem) if mean is None else mean)[:q]
    squares = np.zeros(q)
    n = 0.0
    for i in range(problem.clients):
        X, w = _own(problem, i)
        squares += w @ (X - middle) ** 2
        n += float(w.sum())
    found = np.sqrt(squares / n)
    return np.append(found, 1.0) if problem.intercept else found


def _own(problem: GLM, i: int) -> tuple[Vector, Vector]:
    rows = problem.rows
    return np.asarray(rows.A[i])[:, : problem.features], rows.w[rows.own(i)]
