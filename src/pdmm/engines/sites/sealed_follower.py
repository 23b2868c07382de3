"""A site that computes x itself, from masked uploads: it reads their sum, as the server does."""

import hashlib
from typing import Any

import numpy as np

from pdmm.common import trees
from pdmm.engines.exchange import Sums
from pdmm.engines.secure.layout import UPLOAD, Layout, Vector, round_layout
from pdmm.engines.secure.scales import Scales
from pdmm.engines.secure.words import Words, unpacked, words_of
from pdmm.engines.sites.follower import Follower
from pdmm.engines.sites.seal import Mask, signed_bytes
from pdmm.engines.traffic import Sent
from pdmm.privacy.questions import digest_of
from pdmm.privacy.refusals import Reason
from pdmm.problems.block import Tally


class SealedFollower(Follower):
    """The server's part of a run with secure sums, done at a site.

    Scales follow from the sums before, so that no server chooses them either.
    """

    addends = 0
    counter = 0
    """Of the last sum that was taken over."""

    def begin(self, addends: int) -> None:
        """Know how many parts a sum has at most."""
        self.addends = addends
        self.scales: dict[Any, Scales] = {}

    def layout(self) -> Layout:
        """What the sum of the next round is of."""
        return round_layout(self.method, self.forms.of(self.method, self.message).upload)

    def own_scales(self, layout: Layout) -> Scales:
        """The scales of the next sum."""
        key = tuple((part.name, part.shape) for part in layout.parts)
        if key not in self.scales:
            self.scales[key] = Scales(layout, self.addends)
        return self.scales[key]

    def check_scales(self, mask: Mask, layout: Layout) -> None:
        """Refuse a sum at other scales than those that follow."""
        own = self.own_scales(layout)
        same = np.array_equal(own.k, mask.scales) and own.long == mask.long
        if not same or mask.addends != self.addends:
            raise Reason("a sum is asked for at other scales than those that follow")

    def follow(self, rounds: Any) -> None:
        for news in rounds:
            if news["counter"] <= self.counter:
                continue
            if news["round"] != self.round + 1:
                raise Reason(f"nothing is told of round {self.round + 1}")
            self._take(news)

    def _take(self, news: Any) -> None:
        """Read a sum, and make the server's step where it can be read."""
        sites = news["sites"]
        among = tuple(sorted(sites))
        counter = int(news["counter"])
        if not set(among) <= set(self.weights):
            raise Reason(f"in round {self.round + 1} sites answered that do not take part")
        layout = self.layout()
        scales = self.own_scales(layout)
        total = np.zeros(words_of(layout.size, len(among), scales.long), dtype=np.uint64)
        signatures = []
        for name in among:
            words = _words(sites[name]["words"], total)
            signed = signed_bytes(self.history, counter, among, words)
            self.membership.check(name, signed, sites[name]["signature"])
            np.add(total, words, out=total)
            signatures.append([name, sites[name]["signature"]])
        try:
            read = unpacked(total, layout.size, len(among), scales.long)
        except ValueError as error:
            raise Reason(str(error), counts=False) from None
        self._count_change(frozenset(among))
        self._check_share(sites)
        found = scales.take(read)
        self.counter = counter
        if found is not None:
            self._step_to(layout.arrays(found), sites)
        self.history = hashlib.sha256(
            self.history + digest_of(self.round, counter, signatures).encode()
        ).digest()

    def _step_to(self, numbers: dict[str, Vector], sites: Any) -> None:
        like = self.forms.of(self.method, self.message).upload
        sums = summed(numbers, like, self._weight(sites))
        outcome = sums.outcome(self._weight(sites), self.total)
        self.server = self.method.server(self.server, outcome.mean, outcome.share, self.prox)
        self.round += 1
        if self.own in sites:
            self.taken = self.round


def _words(given: Any, like: Words) -> Words:
    words = np.asarray(given)
    if words.dtype != np.uint64 or words.shape != like.shape:
        raise Reason("what a site is said to have sent is no part of a sum")
    return words


def summed(
    numbers: dict[str, Vector],
    like: Any,
    weight: float,
    tally: Tally | None = None,
    arrived: int = 1,
    sent: Sent | None = None,
    value: float | None = None,
    steepest: float = 0.0,
) -> Sums:
    """What came of a round, from the sum that was read.

    Args:
        numbers: of the sum, by name.
        like: an upload.
        weight: of the clients that took part.
        tally: what was asked of them.
        arrived: how many they are.
        sent: what travelled.
        value: F, where it was wanted.
        steepest: the largest L that gradients have shown.
    """
    apart = numbers.get("apart")
    return Sums(
        uploads=trees.build(like, [numbers[UPLOAD + name] for name in like._fields]),
        weight=weight,
        arrived=arrived,
        tally=tally or Tally(),
        bad=None,
        apart=None if apart is None else float(apart),
        sent=sent or Sent(),
        value=value,
        steepest=steepest,
    )
