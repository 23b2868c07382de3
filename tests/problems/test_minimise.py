"""The exact step by a general solver."""

from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.problems.minimise import minimise

Array = npt.NDArray[Any]


def test_an_unreachable_tolerance_is_reported_not_hidden() -> None:
    rng = np.random.default_rng(12)

    def noisy(x: Array) -> tuple[float, Array]:
        return 0.5 * float(x @ x), x + 1e-3 * rng.standard_normal(3)

    solution = minimise(noisy, np.ones(3), 1.0, np.zeros(3), 1e-10)
    assert 1e-10 < solution.error < 0.1
    np.testing.assert_allclose(solution.x, 0.5, atol=0.1)
