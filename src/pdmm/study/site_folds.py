"""A site's part of cross-validation: sums over the rows that folds train on and hold out."""

from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from pdmm.common.threads import Threads
from pdmm.common.variables import Scaled
from pdmm.privacy.policy import Policy
from pdmm.privacy.refusals import Reason
from pdmm.study.questions import Payload
from pdmm.tables.design import Table
from pdmm.tables.fold_sums import Answer, ClientSums
from pdmm.tables.folds import BY_CLIENT, Folds, held_sums, split_rows
from pdmm.tables.gram_sums import held_grams

Vector = npt.NDArray[np.float64]


class SiteFolds:
    """The folds of a site's rows.

    Args:
        table: the encoded rows.
        folds: which of them are held out when.
    """

    def __init__(self, table: Table, folds: Folds) -> None:
        self.table = table
        self.folds = folds
        self.sums: ClientSums | None = None

    @classmethod
    def drawn(cls, table: Table, name: str, payload: Payload, policy: Policy) -> "SiteFolds":
        """Draw folds by the seed and the site's own name, or make the site itself one."""
        problem = table.problem
        rows = int(problem.samples.sum())
        count = int(payload["count"])
        if payload["folds"] == BY_CLIENT:
            if not policy.per_site_results:
                raise Reason(
                    "leaving one site out tells what it alone says, and per_site_results is false",
                    counts=False,
                )
            own = int(payload["place"][name])
            return cls(table, Folds(np.full(rows, own), count, ("",) * count))
        rng = np.random.default_rng([int(payload["seed"]), crc32(name.encode())])
        labels = split_rows(problem.rows.w > 0, count, rng)
        held = np.bincount(labels, minlength=count)
        if held.min() < policy.min_effective_rows:
            raise Reason(
                f"a fold holds out {held.min()} rows, and min_effective_rows is "
                f"{policy.min_effective_rows:g}"
            )
        return cls(table, Folds(labels, count, ()))

    def answer(self, verb: str, payload: Payload, look: Callable[[Vector], None]) -> Payload:
        """The sums that a question asks for; ``look`` refuses points that a policy refuses."""
        problem = self.table.problem
        if verb == "fold_weights":
            weights, columns = held_sums(problem, self.folds)
            return {"weights": weights, "columns": columns, "rows": float(problem.samples.sum())}
        with Threads(1) as threads:
            if verb == "fold_grams":
                return self._grams(payload, threads)
            sums = self._sums(payload, threads)
            if verb == "fold_constants":
                constants = sums.constants
                return {name: np.asarray(getattr(constants, name)) for name in constants._fields}
            if verb == "fold_start":
                return _stacked(sums.start())
            points = {int(k): np.asarray(y) for k, y in payload["points"].items()}
            for y in points.values():
                look(sums.variables.to_x(y))
            return _stacked(sums.ask(points))

    def _grams(self, payload: Payload, threads: Threads) -> Payload:
        if "mean" not in payload:
            rows = self.table.problem.rows
            return {"outcome": float(rows.w @ (rows.y - rows.given)), "weight": float(rows.w.sum())}
        mean = np.asarray(payload["mean"], dtype=np.float64)
        held = held_grams(self.table.problem, self.folds, mean, float(payload["middle"]), threads)
        names = ("matrix", "products", "squares", "weight")
        return {name: np.array([getattr(part, name) for part in held]) for name in names}

    def _sums(self, payload: Payload, threads: Threads) -> ClientSums:
        """The path's questions, in the coordinates that all sites share."""
        given = payload.get("variables")
        if given is not None:
            variables = Scaled(**given)
            self.sums = ClientSums(self.table.problem, self.folds, threads, variables)
        if self.sums is None:
            raise Reason("a path is asked about before its coordinates are known")
        self.sums.threads = threads
        return self.sums


def _stacked(answers: dict[int, Answer]) -> dict[str, Any]:
    """The answers of all fits, one below the other."""
    each = [answers[k] for k in sorted(answers)]
    return {name: np.array([getattr(one, name) for one in each]) for name in Answer._fields}
