"""What must be the same when a run is taken up, and what is refused otherwise."""

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import safetensors.numpy

import pdmm
from builders.checkpoints import (
    AG,
    HaltError,
    arrays_of,
    assert_same,
    bytes_of,
    halt_at,
    history_of,
    images,
    laid_down,
    never,
    squares,
)
from pdmm.common import packing as plain_values
from pdmm.run.build import Run
from pdmm.run.saved import Saved
from pdmm.run.saver import Saver
from pdmm.run.state import RunState


def refused(path: Path, problem: Any, words: str, **given: Any) -> None:
    before = bytes_of(path.parent)
    with pytest.raises(ValueError, match=words):
        pdmm.resume(path, problem, **given)
    assert bytes_of(path.parent) == before


def test_another_problem_is_refused(place: Path) -> None:
    laid_down(place)
    refused(place, squares(clients=7), "its clients is 7, and it was 6")
    wide = pdmm.LeastSquares.random(clients=6, samples=12, features=5, seed=0)
    refused(place, wide, "its dimension is 5, and it was 4")
    refused(place, squares(dtype=np.float32), "its dtype is float32, and it was float64")
    same = [lambda x: 0.5 * float(x @ x)] * 6
    other = pdmm.Functions(same, [lambda x: x] * 6, dimension=4)
    refused(place, other, "its kind is Functions, and it was LeastSquares")
    refused(place, squares(seed=1), "problem is not the one of the checkpoint: .*client 0")
    refused(place, "LeastSquares", "problem must be a pdmm problem")
    refused(place, None, "problem must be a pdmm problem")


def test_a_problem_that_differs_elsewhere_than_at_the_start_is_refused(tmp_path: Path) -> None:
    # F(0) = 1/2 ‖b‖² whatever A is, and n log(classes) whatever the images are.
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((2, 3, 8, 4)), rng.standard_normal((3, 8))
    same, other = pdmm.LeastSquares(A[0], b), pdmm.LeastSquares(A[1], b)
    assert same.objective(np.zeros(4)) == other.objective(np.zeros(4))
    pairs: list[tuple[pdmm.Problem, pdmm.Problem]] = [
        (same, other),
        (images(0, None), images(1, None)),
        (images(0, None), images(0, None, l2=0.2)),
        (images(0, 4), images(0, 5)),
    ]
    accepted: list[Any] = []
    for k, (first, second) in enumerate(pairs):
        path = tmp_path / str(k) / "run"
        with pytest.raises(HaltError):
            pdmm.solve(first, AG, rounds=20, checkpoint=path, callback=halt_at(9), every=4)
        before = bytes_of(path.parent)
        try:
            pdmm.resume(path, second)
        except ValueError as error:
            words = str(error)
        else:
            words = ""
        if "problem is not the one of the checkpoint" not in words:
            accepted.append((first, second))
        elif bytes_of(path.parent) != before:
            accepted.append((first, "the file was changed"))
    assert accepted == []


def test_callables_must_be_given_again(place: Path) -> None:
    laid_down(place, participation=lambda r: 3, local_steps=lambda r, i: 1 + i % 2)
    refused(place, squares(), "participation was a callable: give it to resume again")
    refused(place, squares(), "local_steps was a callable", participation=lambda r: 3)
    refused(place, squares(), "participation was a callable", participation=3, local_steps=[1] * 6)
    found = pdmm.resume(
        place, squares(), participation=lambda r: 3, local_steps=lambda r, i: 1 + i % 2
    )
    assert found.rounds == 20


def test_what_is_in_the_file_cannot_be_changed(place: Path) -> None:
    laid_down(place)
    refused(place, squares(), "participation is in the checkpoint: 0.5", participation=0.2)
    refused(place, squares(), "participation is in the checkpoint", participation=lambda r: 3)
    refused(place, squares(), "local_steps is in the checkpoint", local_steps=[1] * 6)
    other = replace(AG, local_steps=4)
    refused(place, squares(), "method is in the checkpoint.*cannot be changed", method=other)
    refused(place, squares(), "method is in the checkpoint", method=pdmm.PDMM(rho=1.0))
    refused(place, squares(), "callback must be callable", callback=3)
    assert pdmm.resume(place, squares(), method=AG).rounds == 20  # the same may be said again


@dataclass(frozen=True)
class Own(pdmm.AGPDMM):
    """A user's own method: it damps the server's step."""

    damping: float = 1.0

    def server(self, server: Any, mean: Any, share: float, prox: Any) -> Any:
        return super().server(server, mean, self.damping * share, prox)


def test_a_users_own_method_is_given_again(place: Path) -> None:
    method = Own(step_size=0.02, local_steps=3, damping=0.9)
    whole = pdmm.solve(squares(), method, rounds=20, participation=0.5)
    given: dict[str, Any] = {"rounds": 20, "participation": 0.5}
    with pytest.raises(HaltError):
        pdmm.solve(squares(), method, checkpoint=place, callback=halt_at(9), every=4, **given)
    refused(place, squares(), "method was a Own of your own: give it to resume again")
    refused(
        place, squares(), "method must be the same as then", method=replace(method, damping=0.8)
    )
    refused(place, squares(), "method must be the same as then", method=AG)
    refused(place, squares(), "give it to resume again", method="Own")
    assert_same(pdmm.resume(place, squares(), method=method), whole)


