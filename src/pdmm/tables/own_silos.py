"""Tables in this process, a client after the other."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from pdmm.common.threads import Threads
from pdmm.problems.glm.statistics import Statistics, statistics
from pdmm.regularisers import Regulariser
from pdmm.result import Result
from pdmm.tables.agreement import Agreement
from pdmm.tables.client_table import Counts, Moments
from pdmm.tables.columns import Column
from pdmm.tables.cross_validation import Folded, fold
from pdmm.tables.design import Layout, Table, build, encode, spreads
from pdmm.tables.encoding import Encoding
from pdmm.tables.expressions import Call
from pdmm.tables.fitted import Fit
from pdmm.tables.reading import Given
from pdmm.tables.silos import Options, Totals
from pdmm.tables.stored import Stored

Vector = npt.NDArray[np.float64]
T = TypeVar("T")


class OwnSilos:
    """The tables that a user gave.

    Args:
        given: the clients' tables.
        label: the column of the clients' names.
    """

    def __init__(self, given: Given, label: str | None = None) -> None:
        self.label = label
        self.unlabelled = given.unlabelled
        self._clients = given.clients
        self._there = given.clients  # those with complete rows, once these are counted
        self.counts: dict[str, Counts] = {}

    def describe(self, wanted: Sequence[str]) -> dict[str, dict[str, Column]]:
        return {client.name: client.describe(wanted) for client in self._clients}

    def present(self, encoding: Encoding, names: Sequence[str]) -> dict[str, Moments]:
        answers = [client.present(encoding, names) for client in self._clients]
        return {name: _added([answer[name] for answer in answers]) for name in names}

    def count(
        self, encoding: Encoding, extra: Sequence[str], missing: str, weights: str | None
    ) -> Counts:
        for client in self._clients:
            self.counts[client.name] = client.count(encoding, extra, missing, weights)
        self._there = [client for client in self._clients if self.counts[client.name].complete]
        each = self.counts.values()
        return Counts(sum(own.rows for own in each), sum(own.complete for own in each))

    def moments(self, encoding: Encoding, call: Call, mean: float | None) -> Moments:
        return _added([client.moments(encoding, call, mean) for client in self._there])

    def levels(self, encoding: Encoding) -> dict[str, list[Any]]:
        union: dict[str, list[Any]] = {}
        for client in self._there:
            for factor, levels in client.levels(encoding).items():
                union.setdefault(factor, []).extend(levels)
        return union

    def classes(self, encoding: Encoding, numbers: bool) -> list[Any] | None:
        each = [client.classes(encoding, numbers) for client in self._there]
        if all(classes is None for classes in each):
            return None
        return [label for classes in each for label in classes or ()]

    def model(self, agreement: Agreement, options: Options) -> "OwnModel":
        rows = encode(self._there, agreement.encoding, options.offset, options.weights)
        family = options.family
        table = build(rows, agreement.encoding, family, options.ties, options.reference)
        return OwnModel(table, self.counts, options)


class OwnModel:
    """The rows of tables in this process.

    Args:
        table: the rows of those clients that have any.
        counts: of all clients.
        options: of the fit.
    """

    no_errors = ""

    def __init__(self, table: Table, counts: dict[str, Counts], options: Options) -> None:
        self.table = table
        self.counts = counts
        self.options = options
        self.each: list[Statistics] = []

    @property
    def layout(self) -> Layout:
        return self.table.layout

    def spreads(self) -> Vector:
        return spreads(self.table.problem)

    def folded(self, options: Options) -> AbstractContextManager[Folded]:
        return fold(self.table, options.folds, options.seed, options.threads)

    def minimise(self, regulariser: Regulariser | None) -> Result:
        return self.options.minimise(self.table.problem, regulariser)

    def hessian(self, x: Vector) -> Vector:
        return self.table.problem.hessian(x)

    def totals(self, x: Vector, robust: bool, clusters: bool) -> Totals:
        self.each = self._asked(partial(statistics, self.table.problem, x, robust=robust))
        total = self.each[0]
        for own in self.each[1:]:
            total = total.plus(own)
        scores = None
        if clusters:
            gradients = np.stack([own.gradient for own in self.each])
            scores = gradients.T @ gradients
        return Totals(total, len(self.each), scores)

    def _asked(self, question: Callable[[int], T]) -> list[T]:
        with Threads(self.options.threads) as pool:
            return list(pool.map(question, range(self.table.problem.clients)))

    def fit(self, stored: Stored, result: Result) -> Fit:
        """The fit, with the rows, dropped rows and events of each client."""
        own = dict(zip(self.table.names, self.each, strict=True))
        for name, (rows, complete) in self.counts.items():
            stored.sites[name] = {
                "rows": complete,
                "dropped": rows - complete,
                "n": own[name].n if name in own else 0.0,
                "events": own[name].events if name in own else 0.0,
            }
        return Fit(stored, result=result, table=self.table, each=tuple(self.each))


def _added(parts: Sequence[Moments]) -> Moments:
    return Moments(
        sum(part.size for part in parts),
        sum(part.total for part in parts),
        sum(part.squares for part in parts),
    )
