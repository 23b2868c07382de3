"""A client that fails in the middle of a run: the error says when, and keeps the history."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdmm
from builders.ranks import on_ranks

METHOD = pdmm.AGPDMM(step_size=0.25, local_steps=2)
CENTRES = (0.0, 1.0, 4.0, -2.0)
FAILING = 2  # the client whose functions fail


class Fuse:
    """Fails from the n-th call on, or at that call alone."""

    def __init__(self, call: int | None, once: bool = False) -> None:
        self.call = call
        self.once = once
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.call is None or self.calls < self.call:
            return
        if not self.once or self.calls == self.call:
            raise RuntimeError("the disk is gone")


def problem(
    clients: Any = range(4), value: Fuse | None = None, gradient: Fuse | None = None
) -> pdmm.Functions:
    """f_i(x) = 1/2 ‖x - c_i‖², where one client's value or gradient may fail."""

    def guarded(fuse: Fuse | None, i: int, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            if fuse is not None and i == FAILING:
                fuse()
            return work(x)

        return call

    def value_of(i: int) -> Callable[[Any], Any]:
        return guarded(value, i, lambda x: 0.5 * float((x - CENTRES[i]) @ (x - CENTRES[i])))

    def gradient_of(i: int) -> Callable[[Any], Any]:
        return guarded(gradient, i, lambda x: x - CENTRES[i])

    return pdmm.Functions(
        [value_of(i) for i in clients], [gradient_of(i) for i in clients], dimension=2
    )


@pytest.fixture(scope="module")
def whole() -> pdmm.History:
    """What the history is where nothing fails."""
    return pdmm.solve(problem(), METHOD, 10).history


def calls_before(rounds: int, kind: str) -> int:
    """How often the client is asked until it has done so many rounds."""
    fuse = Fuse(None)
    seen: list[int] = []
    pdmm.solve(
        problem(**{kind: fuse}), METHOD, rounds, callback=lambda r, x: seen.append(fuse.calls)
    )
    return seen[-1]


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("r", [1, 5, 10])
def test_a_value_that_fails(r: int, once: bool, whole: pdmm.History) -> None:
    """The row of its round stays open: nobody is asked again after an error."""
    fuse = Fuse(calls_before(r, "value") + 1, once)
    with pytest.raises(pdmm.ClientError, match=r"value\[2\] \(client 2\) raised") as caught:
        pdmm.solve(problem(value=fuse), METHOD, 10)
    assert f"in round {r} of AGPDMM" in caught.value.__notes__
    history = caught.value.history
    np.testing.assert_array_equal(history["round"], np.arange(r + 1))
    np.testing.assert_array_equal(history["objective"][:-1], whole["objective"][:r])
    assert np.isnan(history["objective"][-1])
    assert fuse.calls == fuse.call


@pytest.mark.parametrize("every", [1, 3])
def test_a_value_that_fails_in_a_run_that_is_kept(
    every: int, whole: pdmm.History, tmp_path: Path
) -> None:
    """A checkpoint changes nothing in what the error says."""
    fuse = Fuse(calls_before(4, "value") + 2)  # the first checkpoint asks once
    with pytest.raises(pdmm.ClientError) as caught:
        pdmm.solve(problem(value=fuse), METHOD, 10, checkpoint=tmp_path / "run", every=every)
    assert "in round 4 of AGPDMM" in caught.value.__notes__
    np.testing.assert_array_equal(caught.value.history["objective"][:-1], whole["objective"][:4])


def test_a_value_that_fails_at_the_start() -> None:
    fuse = Fuse(2)  # the first call is the check of x0
    with pytest.raises(pdmm.ClientError) as caught:
        pdmm.solve(problem(value=fuse), METHOD, 10)
    assert caught.value.__notes__ == ["before round 1 of AGPDMM"]
    np.testing.assert_array_equal(caught.value.history["round"], [0])


def test_a_gradient_that_fails(whole: pdmm.History) -> None:
    """The rows so far are whole: in one process F is asked for when a row is made."""
    fuse = Fuse(calls_before(3, "gradient") + 2)
    with pytest.raises(pdmm.ClientError, match=r"gradient\[2\] \(client 2\) raised") as caught:
        pdmm.solve(problem(gradient=fuse), METHOD, 10)
    assert "in round 4 of AGPDMM" in caught.value.__notes__
    history = caught.value.history
    assert list(history) == list(whole)
    for name in set(whole) - {"seconds"}:
        np.testing.assert_array_equal(history[name], whole[name][:4], err_msg=name)


def test_rounds_that_are_not_recorded_are_not_in_the_history(whole: pdmm.History) -> None:
    fuse = Fuse(calls_before(6, "gradient") + 1)
    with pytest.raises(pdmm.ClientError) as caught:
        pdmm.solve(problem(gradient=fuse), METHOD, 10, record_every=5)
    assert "in round 7 of AGPDMM" in caught.value.__notes__
    np.testing.assert_array_equal(caught.value.history["round"], [0, 5])
    np.testing.assert_array_equal(caught.value.history["objective"], whole["objective"][[0, 5]])


@pytest.mark.parametrize("kind", ["gradient", "value"])
@pytest.mark.parametrize("size", [2, 3])
def test_a_client_that_fails_on_a_rank(size: int, kind: str, whole: pdmm.History) -> None:
    """All ranks have the same rows; F of the last one would have come with that round."""
    at = calls_before(3, kind) + 1

    def work(mpi: pdmm.engines.MPI) -> tuple[list[str], pdmm.History]:
        mine = mpi.range(4)
        own: Any = {kind: Fuse(at)}
        try:
            pdmm.solve(problem(mine, **own), METHOD, 10, engine=mpi)
        except pdmm.ClientError as error:
            return error.__notes__, error.history
        raise AssertionError("no error")

    found = on_ranks(size, work)
    assert len(found) == size
    for notes, history in found:
        assert "in round 4 of AGPDMM" in notes
        np.testing.assert_array_equal(history["round"], [0, 1, 2, 3])
        expected = [*whole["objective"][:3], np.nan]
        np.testing.assert_allclose(history["objective"], expected, rtol=1e-14)


def test_what_is_nobodys_client_has_no_history() -> None:
    """A callback's error is not a client's."""

    def callback(r: int, x: Any) -> None:
        if r == 3:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine") as caught:
        pdmm.solve(problem(), METHOD, 10, callback=callback)
    assert not hasattr(caught.value, "history")


@pytest.mark.parametrize("other", [ValueError, SystemExit, pdmm.ClientError])
def test_ranks_that_fail_in_different_ways_end_together(other: type[BaseException]) -> None:
    """What a rank does after an error must not depend on which error it was: others would wait."""

    def fails(error: type[BaseException]) -> Callable[[Any], Any]:
        def gradient(x: Any) -> Any:
            if np.abs(x).max() > 0:
                raise error("own")
            return x - 1.0

        return gradient

    def work(mpi: pdmm.engines.MPI) -> str:
        kind = pdmm.ClientError if mpi.rank == 0 else other
        own = pdmm.Functions([lambda x: 0.5 * float(x @ x)], [fails(kind)], dimension=2)
        try:
            pdmm.solve(own, METHOD, 10, engine=mpi)
        except BaseException as error:
            return type(error).__name__
        return "no error"

    found = on_ranks(2, work)
    assert found[0] == "ClientError"
    assert found[1] in ("ClientError", "SystemExit", "ValueError")
