"""The history of a run: its columns and its rows."""

import numpy as np
import pytest

import pdmm
from builders.runs import METHODS, rows_of, softmax, tall

COLUMNS = {
    "round",
    "objective",
    "gap",
    "gradient_calls",
    "value_calls",
    "exact_calls",
    "seconds",
    *(
        f"{prefix}{what}_{way}"
        for prefix in ("", "paper_")
        for what in ("bytes", "vectors")
        for way in ("up", "down")
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_history_columns_and_rows(name: str) -> None:
    x0 = np.array([1.0, -2.0, 3.0, 0.5])
    A, b = rows_of([12, 9, 5])
    result = pdmm.solve(pdmm.LeastSquares(A, b), METHODS[name], rounds=7, x0=x0)
    history = result.history
    exact = name in ("PDMM", "FedSplit")
    assert set(history) == (COLUMNS | {"exact_error"} if exact else COLUMNS)
    assert {len(column) for column in history.values()} == {8}
    np.testing.assert_array_equal(history["round"], range(8))
    start = sum(0.5 * ((a @ x0 - v) ** 2).sum() for a, v in zip(A, b, strict=True))
    end = sum(0.5 * ((a @ result.x - v) ** 2).sum() for a, v in zip(A, b, strict=True))
    assert history["objective"][0] == pytest.approx(start, rel=1e-13)
    assert history["objective"][-1] == pytest.approx(end, rel=1e-13)
    assert result.optimum is not None
    np.testing.assert_allclose(
        history["gap"], history["objective"] - result.optimum, rtol=1e-9, atol=1e-12
    )
    assert (np.diff(history["seconds"]) > 0).all()
    assert result.rounds == 7
    assert result.reason == "all 7 rounds done"
    assert not result.diverged
    assert result.seed == 0
    for column in ("bytes_up", "vectors_down", "gradient_calls", "exact_calls"):
        assert history[column][0] == 0


@pytest.mark.parametrize(
    ("record_every", "rounds", "recorded"),
    [
        (1, 4, [0, 1, 2, 3, 4]),
        (3, 9, [0, 3, 6, 9]),
        (3, 10, [0, 3, 6, 9, 10]),
        (50, 4, [0, 4]),
        (4, 4, [0, 4]),
    ],
)
def test_record_every(record_every: int, rounds: int, recorded: list[int]) -> None:
    full = pdmm.solve(tall(), METHODS["AGPDMM"], rounds=rounds)
    some = pdmm.solve(tall(), METHODS["AGPDMM"], rounds=rounds, record_every=record_every)
    np.testing.assert_array_equal(some.history["round"], recorded)
    np.testing.assert_array_equal(some.x, full.x)
    for name in COLUMNS - {"seconds", "value_calls"}:
        np.testing.assert_array_equal(some.history[name], full.history[name][recorded], name)


def test_a_tiny_gap_is_not_zero() -> None:
    result = pdmm.solve(tall(), pdmm.AGPDMM(0.03, 5), rounds=200)
    gap = result.history["gap"]
    assert (gap >= 0).all()
    assert gap[-1] < 1e-25
    later = gap[(gap < 1e-17) & (gap > 1e-26)]
    # Far below the rounding of F (about 1e-14) the gap still shrinks from round to round.
    assert len(later) >= 3
    assert (np.diff(later) < 0).all()


def test_missing_columns_say_what_to_do() -> None:
    result = pdmm.solve(softmax([8, 8]), METHODS["AGPDMM"], rounds=2)
    assert "gap" not in result.history
    assert result.optimum is None
    with pytest.raises(KeyError, match=r"optimum is not known.*optimum="):
        result.history["gap"]
    with pytest.raises(KeyError, match="no 'loss', only round, objective"):
        result.history["loss"]
    with pytest.raises(KeyError, match="optimum="):
        result.history.rounds_to(1.0)
    assert "gap" not in repr(result)


def test_rounds_to_a_gap() -> None:
    history = pdmm.solve(tall(), METHODS["AGPDMM"], rounds=40, record_every=2).history
    target = float(history["gap"][5])
    assert history.rounds_to(target) == 10
    assert history.rounds_to(np.inf) == 0
    assert history.rounds_to(-1.0) is None
