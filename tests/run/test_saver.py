"""Keeping a run on disk: the part files of ranks, and what is swept away."""

from pathlib import Path

import numpy as np
import pytest

import pdmm
from builders import cases
from builders.checkpoints import header, squares
from builders.ranks import on_ranks
from pdmm.common.lock import Lock
from pdmm.common.team import Team
from pdmm.engines.in_process import InProcess
from pdmm.run.saved import read
from pdmm.run.saver import Saver


def names(path: Path) -> list[str]:
    """What is in the folder, without the beginning that all names share."""
    return sorted(p.name.removeprefix(path.name) for p in path.parent.iterdir())


def member(rank: int, size: int) -> Team:
    class Member(Team):
        pass

    Member.rank = rank
    Member.size = size
    return Member()


LEFT = ["3-0", "4-0", "4-1", "4-2", "3-1", "1-7", "x-1", "4-y", "notes"]


@pytest.mark.parametrize(
    ("rank", "size", "gone"),
    [
        (0, 1, {"3-0", "4-0", "4-1", "4-2", "3-1", "1-7"}),  # alone: one file has it all
        (0, 2, {"3-0", "4-2", "1-7"}),  # its own old one, and those of a larger team
        (1, 2, {"3-1"}),
        (2, 3, set()),
        (0, 3, {"3-0", "1-7"}),
    ],
)
def test_only_parts_that_no_checkpoint_names_are_removed(
    rank: int, size: int, gone: set[str], place: Path
) -> None:
    for name in LEFT:
        place.with_name(f"{place.name}.{name}").write_text("")
    other = place.with_name("other.safetensors.3-0")
    other.write_text("")
    saver = Saver(1, member(rank, size), Lock(place))
    saver.serial = 4
    saver._sweep()
    left = {name.removeprefix(".") for name in names(place)} - {other.name}
    assert left == set(LEFT) - gone
    assert other.exists()


def test_a_name_with_signs_of_a_pattern_is_taken_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "run[1]*"
    stranger = tmp_path / "run1x.3-0"
    stranger.write_text("")
    place.with_name("run[1]*.3-0").write_text("")
    Saver(1, member(0, 1), Lock(place))._sweep()
    assert names(tmp_path / "x") == ["run1x.3-0"]


def test_ranks_leave_one_part_each_of_one_checkpoint(place: Path) -> None:
    on_ranks(3, lambda mpi: cases.solve("gpdmm", mpi, rounds=6, checkpoint=place, every=2))
    serial = header(place)["serial"]
    assert serial == 4  # at the start, and after rounds 2, 4 and 6
    assert names(place) == ["", ".4-0", ".4-1", ".4-2", ".history"]
    files = header(place)["files"]
    assert [entry[1:3] for entry in files] == [[0, 4], [4, 8], [8, 12]]


def test_fewer_ranks_sweep_the_parts_of_more(place: Path) -> None:
    on_ranks(3, lambda mpi: cases.solve("gpdmm", mpi, rounds=6, checkpoint=place, every=2))
    make = cases.least_squares
    on_ranks(
        2, lambda mpi: pdmm.resume(place, make(mpi.range(cases.M)), rounds=8, engine=mpi)
    )  # a checkpoint at once, of what is asked for now, and after round 8
    assert names(place) == ["", ".6-0", ".6-1", ".history"]
    pdmm.resume(place, make(range(cases.M)), rounds=9)
    assert names(place) == ["", ".history"]


def test_what_is_read_is_what_was_written(place: Path) -> None:
    method = pdmm.AGPDMM(0.02, 3)
    result = pdmm.solve(
        squares(), method, rounds=7, checkpoint=place, every=3, loss=0.2, seed=4, record_every=2
    )
    saved = read(place, InProcess(squares()), None, None, None)
    assert (saved.done, saved.every, saved.serial) == (7, 3, 4)
    assert saved.rows == len(result.history["round"]) == 5
    assert saved.length == place.with_name(place.name + ".history").stat().st_size
    for name, column in result.history.items():
        np.testing.assert_array_equal(saved.columns[name], column)
    assert (saved.settings.method, saved.settings.loss, saved.settings.seed) == (method, 0.2, 4)
    np.testing.assert_array_equal(saved.state["x"], result.x)
    point = np.random.default_rng(0).standard_normal(4)
    found = saved.tables["fingerprint"]
    np.testing.assert_array_equal(found.clients, np.arange(6))
    assert found.columns[0].sum() == pytest.approx(squares().objective(point), rel=1e-12)


def test_each_rank_reads_its_own_clients(place: Path) -> None:
    pdmm.solve(squares(), pdmm.AGPDMM(0.02, 3), rounds=3, checkpoint=place)
    whole = read(place, InProcess(squares()), None, None, None).tables["memory"]

    class Some(InProcess):
        @property
        def own(self) -> slice:
            return slice(2, 5)

    part = read(place, Some(squares()), None, None, None).tables["memory"]
    np.testing.assert_array_equal(part.clients, [2, 3, 4])
    np.testing.assert_array_equal(part.columns[0], whole.columns[0][2:5])


def test_every_may_be_a_number_of_numpy(place: Path) -> None:
    """The header of a checkpoint is JSON, which has none."""
    every: int = np.uint8(2)  # type: ignore[assignment]
    problem = squares()
    method = pdmm.AGPDMM(0.01, 2)
    pdmm.solve(problem, method, 4, checkpoint=place, every=every)
    assert header(place)["every"] == 2
    assert pdmm.resume(place, problem, rounds=6, every=every).rounds == 6
