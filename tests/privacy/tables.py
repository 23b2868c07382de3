"""The tables that are attacked: of each, the rows of one site, and the site's problem."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import pdmm

Vector = npt.NDArray[Any]


class Table(NamedTuple):
    """A site's table, as the site has it and as its problem takes it."""

    X: Vector
    y: Vector
    family: str
    options: Mapping[str, Any] = MappingProxyType({})

    def problem(self) -> pdmm.Problem:
        """The site's problem, of one client."""
        if self.family == "softmax":
            labels = self.y.astype(int)
            return pdmm.SoftmaxRegression([self.X], [labels], **self.options)
        if self.family == "huber":
            return pdmm.GLM([self.X], [self.y], pdmm.Huber(1.0))
        return pdmm.GLM([self.X], [self.y], self.family, **self.options)

    def part(self, k: int, parts: int) -> "Table":
        """Every so many-th row: what one of several sites has."""
        return self._replace(X=self.X[k::parts], y=self.y[k::parts])


def standardised(X: Vector) -> Vector:
    """Columns of mean 0 and standard deviation 1."""
    return np.asarray((X - X.mean(0)) / X.std(0))


def whole() -> Table:
    """400 rows of 8 normal columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 8))
    odds = X @ rng.standard_normal(8)
    y = rng.random(400) < 1 / (1 + np.exp(-odds))
    return Table(X, y.astype(float), "binomial")


def logistic() -> Table:
    """What one of three sites has of them."""
    return whole().part(0, 3)


def cancer() -> Table:
    """Breast cancer, standardised."""
    raw = cancer_as_it_comes()
    return raw._replace(X=standardised(raw.X))


def cancer_as_it_comes() -> Table:
    """Breast cancer, whose columns differ by a factor of 10,000."""
    X, y = load_breast_cancer(return_X_y=True)
    return Table(X, y.astype(float), "binomial").part(0, 3)


def wine() -> Table:
    """Three kinds of wine: so few rows that two sites share them."""
    X, y = load_wine(return_X_y=True)
    return Table(standardised(X), y, "multinomial").part(0, 2)


def diabetes() -> Table:
    """Least squares."""
    X, y = load_diabetes(return_X_y=True)
    return Table(standardised(X), standardised(y), "gaussian").part(0, 3)


def diabetes_in_two() -> Table:
    """The outcome of diabetes above its median, or not."""
    table = diabetes()
    return table._replace(y=(table.y > np.median(table.y)) * 1.0, family="binomial")


def cells() -> Table:
    """Twelve binary columns: nearly every patient is alone with a combination of them."""
    rng = np.random.default_rng(1)
    X = (rng.random((150, 12)) < 0.5) * 1.0
    return Table(X, (rng.random(150) < 0.4) * 1.0, "binomial")


def counts() -> Table:
    """Counts, some of them large."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((150, 6))
    return Table(X, rng.poisson(np.exp(1 + 0.3 * X.sum(1) / 2)) * 1.0, "poisson")


def survival() -> Table:
    """A small table for Cox's model."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 4))
    time = rng.exponential(np.exp(-X[:, 0]))
    return Table(X, np.column_stack([time, rng.random(120) < 0.7]), "cox")


def batches() -> Table:
    """Softmax regression with mini-batches of 50."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 6))
    y = (X[:, 0] + rng.standard_normal(200) > 0) * 1.0
    return Table(X, y, "softmax", {"classes": 2, "batch_size": 50})


def rare() -> Table:
    """A rare outcome: a point that is wrong about all rows that have it loses little."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((200, 8))
    odds = X[:, 0] + X[:, 1] - 4
    y = rng.random(200) < 1 / (1 + np.exp(-odds))
    return Table(X, y.astype(float), "binomial")


def few_rows() -> Table:
    """As few as a policy allows."""
    table = logistic()
    return table._replace(X=table.X[:50], y=table.y[:50])


def robust() -> Table:
    """Huber's loss, which has kinks."""
    return diabetes()._replace(family="huber")


TABLES: dict[str, Callable[[], Table]] = {
    "logistic": logistic,
    "cancer": cancer,
    "cancer as it comes": cancer_as_it_comes,
    "wine": wine,
    "diabetes": diabetes,
    "diabetes in two": diabetes_in_two,
    "cells": cells,
    "counts": counts,
    "survival": survival,
    "batches": batches,
    "few rows": few_rows,
    "robust": robust,
    "rare": rare,
}


def recovered(claims: Any, table: Table) -> int:
    """How many rows were found out; of Cox's model, how many differences of two.

    A claim counts for a row if it is within 1e-3 of it, relative to the row's distance from the
    mean row. Lengths are Euclidean, in standard deviations of the columns. All rows of these
    tables are further from each other, but for equal ones.
    """
    spread = table.X.std(0)
    rows, mean = table.X, table.X.mean(0)
    if table.family == "cox":
        rows, mean = (rows[:, None] - rows).reshape(-1, len(spread)), 0 * mean
    sizes = np.linalg.norm((rows - mean) / spread, axis=1)
    found = set()
    for claim in claims:
        if not np.isfinite(claim).all():
            continue
        away = np.linalg.norm((claim - rows) / spread, axis=1)
        nearest = int(away.argmin())
        if away[nearest] <= 1e-3 * sizes[nearest]:
            found.add(nearest)
    return len(found)
