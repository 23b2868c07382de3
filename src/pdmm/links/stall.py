"""Notices that rounded messages no longer make progress, and asks for more bits."""

import numpy as np

from pdmm.links.quantise import MOST_BITS

WINDOW = 20  # rounds' worth of uploads of every client, over which ‖dz‖ must fall
FALLS = 0.9  # to at most this part of what it was, in the mean square


class Stall:
    """Notices when uploads stop getting smaller, and says how many bits to go on with.

    More bits are tried, two at a time. Where they do not help, it was not the rounding: then it
    is back to what was asked for, and later looks are at twice as many rounds.

    Args:
        bits: what was asked for.
    """

    def __init__(self, bits: int) -> None:
        self.asked = self.bits = bits
        self.patience = 1  # how many times longer it looks than it first did
        self.shares: list[float] = []
        self.sizes: list[float] = []
        self.scale = 0.0  # the largest numbers that were seen
        self.before: float | None = None  # the part that was left when bits were raised last

    def add(self, size: float, norm: float, share: float, precision: float) -> int | None:
        """What a round was like; the new number of bits, if it changes.

        Args:
            size: the mean square of its uploads.
            norm: of x_s.
            share: of the clients whose upload arrived.
            precision: the rounding unit of the clients' numbers.
        """
        self.sizes.append(size)
        self.shares.append(share)
        self.scale = max(self.scale, norm, size**0.5)
        window = self.patience * int(np.ceil(WINDOW / max(float(np.mean(self.shares)), 1e-3)))
        if len(self.sizes) < 2 * window:
            return None
        rounding = (4 * precision * self.scale) ** 2
        del self.sizes[: -2 * window], self.shares[: -2 * window]
        first = float(np.median(self.sizes[:window]))
        last = float(np.median(self.sizes[window:]))
        self.sizes = self.sizes[window:]
        left = last / first if first > 0 else 0.0
        if left <= FALLS or last <= rounding:
            self.before = None
            return None
        self.sizes = []
        if self.before is not None and left > 0.9 * self.before:
            self.before = None
            self.patience *= 2
            changed, self.bits = self.bits != self.asked, self.asked
            return self.bits if changed else None
        if self.bits >= MOST_BITS:
            return None
        self.before, self.bits = left, min(self.bits + 2, MOST_BITS)
        return self.bits
