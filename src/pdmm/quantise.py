"""Vectors in a few bits a number: rounded to a grid that their largest entry spans.

With b bits an entry is one of the 2^b - 1 whole numbers from -(2^(b-1) - 1) to 2^(b-1) - 1,
times the vector's largest entry over the last of these. The scale travels in float32.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

SCALE_BYTES = 4
MOST_BITS = 16
WINDOW = 20  # rounds' worth of uploads of every client, over which ‖dz‖ must fall
FALLS = 0.9  # to at most this part of what it was, in the mean square


def packed_bytes(numbers: int, bits: int) -> int:
    """What a vector of so many numbers takes: whole bytes, and its scale."""
    return (numbers * bits + 7) // 8 + SCALE_BYTES


def codes(rows: Any, bits: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Whole numbers (k, d), and a scale for every row (k,)."""
    most = 2 ** (bits - 1) - 1
    largest = np.abs(rows).max(axis=-1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # Rounded up, so that no entry is beyond the last whole number.
        scale = np.nextafter((largest / most).astype(np.float32), np.float32(np.inf))
        whole = np.rint(rows / scale[..., None].astype(np.float64))
    good = (largest > 0) & np.isfinite(scale)
    whole = np.where(np.isfinite(whole) & good[..., None], whole, 0)
    return whole.astype(np.int32), np.where(largest > 0, scale, 0).astype(np.float32)


def values(whole: npt.NDArray[np.int32], scale: npt.NDArray[np.float32], dtype: Any) -> Any:
    """What both ends make of the whole numbers."""
    return (whole * scale[..., None].astype(np.float64)).astype(dtype)


def rounded(rows: Any, bits: int) -> Any:
    """Vectors as they arrive, in the dtype of those that were sent.

    Those that are not finite, or beyond what a scale holds, stay as they are.
    """
    whole, scale = codes(rows, bits)
    good = (np.isfinite(rows).all(axis=-1) & np.isfinite(scale))[..., None]
    with np.errstate(over="ignore", invalid="ignore"):
        travels = pack(whole, bits)  # bytes for real: what is counted is what would be sent
        arrived = values(unpack(travels, rows.shape[-1], bits), scale, rows.dtype)
    return arrived if good.all() else np.where(good, arrived, rows)


def pack(whole: npt.NDArray[np.int32], bits: int) -> npt.NDArray[np.uint8]:
    """The whole numbers of every row as bytes (k, bytes), the lowest bits first."""
    shifted = (whole + 2 ** (bits - 1)).astype(np.uint32)
    flags = (shifted[..., None] >> np.arange(bits, dtype=np.uint32)) & 1
    flat = flags.astype(np.uint8).reshape(*whole.shape[:-1], -1)
    return np.packbits(flat, axis=-1, bitorder="little")


def unpack(packed: npt.NDArray[np.uint8], numbers: int, bits: int) -> npt.NDArray[np.int32]:
    """The whole numbers again."""
    flags = np.unpackbits(packed, axis=-1, count=numbers * bits, bitorder="little")
    flags = flags.reshape(*packed.shape[:-1], numbers, bits).astype(np.int32)
    return np.asarray((flags << np.arange(bits)).sum(axis=-1) - 2 ** (bits - 1), dtype=np.int32)


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
