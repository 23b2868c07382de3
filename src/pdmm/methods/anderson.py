"""Anderson acceleration: the next round starts from a combination of the last ones.

A round is a map of the state y -> y + f. With the y and the f of the last rounds, the next one
starts from the affine combination of the y whose f is shortest, instead of from the newest y.
The coefficients follow from inner products of the f alone, summed over clients.

The safeguard. For one rho an exact round is nonexpansive, so relaxed steps alone converge, and
their ‖f‖ never grows. A combination is kept only if the ‖f‖ found there has not grown and is
below a summable sequence; else both ends go back to the relaxed step that they had. The
coefficients are bounded. These are the conditions under which the safeguarded run is proven to
converge wherever the plain one does.

References:
    Zhang, O'Donoghue, Boyd, "Globally convergent type-I Anderson acceleration for nonsmooth
    fixed-point iterations", SIAM J. Optim. 2020 (the summable bound).
"""

from itertools import pairwise
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.methods.base import Array

Small: TypeAlias = npt.NDArray[np.float64]
Slots: TypeAlias = npt.NDArray[np.int64]

DEPTH = 10  # differences that are combined
FLAT_DEPTH = 20  # the same where functions have flat directions, which few rounds do not show
GROWTH = 1.0  # of ‖f‖, that a combination may cause: none
BOUND = 100.0  # ‖f‖ after n combinations is at most this times the first one's, over n^1.1
COEFFICIENTS = 300.0  # the sum of their sizes: more would go far beyond what was seen
STILL = 1e-6  # a change of f relative to f below which it is rounding
CUT = 1e-12  # smaller eigenvalues of the scaled matrix of inner products are rounding


class History(NamedTuple):
    """What the server keeps of the last rounds: O(slots d) numbers."""

    y: Array  # (slots, d): means of the y_i
    gram: Small  # (slots, slots): mean inner products of the f_i
    kept: Slots  # slots in use, oldest first
    mix: Small  # (slots,): how the next z is combined of the y
    base: int  # the slot that uploads refer to, the newest good y
    slot: int  # the slot that the next round fills

    @classmethod
    def start(cls, x0: Array, slots: int) -> Self:
        """The first round starts from x0, which is in every slot."""
        return cls(
            y=np.repeat(np.asarray(x0)[None], slots, axis=0),
            gram=np.zeros((slots, slots)),
            kept=_no_slots(),
            mix=_unit(slots, 0),
            base=0,
            slot=1,
        )

    def filled(self, change: Array) -> Self:
        """The round's y, by its change since the base, goes into its slot."""
        y = 1 * self.y
        y[self.slot] = self.y[self.base] + change
        return self._replace(y=y)

    def joined(self, products: Small) -> Self:
        """The round was good: its y and f join those that are kept, as the newest."""
        gram = self.gram.copy()
        gram[self.slot] = products
        gram[:, self.slot] = products
        most = len(self.mix) - 1  # one slot is for the round on trial
        kept = np.append(self.kept, self.slot)[-most:]
        return self._replace(gram=gram, kept=kept, base=self.slot)

    def only_base(self) -> Self:
        """Forget all rounds but the newest good one."""
        return self._replace(kept=np.array([self.base], dtype=np.int64))

    def forgotten(self) -> Self:
        """Forget all rounds: another map begins, from the y that is there."""
        return self._replace(kept=_no_slots())

    def going_on(self, mix: Small) -> Self:
        """The next round starts from a combination, and fills a slot that nothing else needs."""
        taken = {*self.kept.tolist(), self.base}
        free = next(k for k in range(len(self.mix)) if k not in taken)
        return self._replace(mix=mix, slot=free)

    def newest(self) -> Small:
        """The coefficients of no combination: the newest good y alone."""
        return _unit(len(self.mix), self.base)

    def shortest(self, precision: float) -> Small | None:
        """The coefficients of the best combination; None where there is no good one."""
        cut = max(CUT, 0.01 * precision)
        return coefficients(self.gram, self.kept, cut)


