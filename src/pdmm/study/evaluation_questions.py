"""What a site says of a model's predictions of its own outcomes: sums, and counts in bins."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pdmm.privacy.doors import Doors
from pdmm.privacy.refusals import Reason
from pdmm.privacy.watch import effective_rows
from pdmm.problems.glm.families import Binomial, Family
from pdmm.problems.glm.statistics import saturated
from pdmm.study.questions import Payload
from pdmm.study.rows import judged_rows
from pdmm.tables import predicting
from pdmm.tables.evaluation import EDGE, concordant, outcome, row_weights
from pdmm.tables.stored import Stored, of_body

Vector = npt.NDArray[np.float64]

LARGEST = 100.0  # how far a calibration may stretch the linear predictors


class EvaluationQuestions:
    """The questions of one evaluation.

    Args:
        model: as a model file holds it.
        frame: the rows that are set aside.
        doors: the policy at work.
    """

    def __init__(self, model: Any, frame: pd.DataFrame, doors: Doors) -> None:
        self.stored: Stored = of_body(dict(model))
        self.doors = doors
        self.aside = len(frame)
        self.frame, self.problem = judged_rows(self.stored, frame, doors)
        self.look()
        self.w = row_weights(self.stored, self.frame)
        self.y = outcome(self.stored, self.frame)

    def look(self) -> None:
        """Have the doors see the model, whose coefficients are a point as any other."""
        if not self.doors.watches:
            return
        from pdmm.common.threads import Threads
        from pdmm.privacy.watch import WatchedSource
        from pdmm.problems.sums import SumOfBlocks

        watched = WatchedSource(self.problem, self.doors.watch, self.problem.clients)
        with Threads(1) as threads:
            SumOfBlocks(self.problem, watched, np.ones(1), threads).value(self.stored.x)

    @property
    def eta(self) -> Vector:
        """(n,) or (n, classes): linear predictors."""
        return predicting.linear_predictor(self.stored, self.frame)

    @property
    def mean(self) -> Vector:
        """What the model expects of each row."""
        return np.asarray(predicting.mean(self.stored, self.frame), dtype=np.float64)

    # --- sums -----------------------------------------------------------------------------------

    def sums(self) -> Payload:
        """What measures are made of."""
        own = {
            "binomial": self._binomial,
            "multinomial": self._multinomial,
            "cox": self._cox,
        }.get(self.stored.family, self._numbers)
        counts = {"aside": float(self.aside), "rows": float(len(self.frame))}
        return {**counts, "weight": float(self.w.sum()), **own()}

    def _binomial(self) -> Payload:
        y, w, p, eta = self.y, self.w, self.mean, self.eta
        inside = np.clip(p, EDGE, 1 - EDGE)
        losses = -(y * np.log(inside) + (1 - y) * np.log1p(-inside))
        return {
            "observed": w @ y,
            "expected": w @ p,
            "squares": w @ (p - y) ** 2,
            "losses": w @ losses,
            "eta": w @ eta,
            "eta_squares": w @ eta**2,
        }

    def _multinomial(self) -> Payload:
        P = predicting.probabilities(self.stored, self.frame).to_numpy()
        codes = self.y.astype(int)
        own = np.clip(P[np.arange(len(codes)), codes], EDGE, 1.0)
        right = P.argmax(axis=1) == codes
        truth = np.eye(P.shape[1])[codes]
        return {
            "right": self.w @ right,
            "squares": self.w @ ((P - truth) ** 2).sum(axis=1),
            "losses": -(self.w @ np.log(own)),
        }

    def _numbers(self) -> Payload:
        y, w, mu = self.y, self.w, self.mean
        return {
            "observed": w @ y,
            "expected": w @ mu,
            "squares": w @ (y - mu) ** 2,
            "absolute": w @ np.abs(y - mu),
        }

    def _cox(self) -> Payload:
        time, event = self.y, outcome(self.stored, self.frame, 1)
        agreed, known = concordant(time, event, self.eta)
        return {"events": event.sum(), "agreed": agreed, "known": known}

    def more(self, payload: Payload) -> Payload:
        """What can only be computed once the first sums are known."""
        if self.stored.family == "binomial":
            edges = np.asarray(payload["edges"], dtype=np.float64)
            return self._groups(edges) if payload["expected"] is True else self._bins(edges)
        found: Payload = {"spread": self.w @ (self.y - float(payload["mean"])) ** 2}
        family = predicting.MEANS.get(self.stored.family)
        if self.stored.family in ("poisson", "gamma"):
            assert family is not None
            null = np.full(len(self.y), float(payload["mean"]))
            found["deviance"] = self._deviance(family, np.log(self.mean))
            found["null"] = self._deviance(family, np.log(null))
        return found

    def _deviance(self, family: Family, eta: Vector) -> float:
        value = family.loss(eta, self.y) + saturated(family, self.y)
        return float(2 * self.w @ value)

    def _bins(self, edges: Vector) -> Payload:
        """In each bin of linear predictors, the rows, and those with the outcome."""
        return self._in_bins(edges, rows=self.w, observed=self.w * self.y)

    def _groups(self, edges: Vector) -> Payload:
        """The same, and how many of them the model expects."""
        columns = {"rows": self.w, "expected": self.w * self.mean, "observed": self.w * self.y}
        return self._in_bins(edges, **columns)

    def _in_bins(self, edges: Vector, **columns: Vector) -> Payload:
        """Sums over bins, where one with few rows is put together with the next."""
        many = len(edges) + 1
        fewest = self.doors.policy.min_rows_per_cell
        place = merged(np.searchsorted(edges, self.eta), many, fewest)
        return {name: np.bincount(place, own, many) for name, own in columns.items()}

    def calibration(self, payload: Payload) -> Payload:
        """Gradient and Hessian of a logistic model of the outcome by the linear predictor.

        One model has a slope and an intercept, the other an intercept alone.
        """
        slope, shift, alone = (float(number) for number in np.asarray(payload["at"]))
        if not max(abs(slope), abs(shift), abs(alone)) <= LARGEST:
            raise Reason("a calibration is asked about that stretches the predictions too far")
        eta = self.eta
        g, H = self._logistic(np.column_stack([eta, np.ones(len(eta))]), slope * eta + shift)
        g1, H1 = self._logistic(np.ones((len(eta), 1)), eta + alone)
        return {"gradient": g, "hessian": H, "alone": np.array([g1[0], H1[0, 0]])}

    def _logistic(self, A: Vector, eta: Vector) -> tuple[Vector, Vector]:
        family = Binomial()
        p = family.mean(eta)
        bends = p * family.mean(-eta)
        fewest = self.doors.policy.min_effective_rows
        if not effective_rows(bends[:, None]) >= fewest:
            raise Reason(
                f"a calibration would be about fewer rows than min_effective_rows, {fewest:g}"
            )
        return A.T @ (self.w * (p - self.y)), A.T @ (A * (self.w * bends)[:, None])


def merged(place: npt.NDArray[np.int64], many: int, fewest: int) -> npt.NDArray[np.int64]:
    """Bins of rows, where each has either no row or at least so many.

    >>> import numpy as np
    >>> merged(np.array([0, 0, 1, 2, 2, 3]), 4, 2).tolist()
    [0, 0, 2, 2, 2, 2]
    """
    counts = np.bincount(place, minlength=many)
    target = np.arange(many)
    held: list[int] = []
    rows = 0
    last = -1
    for k in range(many):
        if not counts[k]:
            continue
        held.append(k)
        rows += int(counts[k])
        if rows >= fewest:
            target[held] = k
            last = k
            held = []
            rows = 0
    if held:
        target[held] = last if last >= 0 else held[-1]
    return target[place]
