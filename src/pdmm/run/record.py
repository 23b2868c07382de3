"""Keeping the history of a run: objective, gap, traffic, calls and time."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.engines.outcome import Owed, Sent
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
        measured = self.total.value(x) if self.x_star is None else self._divergence(x)
        return self.concluded(x)(measured)

    def _divergence(self, x: Floats) -> float:
        assert self.x_star is not None
        return self.total.divergence(x, self.x_star)

    def here(self, x: Floats) -> float:
        """What :meth:`concluded` needs, of the clients that are here."""
        if self.x_star is None:
            return self.total.value_here(x)
        return self.total.divergence_here(x, self.x_star)

    def concluded(self, x: Floats) -> Callable[[float], tuple[float, float | None]]:
        """What makes F(x) and the gap of f(x), or of its divergence where x* is known."""
        if self.x_star is None or self.slope is None or self.f_star is None:
            h, f_star = self.h.value(x) if self.h else 0.0, self.f_star

            def from_value(f: float) -> tuple[float, float | None]:
                return f + h, None if f_star is None else f + h - f_star

            return from_value
        least = self.f_star
        if self.h is not None:
            more = self.h.divergence(x, self.x_star, self.slope)
        else:
            more = -float(self.slope @ (x - self.x_star))

        def from_divergence(gap: float) -> tuple[float, float | None]:
            gap += more
            if -ROUNDING * abs(least) < gap < 0:  # x* and its slope are rounded themselves
                gap = 0.0
            return least + gap, gap

        return from_divergence


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
        self.owed = Owed()  # of the last row: what the next sum over a team must bring
        self.waiting: list[Callable[[float], tuple[float, float | None]]] = []
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

    def record(self, r: int, x: Floats, more: dict[str, float] | None = None) -> None:
        """Evaluate and store a row, with some more columns."""
        with np.errstate(over="ignore", invalid="ignore"):
            value, gap = self._later(x) if self.objective.total.parts else self.objective(x)
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

    def _later(self, x: Floats) -> tuple[float, float | None]:
        """Where clients are elsewhere too, the row's value comes with the next sum over all."""
        self.waiting.append(self.objective.concluded(x))
        try:
            self.owed = Owed((*self.owed.numbers, self.objective.here(x)))
        except Exception as error:  # all must fail together: at that sum
            self.owed = Owed((*self.owed.numbers, np.nan), error)
        return np.nan, None if self.objective.f_star is None else np.nan

    def arrived(self, numbers: tuple[float, ...]) -> None:
        """The sums over all of what was owed: the rows that wait for them are complete."""
        rows = len(self.columns["round"]) - len(self.waiting)
        for k, (number, conclude) in enumerate(zip(numbers, self.waiting, strict=True)):
            value, gap = conclude(number)
            if "objective" in self.columns:
                self.columns["objective"][rows + k] = value
            if gap is not None:
                self.columns["gap"][rows + k] = gap
        self.owed, self.waiting = Owed(), []

    def history(self) -> History:
        """The columns as arrays."""
        return History({name: np.array(column) for name, column in self.columns.items()})
