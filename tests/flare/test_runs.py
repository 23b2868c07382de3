"""What is checked before a run travels, and what is written when it is done: no federation."""

from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from safetensors.numpy import save

import pdmm
from pdmm.common.whole_files import write_whole
from pdmm.flare import model_files, runs
from pdmm.flare.admin import Status
from pdmm.flare.server_run import HISTORY, MODEL

ASKED = runs.settings(pdmm.AGPDMM(0.1, 3, 1.0), rounds=5, run="one", weights={"ana": 1, "ben": 2})
NOWHERE = Path("no kit")


class FakeAdmin:
    """A federation of two sites whose runs are done at once."""

    submitted: list[Any]

    def __init__(self, kit: Path, patience: float = 0.0) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def jobs(self) -> list[dict[str, Any]]:
        return []

    def sites(self) -> list[str]:
        return ["ana", "ben"]

    def sites_of(self, job: str) -> list[str]:
        return []

    def submit(self, settings: Any, name: str, sites: Any) -> str:
        self.submitted.append((settings, sites))
        return "7"

    def status(self, job: str) -> Status:
        return Status("finished")

    def result(self, job: str, out: Path) -> None:
        (out / MODEL).write_bytes(save({"x": np.arange(3.0)}))
        (out / HISTORY).write_bytes(b"round\n0\n")


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(FakeAdmin, "submitted", [], raising=False)
    monkeypatch.setattr(runs, "Admin", FakeAdmin)
    return FakeAdmin.submitted


def test_a_run_that_is_done_leaves_two_files(submitted: list[Any], tmp_path: Path) -> None:
    out = tmp_path / "new" / "model.safetensors"
    model = runs.complete(NOWHERE, ASKED, out)
    assert model.x.tolist() == model_files.read_model(out).x.tolist() == [0.0, 1.0, 2.0]
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "model.history.csv",
        "model.safetensors",
    ]
    assert len(submitted) == 1


@pytest.mark.parametrize("there", ["model.safetensors", "model.history.csv"])
def test_what_is_there_is_not_written_over(
    there: str, submitted: list[Any], tmp_path: Path
) -> None:
    out = tmp_path / "model.safetensors"
    (tmp_path / there).write_text("old")
    with pytest.raises(ValueError, match=r"is there already.*--force"):
        runs.complete(NOWHERE, ASKED, out)
    assert not submitted
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]
    runs.complete(NOWHERE, ASKED, out, force=True)
    assert model_files.read_model(out).x.tolist() == [0.0, 1.0, 2.0]


def test_what_has_come_meanwhile_is_not_written_over(
    submitted: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model.safetensors"

    def slow(self: FakeAdmin, job: str) -> Status:
        out.write_text("of a colleague")
        return Status("finished")

    monkeypatch.setattr(FakeAdmin, "status", slow)
    with pytest.raises(runs.RunError, match="the run is done, but its model is not written"):
        runs.complete(NOWHERE, ASKED, out)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["of a colleague"]


def test_a_model_and_its_history_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model.safetensors"

    def full(path: Path, contents: bytes) -> None:
        if path == out:
            raise OSError("no space left on device")
        write_whole(path, contents)

    monkeypatch.setattr(model_files, "write_whole", full)
    with pytest.raises(OSError, match="no space"):
        model_files.write_model(out, b"model", b"history")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("weights", [{"ana": 1.0}, {"ana": 1.0, "carl": 2.0}, {}])
def test_weights_must_be_for_the_sites(weights: dict[str, float], submitted: list[Any]) -> None:
    asked = {**ASKED, "weights": weights}
    says = r"weights are for .*, but the sites are ana, ben: each of these needs one"
    with pytest.raises(ValueError, match=says):
        runs.complete(NOWHERE, asked)  # those that are connected
    with pytest.raises(ValueError, match=says):
        runs.complete(NOWHERE, asked, sites=["ben", "ana"])
    assert not submitted
    runs.complete(NOWHERE, ASKED, sites=["ben", "ana"])
    assert len(submitted) == 1
