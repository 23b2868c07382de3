"""P-values of several tests, adjusted so that all of them together err with a set probability."""

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


def holm(pvalues: Vector) -> Vector:
    """Holm's adjusted p-values, with NaN where there was no test.

    The k-th smallest of m is multiplied by m + 1 - k, and none is below a smaller one's.
    """
    adjusted = np.full(len(pvalues), np.nan)
    tested = np.flatnonzero(~np.isnan(pvalues))
    order = tested[np.argsort(pvalues[tested], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(pvalues[order] * factors), 1.0)
    return adjusted
