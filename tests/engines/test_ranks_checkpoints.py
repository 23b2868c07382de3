"""Checkpoints of many ranks go on on any number of them, and are of one round."""

import re
import threading
from pathlib import Path

import numpy as np
import pytest

import pdmm
from builders import cases
from builders.ranks import close, on_ranks
from pdmm.common import whole_files as files
from pdmm.run import saver


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loss and bits", "auto steps", "softmax", "anderson", "scaffold"])
@pytest.mark.parametrize("then", [1, 2, 3])
def test_a_checkpoint_goes_on_on_any_number_of_ranks(name: str, then: int, tmp_path: Path) -> None:
    make = cases.CASES[name][0]
    path = tmp_path / "run.safetensors"

    def stop(mpi: pdmm.engines.MPI) -> pdmm.Result:
        more = {"checkpoint": path, "every": 3, "callback": lambda r, x: r == 8}
        return cases.solve(name, mpi, **more)

    def go_on(mpi: pdmm.engines.MPI | None) -> pdmm.Result:
        problem = make(range(cases.M) if mpi is None else mpi.range(cases.M))
        return pdmm.resume(path, problem, engine=mpi)

    on_ranks(3, stop)
    assert len(list(tmp_path.iterdir())) == 5  # the checkpoint, its history, a file a rank
    whole = on_ranks(then, lambda mpi: cases.solve(name, mpi))[0]
    resumed = go_on(None) if then == 1 else on_ranks(then, go_on)[0]
    assert resumed.reason.split(":")[0] == whole.reason.split(":")[0]
    assert close(resumed.x, whole.x)
    np.testing.assert_allclose(resumed.history["objective"], whole.history["objective"], rtol=1e-10)
    if then == 3:
        assert (resumed.x == whole.x).all()  # to the same bits
    left = sorted(file.name for file in tmp_path.iterdir())
    assert len(left) == (2 if then == 1 else 2 + then), left


@pytest.mark.slow
@pytest.mark.parametrize("fails", range(8))
def test_a_checkpoint_is_of_one_round(
    fails: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far the ranks got with the next one, the set of files that counts is complete."""
    path, lock, count = tmp_path / "run.safetensors", threading.Lock(), 0
    write = files.write_whole

    def dies(place: Path, contents: bytes, private: bool) -> None:
        nonlocal count
        with lock:
            count += 1
            dead = count > 4 + fails  # the first checkpoint is three parts and the whole
        if dead:
            place.with_name(place.name + ".999999999.part").write_bytes(contents[:100])
            raise KeyboardInterrupt
        write(place, contents, private)

    def work(mpi: pdmm.engines.MPI) -> pdmm.Result:
        return cases.solve("gpdmm", mpi, checkpoint=path, every=4)

    monkeypatch.setattr(saver, "write_whole", dies)
    with pytest.raises(BaseException):  # noqa: B017, PT011
        on_ranks(3, work)
    monkeypatch.setattr(saver, "write_whole", write)

    def go_on(mpi: pdmm.engines.MPI) -> pdmm.Result:
        return pdmm.resume(path, cases.least_squares(mpi.range(cases.M)), engine=mpi)

    resumed = on_ranks(3, go_on)[0]
    assert (resumed.x == on_ranks(3, lambda mpi: cases.solve("gpdmm", mpi))[0].x).all()
    assert len(list(tmp_path.iterdir())) == 5


def test_a_run_of_one_process_goes_on_on_ranks(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    cases.solve("loss and bits", checkpoint=path, callback=lambda r, x: r == 8)
    make = cases.CASES["loss and bits"][0]
    resumed = on_ranks(3, lambda mpi: pdmm.resume(path, make(mpi.range(cases.M)), engine=mpi))
    assert close(resumed[0].x, cases.solve("loss and bits").x)


def test_a_lost_part_of_a_checkpoint_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    on_ranks(2, lambda mpi: cases.solve("gpdmm", mpi, checkpoint=path))
    part = next(file for file in tmp_path.iterdir() if file.name.endswith("-1"))
    part.rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=re.escape(f"there is no checkpoint {part}")):
        pdmm.resume(path, cases.least_squares(range(cases.M)))
