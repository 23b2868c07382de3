"""Keeping the history of a run: objective, gap, traffic, calls and time."""

from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.engines.local import Sent
from pdmm.problems.base import Floats, Tally, Total
from pdmm.regularisers import Regulariser, SquaredL2
from pdmm.result import History, Traffic

ROUNDING = float(np.finfo(np.float64).eps)


class Objective:
    """F(x) = sum_i w_i f_i(x) + h(x), and its gap to the optimum where that is known."""

    def __init__(
        self,
        total: Total,
        regulariser: Regulariser | None,
        optimum: float | npt.NDArray[np.float64] | None,
    ) -> None:
        self.total, self.h = total, regulariser
        self.calls = total.calls
        self.known = total.known
        self.x_star: npt.NDArray[np.float64] | None = None
        self.f_star: float | None = None
        self.slope: npt.NDArray[np.float64] | None = None
        if isinstance(optimum, float):
            self.f_star = optimum
        elif optimum is not None and not total.accurate:
            self.f_star = self._value(optimum)
        elif optimum is not None:
            self.x_star = optimum
            self.slope = -total.gradient(optimum)
        elif regulariser is None or isinstance(regulariser, SquaredL2):
            # A minimiser by a direct solve: its slope is that of h, whatever rounding says.
            l2 = regulariser.c if regulariser is not None else 0.0
            self.x_star = total.minimiser(l2)
            self.slope = None if self.x_star is None else l2 * self.x_star
        if self.x_star is not None:
            self.f_star = self._value(self.x_star)
        if self.f_star is not None and not np.isfinite(self.f_star):
            raise ValueError(
                f"optimum has the objective {self.f_star}: it is outside the regulariser"
            )

    def _value(self, x: Floats) -> float:
        return self.total.value(x) + (self.h.value(x) if self.h else 0.0)

    def __call__(self, x: Floats) -> tuple[float, float | None]:
        """(F(x), F(x) - F*), the gap without cancellation where x* is known."""
        if self.x_star is None or self.slope is None or self.f_star is None:
            value = self._value(x)
            return value, None if self.f_star is None else value - self.f_star
        gap = self.total.divergence(x, self.x_star)
        if self.h is not None:
            gap += self.h.divergence(x, self.x_star, self.slope)
        else:
            gap -= float(self.slope @ (x - self.x_star))
        if -ROUNDING * abs(self.f_star) < gap < 0:  # x* and its slope are rounded themselves
            gap = 0.0
        return self.f_star + gap, gap


class Recorder:
    """Collects the history's columns."""

    def __init__(
        self,
        objective: Objective,
        traffic: Traffic,
        clients: int,
        exact: bool,
    ) -> None:
        self.objective, self.traffic = objective, traffic
        self.clients = clients
        self.sent = Sent(0, 0, 0, 0, 0, 0)
        self.columns: dict[str, list[Any]] = {}
        self.done, self.checks = Tally(), 0
        self.exact_error = 0.0 if exact else None
        self.start = perf_counter()

    def add(self, tally: Tally, sent: Sent) -> None:
        """Count what a round asked of the clients, and what it sent."""
        self.sent = Sent(*(a + b for a, b in zip(self.sent, sent, strict=True)))
        self.done.gradients += tally.gradients
        self.done.values += tally.values
        self.done.exact += tally.exact
        if self.exact_error is not None:
            self.exact_error = max(self.exact_error, tally.error)

    def checked(self) -> None:
        """Count a certificate: one gradient of every client, sent up."""
        self.checks += 1
        self.done.gradients += self.clients

    def record(self, r: int, x: Floats, more: dict[str, float] | None = None) -> float:
        """Evaluate and store a row, with some more columns; returns the objective."""
        with np.errstate(over="ignore", invalid="ignore"):
            value, gap = self.objective(x)
        self.done.values += self.objective.calls * self.clients
        t, sent = self.traffic, self.sent
        extra = self.checks * self.clients
        row: dict[str, Any] = {"round": r}
        if self.objective.known:
            row["objective"] = value
        if gap is not None:
            row["gap"] = gap
        vector = t.bytes_per_vector
        row |= {
            "bytes_up": sent.bytes_up + extra * vector,
            "bytes_down": sent.bytes_down,
            "vectors_up": sent.vectors_up + extra,
            "vectors_down": sent.vectors_down,
            "paper_bytes_up": sent.uploads * t.paper_up * vector,
            "paper_bytes_down": sent.contacts * t.paper_down * vector,
            "paper_vectors_up": sent.uploads * t.paper_up,
            "paper_vectors_down": sent.contacts * t.paper_down,
        }
        row |= {
            "gradient_calls": self.done.gradients / self.clients,
            "value_calls": self.done.values / self.clients,
            "exact_calls": self.done.exact / self.clients,
            "seconds": perf_counter() - self.start,
        }
        row |= more or {}
        if self.exact_error is not None:
            row["exact_error"] = self.exact_error
            self.exact_error = 0.0
        for name, entry in row.items():
            self.columns.setdefault(name, []).append(entry)
        return float(value)

    def history(self) -> History:
        """The columns as arrays."""
        return History({name: np.array(column) for name, column in self.columns.items()})
