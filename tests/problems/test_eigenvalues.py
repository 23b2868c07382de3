"""The ends of a spectrum by Lanczos and Cholesky, against dense eigenvalues."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pdmm.problems import eigenvalues

Array = npt.NDArray[Any]
EPS = float(np.finfo(np.float64).eps)


def matrices() -> dict[str, Array]:
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    return {
        "spread": Q * np.geomspace(1e-6, 1, 60) @ Q.T,
        "clustered": Q * np.repeat([1.0, 1 + 1e-9, 2 - 1e-12, 2.0], 15) @ Q.T,
        "identity": 3 * np.eye(60),
        "zero": np.zeros((60, 60)),
        "singular": Q * np.r_[np.zeros(5), np.linspace(1, 2, 55)] @ Q.T,
        "rank one": np.outer(Q[0], Q[0]),
        "diagonal": np.diag(np.linspace(1.0, 9.0, 60)),
        "uneven": np.diag(np.r_[1e-200, np.ones(59)]),
        "tiny": 1e-150 * (Q * np.linspace(1, 2, 60) @ Q.T),
    }


@pytest.mark.parametrize("name", matrices())
def test_lanczos_and_cholesky_agree_with_dense_eigenvalues(name: str) -> None:
    H = matrices()[name]
    values = np.linalg.eigvalsh(H)
    (low,), (high,) = eigenvalues.ends(H[None], dense=10)
    assert high == pytest.approx(values[-1], rel=1e-12, abs=0)
    expected = values[0] if values[0] > 60 * EPS * values[-1] else 0.0
    assert low == pytest.approx(expected, rel=1e-9, abs=60 * EPS * high)
    proven_low, proven_high = eigenvalues.proven_ends(H, dense=10)
    assert 0 <= proven_low <= max(0, values[0] + 10 * EPS * high)
    assert proven_high >= values[-1]
    assert proven_high == pytest.approx(high, rel=1e-12)
    assert proven_low == pytest.approx(low, abs=(8 * 60**2 + 500) * EPS * high)


def test_lanczos_that_missed_the_ends_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    H = matrices()["diagonal"]
    inside = (np.array([2.0]), np.array([8.0]))
    monkeypatch.setattr(eigenvalues, "ends", lambda H, dense: inside)
    np.testing.assert_allclose(eigenvalues.proven_ends(H, dense=10), (1, 9), rtol=1e-11)


def test_lanczos_that_does_not_converge_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eigenvalues, "STEPS", 9)
    for H in matrices().values():
        (low,), (high,) = eigenvalues.ends(H[None], dense=10)
        values = np.linalg.eigvalsh(H)
        assert high == pytest.approx(values[-1], rel=1e-12, abs=0)
        assert low == pytest.approx(max(0, values[0]), rel=1e-9, abs=60 * EPS * high)
