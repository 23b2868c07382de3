"""A site that computes x itself, from masked uploads: it reads their sum, as the server does."""

import hashlib
from typing import Any

import numpy as np

from pdmm.engines.secure.layout import Layout, Vector, round_layout
from pdmm.engines.secure.part import summed
from pdmm.engines.secure.scales import Scales
from pdmm.engines.secure.words import Words, unpacked, words_of
from pdmm.engines.sites.follower import Follower
from pdmm.engines.sites.seal import Mask, signed_bytes
from pdmm.privacy.questions import digest_of
from pdmm.privacy.refusals import Reason


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
            clear = str(sites[name]["clear"])
            signed = signed_bytes(self.history, counter, among, words, clear)
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