class Guard(NamedTuple):
    """The safeguard: whether a combination is on trial, and how large ‖f‖ may be."""

    on_trial: bool  # whether this round starts from a combination
    first: float  # ‖f‖² of the first round since rho changed
    last: float  # ‖f‖² of the last good round
    accepted: int  # combinations since rho last changed
    rejected: int  # combinations that were taken back, in all

    @classmethod
    def start(cls) -> Self:
        """Nothing has been tried."""
        return cls(on_trial=False, first=np.inf, last=np.inf, accepted=0, rejected=0)

    def allows(self, size: float) -> bool:
        """Whether a round with this ‖f‖² is good: all are that do not start from a combination."""
        if not self.on_trial:
            return True
        summable: float = BOUND**2 * self.first * (self.accepted + 1) ** -2.2
        return size <= min(GROWTH**2 * self.last, summable)

    def alarmed(self, size: float) -> bool:
        """Whether ‖f‖² grew as it cannot where steps are exact: then they should be shorter."""
        return not self.on_trial and size > BOUND**2 * self.first

    def after_good(self, size: float) -> Self:
        """A good round, with this ‖f‖²."""
        first = size if self.first == np.inf else self.first
        accepted = self.accepted + int(self.on_trial)
        return self._replace(first=first, last=size, accepted=accepted)

    def after_bad(self) -> Self:
        """A combination is taken back."""
        return self._replace(rejected=self.rejected + 1)

    def afresh(self) -> Self:
        """Rho has changed: what ‖f‖ was says nothing about what it will be."""
        return self._replace(first=np.inf, last=np.inf, accepted=0)


def combine(mix: Small, base: int, y: Array) -> Array:
    """y_base + sum_s mix_s (y_s - y_base): affine however the coefficients are rounded."""
    newest = y[..., base, :]
    others = [s for s in range(len(mix)) if s != base and mix[s] != 0]
    if not others:
        return 1 * newest
    return newest + sum(float(mix[s]) * (y[..., s, :] - newest) for s in others)


def coefficients(gram: Small, kept: Slots, cut: float) -> Small | None:
    """Find the shortest affine combination of the kept f, as coefficients that add up to 1.

    The problem is solved for the differences of successive f, scaled to length 1: they are much
    less alike than the f themselves.

    Args:
        gram: (slots, slots), inner products of the f.
        kept: the slots in use, oldest first.
        cut: eigenvalues of the scaled differences below this times the largest are rounding.

    Returns:
        One coefficient for each slot, rounded to float32; None where fewer than two f differ, or
        where no combination has small coefficients.
    """
    kept = _moving(gram, kept)
    n = len(kept)
    if n < 2:
        return None
    G = gram[np.ix_(kept, kept)]
    D = np.eye(n)[1:] - np.eye(n)[:-1]
    M = D @ G @ D.T
    b = D @ G[:, -1]
    lengths = np.sqrt(np.diagonal(M))
    values, vectors = np.linalg.eigh(M / lengths / lengths[:, None])
    parts = vectors.T @ (b / lengths)
    while cut < 1:  # small eigenvalues make large coefficients: as few of them as need be
        good = values > cut * values[-1]
        theta = (vectors[:, good] / values[good]) @ parts[good] / lengths
        c = np.eye(n)[-1] - theta @ D
        if np.abs(c).sum() < COEFFICIENTS:
            mix = np.zeros(len(gram))
            mix[kept] = c.astype(np.float32)
            return mix
        cut *= 100
    return None


def _moving(gram: Small, kept: Slots) -> Slots:
    """The newest of the kept slots, between which f changed by more than rounding."""
    steps = np.array([gram[a, a] - 2 * gram[a, b] + gram[b, b] for a, b in pairwise(kept)])
    sizes = np.array([max(gram[a, a], gram[b, b]) for a, b in pairwise(kept)])
    noise = np.flatnonzero(~(steps > STILL**2 * sizes))
    return kept[noise[-1] + 1 :] if len(noise) else kept


def _unit(slots: int, k: int) -> Small:
    mix = np.zeros(slots)
    mix[k] = 1
    return mix


def _no_slots() -> Slots:
    return np.zeros(0, dtype=np.int64)