def test_a_users_own_method_may_have_any_name(place: Path) -> None:
    @dataclass(frozen=True)
    class AGPDMM(pdmm.AGPDMM):
        """The name and the parameters of one of the library's, but not what it does."""

        def server(self, server: Any, mean: Any, share: float, prox: Any) -> Any:
            return super().server(server, mean, 0.9 * share, prox)

    method = AGPDMM(step_size=0.02, local_steps=3)
    given: dict[str, Any] = {"rounds": 12, "participation": 0.5}
    with pytest.raises(HaltError):
        pdmm.solve(squares(), method, checkpoint=place, callback=halt_at(9), every=4, **given)
    refused(place, squares(), "give it to resume again")
    found = pdmm.resume(place, squares(), method=method)
    assert type(found.method) is AGPDMM


def test_a_users_own_regulariser_is_not_lost(place: Path) -> None:
    @dataclass(frozen=True)
    class Half(pdmm.L1):
        def prox(self, v: Any, t: float) -> Any:
            return super().prox(v, t / 2)

    # There is no way to give it again: so no run may begin that could not be taken up.
    with pytest.raises(ValueError, match="regulariser"):
        pdmm.solve(squares(), AG, rounds=5, checkpoint=place, regulariser=Half(1.0))
    assert bytes_of(place.parent) == {}


def test_the_run_on_disk_is_no_link_to_the_run_in_memory(place: Path) -> None:
    """Two runs taken up from copies of one file do not meet."""
    laid_down(place, bits=4, loss=0.2)
    folder = place.with_name("copy")
    folder.mkdir()
    for path in (place, history_of(place)):
        shutil.copy(path, folder / path.name)
    problem = squares()
    first = pdmm.resume(place, problem)
    assert_same(pdmm.resume(folder / place.name, problem), first)


def test_nothing_in_a_state_is_left_out(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run holds after taking up is what it held when it was laid down."""
    states: list[Any] = []
    plain = RunState.plain

    def seen(run: Run) -> Any:
        kept = [plain(run.state), run.clients.state()]
        return json.loads(json.dumps(plain_values.pack(kept, {}, "state"), default=str))

    write = Saver.write

    def written(self: Saver, run: Run) -> None:
        write(self, run)
        states.append(seen(run))

    monkeypatch.setattr(Saver, "write", written)
    laid_down(place, loss=pdmm.Bursts(0.3, 0.3), bits=3, availability=pdmm.OnOff(0.2, 0.4))
    last = states[-1]

    loaded: list[Any] = []

    def look(self: Saved, run: Run) -> None:
        restore(self, run)
        loaded.append(seen(run))

    restore = Saved.restore
    monkeypatch.setattr(Saved, "restore", look)
    pdmm.resume(place, squares(), rounds=8, callback=never)
    for found in (last, loaded[0]):
        found[0]["dict"].pop("finished")  # more rounds were asked for
    assert loaded[0] == last


def test_values_of_every_kind_survive(place: Path) -> None:
    arrays: dict[str, npt.NDArray[Any]] = {}
    values: dict[str, Any] = {
        "none": None,
        "truth": True,
        "whole": 2**130,
        "number": 0.1,
        "infinite": float("-inf"),
        "word": "é\n",
        "list": [1, [2.5, None], {"a": np.arange(3)}],
        "scalar": np.float32(0.1),
        "flag": np.bool_(True),
        "empty": np.zeros((0, 4)),
        "point": np.array(2.5),
        "strided": np.arange(12.0).reshape(3, 4).T,
        "bools": np.array([True, False]),
        "bursts": pdmm.Bursts(0.1, 0.2),
    }
    packed = json.loads(json.dumps(plain_values.pack(values, arrays, "v")))
    place.write_bytes(safetensors.numpy.save({k: np.atleast_1d(v) for k, v in arrays.items()}))
    found = plain_values.unpack(packed, arrays_of(place))
    assert set(found) == set(values)
    for name in ("none", "truth", "whole", "number", "infinite", "word", "bursts"):
        assert found[name] == values[name]
    assert found["scalar"] == float(np.float32(0.1))
    assert found["flag"] is True
    np.testing.assert_array_equal(found["list"][2]["a"], np.arange(3))
    for name in ("empty", "point", "strided", "bools"):
        assert found[name].shape == values[name].shape
        assert found[name].dtype == values[name].dtype
        np.testing.assert_array_equal(found[name], values[name])
    with pytest.raises(ValueError, match=r"v.odd cannot be kept in a checkpoint"):
        plain_values.pack({"odd": object()}, {}, "v")
    assert plain_values.unpack(plain_values.pack(len, {}, "v"), {}) == {
        "code": plain_values.CALLABLE
    }
