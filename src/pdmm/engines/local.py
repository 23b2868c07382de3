"""All clients in this process: blocks of them in cache, on all cores."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.threads import Threads
from pdmm.engines.client_tables import Memories
from pdmm.engines.outcome import NOTHING, Added, Ledger, Outcome, Owed, Part, Sent, add, steepest
from pdmm.methods.base import Method
from pdmm.problems.base import Floats, Problem


class Local(Memories):
    """Runs a method's clients, block by block. It knows nothing of the mathematics."""

    remarks: tuple[str, ...] = ()

    def __init__(
        self,
        problem: Problem,
        method: Method,
        x0: Floats,
        weights: npt.NDArray[np.float64],
        rounds: int,
        threads: Threads,
    ) -> None:
        self.method, self.threads = method, threads
        self.weights, self.weight = weights[problem.own], float(weights.sum())
        self.problem, self.first = problem.here, problem.own.start
        self.source = problem.prepare(rounds, method.steps, method.exact, threads)
        self.blocks, self.dtype = problem.here.blocks(), problem.dtype
        own = np.repeat(x0.astype(self.dtype)[None], len(self.weights), axis=0)
        self.memory = method.client_start(own)
        self.cursor = np.zeros(len(self.weights), dtype=np.int64)
        self.ledger = Ledger(method, x0, self.dtype, threads.team)

    def round(self, message: Any, owed: Owed = NOTHING) -> Outcome:
        """Send the message to every client, and average what they upload."""
        kind = type(message)
        delivered = kind(*(np.asarray(field, dtype=self.dtype) for field in message))

        def work() -> Added:
            parts = list(self.threads.map(lambda block: self._work(delivered, block), self.blocks))
            self.cursor += self.method.steps
            seen = steepest(self.problem) if owed.watch else 0.0
            return add(parts, self._sent(delivered), len(self.weights), owed, seen)

        return self.ledger.add(work, owed).outcome(self.weight, self.weight)

    def _sent(self, message: Any) -> Sent:
        m, method = len(self.weights), self.method
        vector = message[0].size * self.dtype.itemsize
        down, up = method.scalars
        return Sent(
            contacts=m,
            uploads=m,
            vectors_down=m * method.vectors_down,
            vectors_up=m * method.vectors_up,
            bytes_down=m * (method.vectors_down * vector + 8 * down),
            bytes_up=m * (method.vectors_up * vector + 8 * up),
        )

    def state(self) -> dict[str, Any]:
        """All that changes, but for what belongs to single clients: nothing."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""

    def _work(self, message: Any, block: slice) -> Part:
        """One block's round."""
        method, memory = self.method, self.memory
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # seen below
            f = self.source.at(block, self.cursor[block])
            mine = method.receive(message, type(memory)(*(field[block] for field in memory)))
            upload, draft = method.client(message, mine, f, method.steps)
            for field, new in zip(memory, method.accept(mine, draft, upload), strict=True):
                field[block] = new
            w = self.weights[block]
            sums = type(upload)(*(w @ field.astype(np.float64, copy=False) for field in upload))
            apart = method.disagreement(upload)
            apart = None if apart is None else float(w @ apart)
        bad = None
        if not all(np.isfinite(field).all() for field in sums):
            rows = [~np.isfinite(field).all(axis=1) for field in upload]
            found = np.flatnonzero(np.any(rows, axis=0))
            bad = self.first + block.start + int(found[0] if len(found) else 0)
        return Part(sums, float(w.sum()), f.tally, bad, apart)
