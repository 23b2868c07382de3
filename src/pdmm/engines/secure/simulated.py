"""Secure sums in one process: each client is a site of its own, and the server reads sums alone.

Uploads, F, gradients and Hessians are added up as the whole numbers that a federation adds up, at
the same scales, and as many bytes are counted. Masks are left out: of the sum they leave nothing.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdmm.common import trees
from pdmm.engines.clients import Terms, Vector, steepest
from pdmm.engines.exchange import Outcome, Question
from pdmm.engines.in_process import InProcess
from pdmm.engines.secure.cost import mask_bytes, names_bytes, part_bytes
from pdmm.engines.secure.function import SummedFunction
from pdmm.engines.secure.layout import Layout, round_layout
from pdmm.engines.secure.part import (
    committed_part,
    encoded_numbers,
    encoded_uploads,
    numbers_beside,
    summed,
)
from pdmm.engines.secure.scales import MOST_TRIES, AllScales, Powers, Scales, doubted
from pdmm.engines.secure.words import MOST_SITES, NOTHING, Encoded, Read, encoded
from pdmm.engines.traffic import SCALAR_BYTES, Sent
from pdmm.engines.workplace import Working
from pdmm.links.links import Links
from pdmm.methods.base import Method
from pdmm.problems.base import Problem
from pdmm.problems.block import Floats, Tally
from pdmm.problems.lazy import Lazy
from pdmm.problems.sums import CertainGradient, CurvatureSum, Total

LEAST_CLIENTS = 3  # of two, each knows the other's part by subtraction
NOT_SCALED = (
    "what the clients say fits no scale: their numbers differ too much from one question to the "
    "next. Scale the columns of the data, or take secure=False"
)
COUNTED = ("gradient", "curvature", "diagonal")  # outside of rounds; F travels uncounted


class SecureClients(InProcess):
    """Runs clients in this process as if each were a site of a federation with secure sums.

    Args:
        problem: their functions.
    """

    accurate = False
    rounds_uploads = True
    no_checkpoint = (
        "secure=True and checkpoint do not go together: in a federation with secure sums the "
        "clients alone know what they remember. Leave one of them out"
    )

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        if isinstance(problem, Lazy):
            raise ValueError(
                "secure=True needs to know all clients, which a problem that makes them when they "
                "are needed does not"
            )
        if not LEAST_CLIENTS <= problem.clients <= MOST_SITES:
            raise ValueError(
                f"secure=True is for {LEAST_CLIENTS} to {MOST_SITES} clients, each of them a site "
                f"of its own, got {problem.clients}: of two, each knows the other's part by "
                "subtraction"
            )
        self.accurate = False
        self.at_hand = False  # F travels with the answers of a round, as from sites
        self.names = [str(client) for client in range(problem.clients)]
        self.summed = SummedFunction(self._sum, problem.dimension, problem.clients)
        self.scales = AllScales(2 * problem.clients)
        self.sent = Sent()

    def behind(self, links: Links) -> None:
        if not links.steady or links.ships_memories:
            raise ValueError(
                "secure=True does not go together with participation, availability, loss, bits, "
                "local_steps and state: a secure sum is that of all clients, whose parts are whole "
                "numbers already. In a federation, pdmm.engines.Sites goes on without a site"
            )
        super().behind(links)

    def total(self, minimum: bool) -> Total | None:
        return None  # the server knows of F what the clients say

    @property
    def remarks(self) -> tuple[str, ...]:
        said = f"sums are secure, as in a federation of {self.clients} organisations"
        return (f"{said}: the server read sums over all clients alone", *super().remarks)

    def open(self, terms: Terms) -> None:
        self.scales = AllScales(2 * self.clients)
        self.sent = Sent()

    # --- a round ------------------------------------------------------------------------------

    def round(self, question: Question) -> Outcome:
        message = self.broadcasts.send(question.message, question.round, None)
        works = self.here.made(question.method, message)
        values = self._values(question)
        layout = round_layout(question.method, works[0].made.upload)
        scales = self.scales.of("round", layout)
        sent = Sent()
        for _ in range(MOST_TRIES):
            sent = sent.plus(self._sent(question, layout, scales))
            k = scales.k
            parts, whole = self._parts(question.method, works, values, layout, scales)
            found = scales.take(_added(parts))
            if found is not None:
                self._commit(question.method, works, whole, k)
                return self._outcome(question, works, layout.arrays(found), sent)
        raise ArithmeticError(NOT_SCALED)

    def _commit(
        self, method: Method, works: Sequence[Working], whole: Sequence[Encoded], k: Powers
    ) -> None:
        """Have the clients remember what they have added."""
        for work, each in zip(works, whole, strict=True):
            done = committed_part(method, work.made, work.weights, each, k)
            self.here.commit(work, done)

    def _outcome(
        self,
        question: Question,
        works: Sequence[Working],
        numbers: dict[str, Vector],
        sent: Sent,
    ) -> Outcome:
        tally = Tally()
        for work in works:
            tally.add(work.made.tally)
        sums = summed(
            numbers,
            works[0].made.upload,
            self.weight,
            tally,
            arrived=self.clients,
            sent=sent._replace(uploads=self.clients),
            value=None if question.evaluate is None else float(numbers["value"]),
            steepest=steepest(self.problem.secants()) if question.watch else 0.0,
        )
        return sums._replace(bad=self._bad(works)).outcome(self.weight, self.weight)

    def _values(self, question: Question) -> list[float]:
        """F of each client, where it is wanted."""
        wanted = question.evaluate
        if wanted is None:
            return []
        return [self.sum.of(client).value(wanted.x) for client in range(self.clients)]

    def _bad(self, works: Sequence[Working]) -> int | None:
        """A client of whose upload no sum could be read."""
        for work in works:
            rows = np.flatnonzero(~trees.finite_rows(work.made.upload))
            if len(rows):
                return int(np.arange(self.clients)[work.job.clients][rows[0]])
        return None

    def _parts(
        self,
        method: Method,
        works: Sequence[Working],
        values: list[float],
        layout: Layout,
        scales: Scales,
    ) -> tuple[list[Read], list[Encoded]]:
        """What all clients add, and their uploads as the whole numbers that they add."""
        how = (layout, scales.k, scales.room, scales.long)
        parts = []
        whole = []
        for work in works:
            uploads = encoded_uploads(work.made, work.weights, *how)
            numbers = numbers_beside(method, work.made, work.weights, None)
            beside = encoded_numbers(numbers, *how)
            parts.append(Read.joined([uploads.part, beside.part]))
            whole.append(uploads)
        none = Encoded(uploads.rows[:0], np.full_like(uploads.levels, NOTHING)).part
        for value in values:
            beside = encoded_numbers({"value": value}, *how)
            parts.append(Read.joined([none, beside.part]))
        return parts, whole

    def _sent(self, question: Question, layout: Layout, scales: Scales) -> Sent:
        method = question.method
        m = self.clients
        scalars, _ = method.scalars
        exact, _ = method.exact_numbers(question.message)
        vector = self.dimension * self.dtype.itemsize
        down = method.vectors_down * vector + SCALAR_BYTES * (scalars + exact)
        return Sent(
            contacts=m,
            vectors_down=m * method.vectors_down,
            vectors_up=m * method.vectors_up,
            bytes_down=m * (down + mask_bytes(self.names, layout.size) + names_bytes(m)),
            bytes_up=m * (part_bytes(layout.size, m, scales.long) + names_bytes(1)),
        )

    # --- F --------------------------------------------------------------------------------------

    def _sum(
        self, verb: str, x: Floats | None, T: Vector | None, layout: Layout
    ) -> dict[str, Vector]:
        """A sum over all clients, of which no part is read."""
        parts = [self._said(verb, client, x, T) for client in range(self.clients)]
        scales = self.scales.of(verb, layout)
        for _ in range(MOST_TRIES):
            if verb in COUNTED:
                self._count(layout, scales)
            found = scales.take(_added([_part(part, layout, scales) for part in parts]))
            if found is not None:
                return layout.arrays(found)
        raise ArithmeticError(NOT_SCALED)

    def _said(self, verb: str, client: int, x: Any, T: Vector | None) -> dict[str, Any]:
        """What one client says of its function."""
        own = self.sum.of(client)
        if verb == "value":
            return {"value": own.value(x)}
        if verb == "gradient":
            return own.certain_gradient(x)._asdict()
        if verb == "curvature":
            return own.curvature(x, T)._asdict()
        return {"sums": own.diagonal(x)}

    def _count(self, layout: Layout, scales: Scales) -> None:
        m = self.clients
        down = m * mask_bytes(self.names, layout.size)
        up = m * part_bytes(layout.size, m, scales.long)
        self.sent = self.sent.plus(Sent(vectors_up=m, bytes_down=down, bytes_up=up))

    def beside(self) -> Sent:
        sent = self.sent
        self.sent = Sent()
        return sent

    def value(self, x: Floats) -> float:
        return self.summed.value(x)

    def gradient(self, x: Floats) -> Vector:
        return self.certain_gradient(x).gradient

    def certain_gradient(self, x: Floats) -> CertainGradient:
        return self.summed.certain_gradient(x)

    def curvature(self, x: Floats | None, T: Vector | None) -> CurvatureSum:
        return self.summed.curvature(x, T)

    def diagonal(self, x: Floats) -> Vector:
        return self.summed.diagonal(x)


def _added(parts: Sequence[Read]) -> Read:
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part)
    return total


def _part(said: dict[str, Any], layout: Layout, scales: Scales) -> Read:
    flat = layout.flat(doubted(said, layout, scales.k))
    return encoded(flat[None], scales.k, scales.room, scales.long).part
