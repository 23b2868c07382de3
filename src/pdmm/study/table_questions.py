"""What a site says of its table before and during a fit: kinds, levels and sums, never a row."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pdmm.common.threads import Threads
from pdmm.engines.sites.roster import TableError
from pdmm.privacy.doors import Doors
from pdmm.privacy.questions import Question
from pdmm.privacy.refusals import Reason
from pdmm.privacy.watch import WatchedSource
from pdmm.problems.glm.statistics import statistics
from pdmm.problems.sums import SumOfBlocks
from pdmm.study import table_doors
from pdmm.study.lonely_rows import check_shares, is_made
from pdmm.study.questions import Payload, call_of, unpacked
from pdmm.study.rows import Extra, check_rows, family_of, table_of
from pdmm.study.site_folds import SiteFolds
from pdmm.tables.client_table import ClientTable, MissingError, RareError, Rows
from pdmm.tables.columns import describe
from pdmm.tables.design import Table
from pdmm.tables.encoding import Encoding
from pdmm.tables.formulas import Formula, columns_in

Vector = npt.NDArray[np.float64]

SAFE = ("must be numbers, and holds words", "is infinite in some rows")
"""Parts of errors about a table that quote none of its rows."""


class TableQuestions:
    """The questions of one fit.

    Args:
        name: of the site.
        frame: the rows that fits are about.
        doors: the policy at work.
        label: the column that has the site's name in it, if the formula may use it.
    """

    def __init__(self, name: str, frame: pd.DataFrame, doors: Doors, label: str | None) -> None:
        self.name = name
        self.doors = doors
        self.label = label
        self.client = ClientTable(name, frame, label)
        self.table: Table | None = None
        self.folds: SiteFolds | None = None
        self.counts: Any = None

    # --- before a fit ---------------------------------------------------------------------------

    def describe(self, payload: Payload) -> Payload:
        """Of the columns that a formula needs, their kinds."""
        wanted = [str(name) for name in payload["columns"]]
        table_doors.check_columns(wanted, self.doors.policy, self.label)
        table_doors.check_family(str(payload["family"]), self.doors.policy)
        found = self.client.describe(wanted)
        return {
            "columns": {
                name: [column.kind, bool(column.missing), _listed(column.order)]
                for name, column in found.items()
            }
        }

    def present(self, payload: Payload) -> Payload:
        """Counts and sums of the entries that are there."""
        encoding = self._encoding(payload)
        names = [str(name) for name in payload["names"]]
        found = self.client.present(encoding, names)
        for name in names:
            if found[name].size:  # a column without entries adds nothing to a mean
                table_doors.check_enough(int(found[name].size), self.doors.policy, "a mean")
        sums = {f"{k}": np.array(found[name][:2]) for k, name in enumerate(names)}
        return {"sums": sums}

    def count(self, payload: Payload) -> Payload:
        """How many rows there are, and how many of them are complete."""
        encoding = self._encoding(payload)
        beside = map(str, payload["encoding"]["extra"])
        self.doors.note(Question("formula"), about_formula(encoding.formula, beside))
        missing = str(payload["missing"])
        try:
            self.counts = self.client.count(
                encoding, list(payload["encoding"]["extra"]), missing, payload["weights"]
            )
        except MissingError as error:
            name = str(error).split("have no ")[-1].split(":")[0]
            raise TableError(
                f"some rows have no {name}: give missing='drop' to leave such rows out, or "
                "missing='mean'"
            ) from error
        except ValueError as error:
            raise TableError(_safe(error), self._makes(encoding, payload)) from error
        table_doors.check_left_out(self.client.undefined, self.doors.policy)
        weights = payload["weights"]
        if weights is not None and is_made(weights, encoding.columns):
            table_doors.check_weightless(self.client.absent, self.doors.policy)
        if not self.counts.complete:
            raise TableError("no row has all entries that the model needs")
        table_doors.check_enough(self.counts.complete, self.doors.policy, "the fit")
        return {"sums": {"rows": float(self.counts.rows), "complete": float(self.counts.complete)}}

    def moments(self, payload: Payload) -> Payload:
        """Sums of what center or scale is computed of."""
        encoding = self._encoding(payload)
        call = call_of(encoding, str(payload["call"]))
        values = encoding.numbers(call.argument, self.client.complete)
        table_doors.check_spread(values, self.doors.policy)
        check_shares(values[:, None], None, self.doors.policy, "a constant and this mean")
        found = self.client.moments(encoding, call, payload["mean"])
        return {"sums": {"moments": np.array(found)}}

    def levels(self, payload: Payload) -> Payload:
        """The levels of each category that are not rare."""
        policy = self.doors.policy
        merge = policy.rare_levels == "merge"
        encoding = self._encoding(payload)
        try:
            return {"levels": self.client.levels(encoding, policy.min_rows_per_level, merge)}
        except RareError as error:
            raise Reason(
                f"{error}, and rare_levels is {policy.rare_levels!r}",
                counts=self._makes(encoding, payload),
            ) from None

    def classes(self, payload: Payload) -> Payload:
        """The classes of the outcome; None where these are numbers."""
        encoding = self._encoding(payload)
        found = self.client.classes(encoding, payload["numbers"] is True)
        if found is not None:
            self._check_classes(encoding, self._makes(encoding, payload))
        return {"classes": found}

    def _check_classes(self, encoding: Encoding, counts: bool) -> None:
        value = encoding.value(encoding.formula.outcome[0], self.client.complete)
        rarest = int(pd.Series(value).value_counts().min())
        least = self.doors.policy.min_rows_per_level
        if rarest < least:
            raise Reason(
                f"a class of the outcome stands in {rarest} rows, and min_rows_per_level is "
                f"{least}",
                counts=counts,
            )

    def encode(self, payload: Payload) -> Payload:
        """Make the rows of the model matrix, which stay here."""
        encoding = self._encoding(payload)
        makes = self._makes(encoding, payload)
        extra = Extra(payload["offset"], payload["weights"])
        family = family_of(str(payload["family"]), payload["delta"])
        table_doors.check_family(str(payload["family"]), self.doors.policy)
        try:
            rows: Rows = self.client.rows(encoding, *extra)
        except ValueError as error:
            raise TableError(_safe(error), makes) from error
        told = encoding, family, str(payload["ties"]), payload["reference"]
        self.table = table_of(rows, *told, self.doors, counts=makes)
        check_rows(rows, encoding, extra, self.doors.policy)
        return {}

    # --- sums over encoded rows -----------------------------------------------------------------

    @property
    def made(self) -> Table:
        """The encoded rows."""
        if self.table is None:
            raise Reason("sums over rows are asked for before these are encoded")
        return self.table

    def columns_total(self, payload: Payload) -> Payload:
        """The weighted sum of each column, and the sum of the weights."""
        rows = self.made.problem.rows
        A = np.asarray(rows.A[0])
        return {"sums": {"total": rows.w @ A[:, : rows.features], "weight": float(rows.w.sum())}}

    def columns_squares(self, payload: Payload) -> Payload:
        """The weighted sum of each column's squared differences from a mean."""
        rows = self.made.problem.rows
        mean = np.asarray(payload["mean"], dtype=np.float64)
        A = np.asarray(rows.A[0])[:, : rows.features]
        return {"sums": {"squares": rows.w @ (A - mean) ** 2}}

    def statistics(self, payload: Payload, x: Vector) -> Payload:
        """What a statistician's numbers are made of, at the estimate."""
        hessians = payload["hessians"] is True
        if hessians:
            self.doors.check_hessians()
        self.look(x)
        found = statistics(self.made.problem, x, 0, payload["robust"] is True)
        sums: Payload = {
            name: getattr(found, name)
            for name in ("n", "events", "deviance", "pearson", "likelihood")
        }
        if hessians:
            names = ("gradient", "hessian", "expected", "squares")
            sums |= {name: getattr(found, name) for name in names}
        if payload["clusters"] is True:
            sums["scores"] = np.outer(found.gradient, found.gradient)
        return {"sums": sums}

    def look(self, x: Vector) -> None:
        """Have the doors see a point, and refuse it where the policy does."""
        if not self.doors.watches:
            return
        problem = self.made.problem
        watched = WatchedSource(problem, self.doors.watch, problem.clients)
        with Threads(1) as threads:
            SumOfBlocks(problem, watched, np.ones(1), threads).value(x)

    # --- cross-validation -----------------------------------------------------------------------

    def fold(self, verb: str, payload: Payload) -> Payload:
        """Sums over folds."""
        if verb in ("fold_weights", "fold_grams") and payload.get("folds") is not None:
            self.folds = SiteFolds.drawn(self.made, self.name, payload, self.doors.policy)
        if self.folds is None:
            raise Reason("sums over folds are asked for before these are drawn")
        self.doors.check_hessians()
        return {"sums": self.folds.answer(verb, payload, self.look)}

    # --- its own --------------------------------------------------------------------------------

    def _makes(self, encoding: Encoding, payload: Payload) -> bool:
        """Whether the formula makes columns of its own, so that a refusal tells of rows."""
        formula, extra = encoding.formula, payload["encoding"]["extra"]
        every = (*formula.outcome, *formula.factors, *map(str, extra))
        return any(is_made(expression, encoding.columns) for expression in every)

    def _encoding(self, payload: Payload) -> Encoding:
        encoding = unpacked(payload["encoding"])
        wanted = [*encoding.formula.columns]
        for text in payload["encoding"]["extra"]:
            wanted += sorted(columns_in(str(text)))
        table_doors.check_columns(wanted, self.doors.policy, self.label)
        return encoding


def described(frame: pd.DataFrame) -> dict[str, Any]:
    """The kind of each column of a table."""
    return {name: describe(frame[name]) for name in frame}


def about_formula(formula: Formula, beside: Iterable[str] = ()) -> str:
    """The formula as it is computed here, for the audit, with an offset and weights beside it.

    A series of fits that differ a little tells more than each of them.
    """
    said = f"{', '.join(formula.outcome)} ~ {formula.right.removeprefix('1 + ')}"
    return f"the formula is {said!r}" + "".join(f", and {one!r}" for one in beside)


def _listed(values: Any) -> list[Any] | None:
    return None if values is None else list(values)


def _safe(error: ValueError) -> str:
    """What others may read of an error about a table."""
    text = str(error)
    if any(part in text for part in SAFE):
        return text
    if "cannot be computed at client" in text:
        return text.split(" at client")[0]
    return "its table does not suit the model: what is wrong is in the site's own error log"
