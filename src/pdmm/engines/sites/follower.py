"""A site that computes x itself: from what all sites sent, by the method's own server step.

Then no server can choose the point at which the site answers. A site sends its upload with a
signature of it and of all that went before, the server passes both on to all sites, and each of
them makes the server's step.
"""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pdmm.common import trees
from pdmm.engines.client_round import Forms, Part, add_up
from pdmm.engines.exchange import add
from pdmm.engines.traffic import Sent
from pdmm.methods.base import Method, Prox
from pdmm.privacy.questions import digest_of
from pdmm.privacy.refusals import Reason
from pdmm.problems.block import Tally

if TYPE_CHECKING:
    from pdmm.privacy.membership import Membership

Vector = npt.NDArray[np.float64]
News = Mapping[str, Mapping[str, Any]]


class Follower:
    """The server's part of a run, done at a site.

    Args:
        membership: who takes part, and their keys.
        plan: what the run is about, beyond what all agreed to: the method and the like.
        method: what runs.
        start: where it begins.
        prox: the server's proximal step.
        weights: those of each site's clients.
        dtype: of the clients' numbers.
        max_changes: how often the set of sites may change.
        max_share: of the weight of those that answer, which this site may have.
    """

    def __init__(
        self,
        membership: "Membership",
        plan: Any,
        method: Method,
        start: Vector,
        prox: Prox,
        weights: Mapping[str, Vector],
        dtype: np.dtype[Any],
        max_changes: int,
        max_share: float,
    ) -> None:
        self.membership = membership
        self.method = method
        self.prox = prox
        self.weights = {name: weights[name] for name in sorted(weights)}
        self.total = float(sum(own.sum() for own in self.weights.values()))
        self.dtype = dtype
        self.max_changes = max_changes
        self.max_share = max_share
        self.server = method.server_start(start, prox)
        self.forms = Forms(method, np.zeros(len(start)), dtype)
        self.round = 0
        self.own = membership.statement["name"]
        self.taken = 0
        """The last round in which this site's upload counted."""
        self.present: frozenset[str] | None = None
        self.changes = 0
        self.history = hashlib.sha256(membership.terms + digest_of(plan).encode()).digest()

    @property
    def message(self) -> Any:
        """What the server would send."""
        return trees.cast(self.method.broadcast(self.server), self.dtype)

    @property
    def solution(self) -> Vector:
        """The result so far, as a run evaluates F there."""
        return np.asarray(self.method.solution(self.server))

    def sign(self, r: int, upload: Any) -> str:
        """Sign the uploads of this site's clients in round r."""
        return self.membership.sign(self._signed(r, upload))

    def _signed(self, r: int, upload: Any) -> bytes:
        return self.history + digest_of(r, list(upload)).encode()

    def follow(self, rounds: Any) -> None:
        """Take over what all sites sent in the rounds since this site was last told."""
        for news in rounds:
            if news["round"] == self.round + 1:
                self._step(news["sites"])
            elif news["round"] > self.round:
                raise Reason(f"nothing is told of round {self.round + 1}")

    def _step(self, news: News) -> None:
        r = self.round + 1
        if not set(news) <= set(self.weights):
            raise Reason(f"in round {r} sites answered that do not take part")
        parts: list[Part] = []
        signatures = []
        like = self.forms.of(self.method, self.message).upload
        for name, weights in self.weights.items():
            if name not in news:
                continue
            upload = news[name]["upload"]
            signature = news[name]["signature"]
            self.membership.check(name, self._signed(r, upload), signature)
            rows = trees.build(like, upload)
            parts.append(add_up(self.method, rows, weights, Tally()))
            signatures.append([name, signature])
        self._count_change(frozenset(news))
        self._check_share(news)
        outcome = add(parts, Sent()).outcome(self._weight(news), self.total)
        if outcome.arrived:
            self.server = self.method.server(self.server, outcome.mean, outcome.share, self.prox)
        self.history = hashlib.sha256(self.history + digest_of(r, signatures).encode()).digest()
        self.round = r
        if self.own in news:
            self.taken = r

    def _weight(self, news: News) -> float:
        """Of those that answered, added up as the server does it."""
        if len(news) == len(self.weights):
            return self.total
        return float(sum(own.sum() for name, own in self.weights.items() if name in news))

    def _check_share(self, news: News) -> None:
        """Refuse a round of nearly this site alone: what came of it would be the site's own."""
        weight = self._weight(news)
        share = float(self.weights[self.own].sum()) / weight if self.own in news else 0.0
        if share > self.max_share:
            said = f"the site has {share:.3g} of the weight of those that answered"
            raise Reason(f"{said}, and max_weight_share is {self.max_share:g}", counts=False)

    def _count_change(self, present: frozenset[str]) -> None:
        if self.present is not None and present != self.present:
            self.changes += 1
        self.present = present
        if self.changes > self.max_changes:
            said = f"the sites that take part changed more than {self.max_changes} times"
            raise Reason(said, counts=False)
