"""All clients in this process: blocks of them in cache, on all cores."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.methods.base import Method
from pdmm.problems.base import Floats, Problem, Tally
from pdmm.threads import Threads


class Sent(NamedTuple):
    """What was sent in a round, by all and to all."""

    contacts: int
    """Messages down."""
    uploads: int
    """Messages up."""
    vectors_down: int
    vectors_up: int
    bytes_down: int
    bytes_up: int


class Outcome(NamedTuple):
    """What the server learns from a round, and what the round cost."""

    mean: Any
    share: float
    tally: Tally
    bad_client: int | None
    disagreement: float | None  # weighted mean of ‖x_i - x_s‖²
    sent: Sent
    arrived: int  # uploads


class Local:
    """Runs a method's clients, block by block. It knows nothing of the mathematics."""

    def __init__(
        self,
        problem: Problem,
        method: Method,
        x0: Floats,
        weights: npt.NDArray[np.float64],
        rounds: int,
        threads: Threads,
    ) -> None:
        self.method, self.weights, self.threads = method, weights, threads
        self.source = problem.prepare(rounds, method.steps, method.exact, threads)
        self.blocks = problem.blocks()
        self.dtype = problem.dtype
        own = np.repeat(x0.astype(self.dtype)[None], problem.clients, axis=0)
        self.memory = method.client_start(own)
        self.cursor = np.zeros(problem.clients, dtype=np.int64)

    def round(self, message: Any) -> Outcome:
        """Send the message to every client, and average what they upload."""
        kind = type(message)
        delivered = kind(*(np.asarray(field, dtype=self.dtype) for field in message))
        parts = list(self.threads.map(lambda block: self._work(delivered, block), self.blocks))
        self.cursor += self.method.steps
        weight = float(self.weights.sum())
        upload = parts[0][0]
        with np.errstate(over="ignore", invalid="ignore"):
            sums = [sum(fields) for fields in zip(*(part[0] for part in parts), strict=True)]
        tally = Tally()
        for part in parts:
            tally.add(part[1])
        return Outcome(
            mean=type(upload)(*(total / weight for total in sums)),
            share=1.0,
            tally=tally,
            bad_client=next((part[2] for part in parts if part[2] is not None), None),
            disagreement=None if parts[0][3] is None else sum(part[3] for part in parts) / weight,
            sent=self._sent(delivered),
            arrived=len(self.weights),
        )

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
        """All that changes: the clients' memories, and where their mini-batches go on."""
        return {"memory": list(self.memory), "cursor": self.cursor}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.memory = type(self.memory)(*state["memory"])
        self.cursor = state["cursor"]

    def _work(self, message: Any, block: slice) -> tuple[Any, Tally, int | None, Any]:
        """One block's round: sums of uploads (float64), its tally, a bad client, disagreement."""
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
            bad = block.start + int(found[0] if len(found) else 0)
        return sums, f.tally, bad, apart
