"""Cox's partial likelihood by plain loops, as textbooks write it, in numbers of any precision."""

from collections.abc import Sequence
from typing import Any


class Cox:
    """Minus the log partial likelihood of one stratum, in 40 digits where ``math`` is mpmath."""

    def __init__(
        self, time: Sequence[float], event: Sequence[int], w: Sequence[Any], ties: str, math: Any
    ) -> None:
        self.w = w
        self.math = math
        # one term for each event: (its weight, its log's rows and their part in it)
        self.terms: list[tuple[Any, list[tuple[int, Any]]]] = []
        self.events = [r for r in range(len(time)) if event[r] and w[r] > 0]
        for moment in sorted({time[r] for r in self.events}):
            tied = [r for r in self.events if time[r] == moment]
            mean = sum(w[r] for r in tied) / len(tied)
            for j in range(len(tied)):
                rows = []
                for r in range(len(time)):
                    if time[r] >= moment and w[r] > 0:
                        share = j * math.mpf(1) / len(tied) if ties == "efron" else 0
                        rows.append((r, 1 - share if r in tied else 1))
                self.terms.append((mean, rows))

    def _parts(self, eta: Sequence[Any]) -> list[tuple[Any, dict[int, Any], Any]]:
        """Of each term: its weight, its rows' shares, and the logarithm."""
        parts = []
        for c, rows in self.terms:
            sizes = {r: part * self.w[r] * self.math.exp(eta[r]) for r, part in rows}
            phi = sum(sizes.values())
            parts.append((c, {r: size / phi for r, size in sizes.items()}, self.math.log(phi)))
        return parts

    def value(self, eta: Sequence[Any]) -> Any:
        logs = sum((c * log for c, _, log in self._parts(eta)), self.math.mpf(0))
        return logs - sum(self.w[r] * eta[r] for r in self.events)

    def slope(self, eta: Sequence[Any]) -> list[Any]:
        slope = [self.math.mpf(0)] * len(eta)
        for c, shares, _ in self._parts(eta):
            for r, p in shares.items():
                slope[r] += c * p
        for r in self.events:
            slope[r] -= self.w[r]
        return slope

    def hessian(self, Z: Sequence[Sequence[Any]], eta: Sequence[Any]) -> list[list[Any]]:
        k = len(Z[0])
        H = [[self.math.mpf(0)] * k for _ in range(k)]
        for c, shares, _ in self._parts(eta):
            mean = [sum(p * Z[r][a] for r, p in shares.items()) for a in range(k)]
            for a in range(k):
                for b in range(k):
                    H[a][b] += c * sum(
                        p * (Z[r][a] - mean[a]) * (Z[r][b] - mean[b]) for r, p in shares.items()
                    )
        return H
