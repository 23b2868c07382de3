"""Clients with f_i(x) = 1/2 ‖x - c_i‖², up to a constant: every step is known by hand.

The gradient is x - c_i. A gradient step of 1/2 from x ends halfway between x and c_i.
"""

from typing import Any

import numpy as np

import pdmm


def bowls(centres: Any, dtype: Any = np.float64) -> pdmm.Quadratic:
    """One client for each row of centres."""
    c = np.array(centres, dtype=dtype)
    return pdmm.Quadratic(1.0, c)


class Blocks(pdmm.Quadratic):
    """The same in blocks of two clients, however small they are."""

    def blocks(self) -> list[slice]:
        return [slice(k, min(k + 2, self.clients)) for k in range(0, self.clients, 2)]


def bowls_in_blocks(centres: Any) -> Blocks:
    """One client for each row of centres, two clients in each block."""
    c = np.array(centres, dtype=np.float64)
    return Blocks(1.0, c)
