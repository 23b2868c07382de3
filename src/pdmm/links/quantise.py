"""Vectors in a few bits a number: rounded to a grid that their largest entry spans.

With b bits an entry is one of the 2^b - 1 whole numbers from -(2^(b-1) - 1) to 2^(b-1) - 1,
times the vector's largest entry over the last of these. The scale travels in float32.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

SCALE_BYTES = 4
MOST_BITS = 16


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
        travels = to_bytes(whole, bits)  # bytes for real: what is counted is what would be sent
        arrived = values(from_bytes(travels, rows.shape[-1], bits), scale, rows.dtype)
    return arrived if good.all() else np.where(good, arrived, rows)


def to_bytes(whole: npt.NDArray[np.int32], bits: int) -> npt.NDArray[np.uint8]:
    """The whole numbers of every row as bytes (k, bytes), the lowest bits first."""
    shifted = (whole + 2 ** (bits - 1)).astype(np.uint32)
    flags = (shifted[..., None] >> np.arange(bits, dtype=np.uint32)) & 1
    flat = flags.astype(np.uint8).reshape(*whole.shape[:-1], -1)
    return np.packbits(flat, axis=-1, bitorder="little")


def from_bytes(packed: npt.NDArray[np.uint8], numbers: int, bits: int) -> npt.NDArray[np.int32]:
    """The whole numbers again."""
    flags = np.unpackbits(packed, axis=-1, count=numbers * bits, bitorder="little")
    flags = flags.reshape(*packed.shape[:-1], numbers, bits).astype(np.int32)
    return np.asarray((flags << np.arange(bits)).sum(axis=-1) - 2 ** (bits - 1), dtype=np.int32)
