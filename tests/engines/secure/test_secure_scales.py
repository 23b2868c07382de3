"""Scales of a sum: what is read has the digits of its parts."""

import numpy as np
import pytest

from pdmm.engines.secure.layout import Layout, Part
from pdmm.engines.secure.scales import Scales
from pdmm.engines.secure.words import encoded


@pytest.mark.parametrize("part", ["upload.dx", "value"])
@pytest.mark.parametrize("long", [False, True])
def test_a_sum_that_is_read_has_the_digits_of_its_parts(part: str, long: bool) -> None:
    """However much smaller the parts have become since the scale was chosen."""
    for spare in range(120):
        for number in (np.pi, np.e, np.sqrt(11.0)):
            scales = Scales(Layout((Part(part, (), precise=part == "value"),)), addends=6)
            scales.long = long
            given = np.array([[np.ldexp(number, scales.room - int(scales.k[0]) - 2 - spare)]])
            read = None
            while read is None:
                read = scales.take(encoded(given, scales.k, scales.room, scales.long).part)
            assert read[0] == pytest.approx(given[0, 0], rel=1e-10, abs=0), spare
