"""The quantiser: there and back, and never off by more than half a step."""

from typing import Any

import numpy as np
import pytest

from builders.unreliable import close
from pdmm.links.quantise import codes, from_bytes, packed_bytes, rounded, to_bytes, values
from twins import unreliable


@pytest.mark.parametrize("bits", range(2, 17))
def test_packing_there_and_back(bits: int) -> None:
    most = 2 ** (bits - 1) - 1
    rng = np.random.default_rng(bits)
    for numbers in (1, 2, 3, 5, 7, 8, 9, 16, 31, 100):
        whole = rng.integers(-most, most, (4, numbers), endpoint=True).astype(np.int32)
        whole[0], whole[1] = most, -most
        packed = to_bytes(whole, bits)
        assert packed.dtype == np.uint8
        assert packed.shape == (4, packed_bytes(numbers, bits) - 4)
        assert packed.shape[1] == -(-numbers * bits // 8)
        assert (from_bytes(packed, numbers, bits) == whole).all()


@pytest.mark.parametrize("bits", range(2, 17))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_is_off_by_at_most_half_a_step(bits: int, dtype: type) -> None:
    rng = np.random.default_rng([bits, 1])
    most = 2 ** (bits - 1) - 1
    for scale in (1.0, 1e-30, 1e30, 1e-6, 1e5):
        rows: Any = (scale * rng.standard_normal((20, 13))).astype(dtype)
        rows[3, 1:] = 0
        rows[4] = -np.abs(rows[4])
        found = rounded(rows, bits)
        assert found.dtype == dtype
        step = np.abs(rows).max(axis=1, keepdims=True).astype(np.float64) / most
        off = np.abs(found.astype(np.float64) - rows)
        assert (off <= (0.5 + 2**-22 * most) * step).all()
        assert off.max() > 0
        # What travels is what is applied: whole numbers and a float32 scale, packed for real.
        whole, scales = codes(rows, bits)
        assert np.abs(whole).max() <= most
        assert scales.dtype == np.float32
        again = values(from_bytes(to_bytes(whole, bits), 13, bits), scales, dtype)
        assert (again == found).all()
        close(
            [row.astype(np.float64) / scale for row in found],
            [unreliable.rounded(row.astype(np.float64), bits) / scale for row in rows],
            1e-15 if dtype is np.float64 else 3e-7,
        )


def test_zeros_stay_zeros_and_tiny_numbers_do_no_harm() -> None:
    for bits in (2, 7, 16):
        assert (rounded(np.zeros((2, 5)), bits) == 0).all()
        assert (codes(np.zeros((2, 5)), bits)[1] == 0).all()
        mixed = np.array([[0.0, 0.0], [1.0, -1.0]])
        assert (rounded(mixed, bits)[0] == 0).all()
        for tiny in (5e-324, 1e-310, 1e-60, 1e-45):
            found = rounded(np.array([[tiny, -tiny, 0.0]]), bits)
            assert np.isfinite(found).all()
            assert np.abs(found).max() <= max(2 * tiny, 1.5e-45 * 2**15)


def test_what_is_not_finite_passes_through() -> None:
    rows = np.array([[1.0, np.nan, 2.0], [np.inf, 0.0, 1.0], [1.0, 0.5, 0.25]])
    for bits in (2, 8, 16):
        with np.errstate(invalid="ignore"):  # as an engine does
            found = rounded(rows, bits)
        np.testing.assert_array_equal(found[:2], rows[:2])
        assert (found[2] == rounded(rows[2:], bits)[0]).all()


@pytest.mark.parametrize(
    ("dtype", "huge"), [(np.float64, 1e36), (np.float64, 1e300), (np.float32, 3e38)]
)
def test_huge_numbers_stay_finite(dtype: type, huge: float) -> None:
    for bits in (2, 8, 16):
        with np.errstate(invalid="ignore"):
            found = rounded(np.array([[huge, -huge / 3, 0.0]], dtype=dtype), bits)
        assert np.isfinite(found).all()
        assert abs(float(found[0, 0]) / huge - 1) < 1e-6
