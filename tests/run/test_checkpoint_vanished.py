"""Files that vanish while a run is writing them: noticed at the next write, and nothing is lost."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pdmm
from builders import cases
from builders.checkpoints import (
    AG,
    assert_same,
    bytes_of,
    done,
    header,
    history_of,
    laid_down,
    squares,
)
from builders.ranks import close, on_ranks
from pdmm.common.lock import Lock


def linked(path: Path) -> None:
    """The history is moved elsewhere, and a link leads there."""
    elsewhere = path.with_name("elsewhere")
    shutil.move(history_of(path), elsewhere)
    history_of(path).symlink_to(elsewhere)


def all_files(path: Path) -> None:
    for file in path.parent.iterdir():
        file.unlink()


def history_and_checkpoint(path: Path) -> None:
    history_of(path).unlink()
    path.unlink()


WRITTEN_AGAIN: dict[str, Callable[[Path], Any]] = {
    "history": lambda path: history_of(path).unlink(),
    "rows": lambda path: os.truncate(history_of(path), 10),
    "all rows": lambda path: os.truncate(history_of(path), 0),
    "more rows": lambda path: history_of(path).write_bytes(history_of(path).read_bytes() + b"[]\n"),
    "folder": lambda path: shutil.rmtree(path.parent),
    "all files": all_files,
    "history and checkpoint": history_and_checkpoint,
}


def when(r: int, what: Callable[[], object]) -> Callable[[int, Any], None]:
    def callback(now: int, x: Any) -> None:
        if now == r:
            what()

    return callback


@pytest.mark.parametrize("how", WRITTEN_AGAIN)
def test_a_history_that_vanishes_is_noticed_and_written_again(how: str, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "run"
    vanish = when(5, lambda: WRITTEN_AGAIN[how](path))
    with pytest.raises(OSError, match=r"history .* was removed or changed during the run.*resume"):
        pdmm.solve(squares(), AG, rounds=12, checkpoint=path, every=3, callback=vanish)
    assert done(path) == 6  # the next write after round 5
    assert header(path)["rows"] == 7
    assert set(bytes_of(path.parent)) == {"run", "run.history"}
    assert_same(pdmm.resume(path, squares()), pdmm.solve(squares(), AG, rounds=12))


def test_a_run_that_was_taken_up_writes_all_its_rows_again(place: Path) -> None:
    laid_down(place)
    vanish = when(14, history_of(place).unlink)
    with pytest.raises(OSError, match="was removed or changed"):
        pdmm.resume(place, squares(), callback=vanish)
    assert_same(
        pdmm.resume(place, squares()), pdmm.solve(squares(), AG, rounds=20, participation=0.5)
    )


def test_a_last_write_that_finds_nothing_is_an_error_too(place: Path) -> None:
    vanish = when(6, history_of(place).unlink)
    with pytest.raises(OSError, match="was removed or changed"):
        pdmm.solve(squares(), AG, rounds=6, checkpoint=place, every=100, callback=vanish)
    assert_same(pdmm.resume(place, squares()), pdmm.solve(squares(), AG, rounds=6))


@pytest.mark.parametrize("how", ["history", "folder"])
def test_ranks_notice_it_together(how: str, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "run"

    def work(mpi: pdmm.engines.MPI) -> str:
        vanish = when(5, lambda: WRITTEN_AGAIN[how](path) if mpi.rank == 0 else None)
        with pytest.raises(OSError, match="was removed or changed") as caught:
            cases.solve("gpdmm", mpi, checkpoint=path, every=3, callback=vanish)
        return str(caught.value)

    words = on_ranks(2, work)
    assert words[0] == words[1]
    assert len(list(path.parent.iterdir())) == 4  # the checkpoint, its history, a file a rank

    def go_on(mpi: pdmm.engines.MPI) -> pdmm.Result:
        return pdmm.resume(path, cases.least_squares(mpi.range(cases.M)), engine=mpi)

    assert close(on_ranks(2, go_on)[0].x, cases.solve("gpdmm").x)


def test_where_another_run_may_have_begun_nothing_is_written(place: Path) -> None:
    """The lock is gone: whatever stands there now may be somebody else's."""
    vanish = when(5, Lock(place).path.unlink)
    with pytest.raises(OSError, match=r"run\.safetensors\.lock was removed during the run"):
        pdmm.solve(squares(), AG, rounds=12, checkpoint=place, every=4, callback=vanish)
    assert done(place) == 4
    assert_same(pdmm.resume(place, squares()), pdmm.solve(squares(), AG, rounds=12))


@pytest.mark.parametrize("lives", [True, False])
def test_another_run_in_a_folder_that_was_removed_is_left_alone(
    lives: bool, tmp_path: Path
) -> None:
    path = tmp_path / "folder" / "run"
    other = Lock(path)
    left: dict[str, bytes] = {}

    def take_over() -> None:
        shutil.rmtree(path.parent)
        pdmm.solve(squares(1), AG, rounds=3, checkpoint=path)
        if lives:
            other.acquire()
        left.update(bytes_of(path.parent))

    with pytest.raises(OSError, match="another run may have begun there"):
        pdmm.solve(squares(), AG, rounds=12, checkpoint=path, every=4, callback=when(6, take_over))
    assert bytes_of(path.parent) == left
    other.release()
    assert pdmm.resume(path, squares(1)).rounds == 3


def test_a_history_that_is_a_link_is_not_followed(place: Path) -> None:
    mine = place.with_name("mine")
    mine.write_text("mine")
    history_of(place).symlink_to(mine)
    with pytest.raises(OSError, match=r"history .* is a link or a folder, not a plain file"):
        pdmm.solve(squares(), AG, rounds=5, checkpoint=place)
    assert mine.read_text() == "mine"
    assert not place.exists()
    history_of(place).unlink()
    laid_down(place)
    linked(place)
    before = bytes_of(place.parent)
    with pytest.raises(OSError, match=r"history .* is a link or a folder, not a plain file"):
        pdmm.resume(place, squares())
    assert bytes_of(place.parent) == before


def test_a_history_that_becomes_a_link_is_not_followed(place: Path) -> None:
    with pytest.raises(OSError, match=r"history .* is a link or a folder, not a plain file"):
        pdmm.solve(
            squares(),
            AG,
            rounds=9,
            checkpoint=place,
            every=3,
            callback=when(5, lambda: linked(place)),
        )
    elsewhere = place.with_name("elsewhere")
    assert elsewhere.read_bytes().count(b"\n") == 4  # nothing was written there
    history_of(place).unlink()
    shutil.move(elsewhere, history_of(place))
    assert_same(pdmm.resume(place, squares()), pdmm.solve(squares(), AG, rounds=9))
