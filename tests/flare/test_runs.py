"""What is checked before a run travels, and what is written when it is done: no federation."""

import json
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from safetensors.numpy import save

import pdmm
from pdmm.flare import model_files, runs
from pdmm.flare.job_status import Status
from pdmm.flare.server_run import HISTORY, MODEL

ASKED = runs.settings(pdmm.AGPDMM(0.1, 3, 1.0), rounds=5, run="one", weights={"ana": 1, "ben": 2})
NOWHERE = Path("no kit")


class FakeAdmin:
    """A federation of two sites whose runs are done at once."""

    submitted: list[Any]
    user = "ada"
    model_of: dict[str, Any] | None = None
    """Whose model it gives, if not that of who asked."""
    others: dict[str, str]
    """The submitters of jobs that were there before."""

    def __init__(self, kit: Path, patience: float = 0.0) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def jobs(self) -> list[dict[str, Any]]:
        return [{"job_id": job, "job_name": "one", "submit_time": job} for job in self.others]

    def submitter_of(self, job: str) -> str:
        return self.others[job]

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
        asked = self.submitted[-1][0] if self.submitted else {}
        said = self.model_of or {"run": "one", "owner": self.user, "token": asked.get("token")}
        metadata = {"result": json.dumps(said)}
        (out / MODEL).write_bytes(save({"x": np.arange(3.0)}, metadata))
        (out / HISTORY).write_bytes(b"round\n0\n")


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(FakeAdmin, "submitted", [], raising=False)
    monkeypatch.setattr(FakeAdmin, "others", {}, raising=False)
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


@pytest.mark.parametrize("late", ["model.safetensors", "model.history.csv"])
def test_what_comes_between_the_check_and_the_writing_is_not_written_over(
    late: str, submitted: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = model_files.check_out

    def checked(out: Path, force: bool = False) -> None:
        check(out, force)
        (tmp_path / late).write_text("of a colleague")

    monkeypatch.setattr(model_files, "check_out", checked)
    with pytest.raises(
        runs.RunError, match=rf"not written: out=.*{late} is there already.*--force"
    ):
        runs.complete(NOWHERE, ASKED, tmp_path / "model.safetensors")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["of a colleague"]


def test_every_submission_has_a_token_of_its_own(submitted: list[Any]) -> None:
    for _ in range(2):
        runs.complete(NOWHERE, ASKED)
    first, second = (asked["token"] for asked, _ in submitted)
    assert first != second


def test_a_token_is_kept_over_restarts(
    submitted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([Status("failed", "the server was restarted")] * 2)
    monkeypatch.setattr(FakeAdmin, "status", lambda self, job: next(failures, Status("finished")))
    assert runs.complete(NOWHERE, ASKED).restarts == 2
    assert len({asked["token"] for asked, _ in submitted}) == 1
    assert len(submitted) == 3


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (ASKED, {"run": "one", "owner": "ada", "token": "that of another submission"}),
        (ASKED, {"run": "one", "owner": "ada", "token": None}),
        (ASKED, {"reason": "all rounds done"}),
        (runs.resumption("one"), {"run": "one", "owner": "bob", "token": "7"}),
        (runs.resumption("one"), {"run": "two", "owner": "ada", "token": "7"}),
    ],
)
def test_the_model_of_another_submission_is_not_taken(
    asked: dict[str, Any],
    said: dict[str, Any],
    submitted: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeAdmin, "model_of", said)
    with pytest.raises(runs.RunError, match="the model of another submission"):
        runs.complete(NOWHERE, asked, tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_only_its_owner_resumes_a_run(
    submitted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeAdmin, "others", {"1": "bob"})
    with pytest.raises(runs.RunError, match=r"a run one .* belongs to bob, who alone can"):
        runs.complete(NOWHERE, runs.resumption("one"))
    # A job that was refused because the name is bob's does not make the run his.
    monkeypatch.setattr(FakeAdmin, "others", {"1": "ada", "2": "bob"})
    runs.complete(NOWHERE, runs.resumption("one"))
    assert not submitted  # it had come to its end, and its model was fetched


def test_a_site_that_is_lost_again_in_the_same_round_is_named(
    submitted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Status("failed", "FLARE ended the job", unanswered=("ben",), round=7)
    monkeypatch.setattr(FakeAdmin, "status", lambda self, job: lost)
    said: list[str] = []
    with pytest.raises(runs.RunError, match=r"taken up 2 times .* at site ben, look at log.txt"):
        runs.complete(NOWHERE, ASKED, restarts=2, say=said.append)
    first, second = said[1:]
    assert "site ben" not in first
    assert "at site ben, look at log.txt in its kit" in second


@pytest.mark.parametrize(
    ("told", "how", "says"),
    [
        (True, {}, "taking the run up from its checkpoint (1 of 5)"),
        (False, {}, "the run begins again from its first round, for it has no checkpoint"),
        (None, {"secure": True}, "the run begins again from its first round"),
        (None, {"verify": "sites"}, "the run begins again from its first round"),
        (None, {"secure": False}, "taking the run up from its checkpoint"),
        (None, {"secure": "auto"}, "submitting the run again (1 of 5)"),
    ],
)
def test_what_is_said_of_a_run_that_is_submitted_again(
    told: Any,
    how: dict[str, Any],
    says: str,
    submitted: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states = iter([Status("failed", "site ben has lost its memory", checkpoint=told)])
    monkeypatch.setattr(FakeAdmin, "status", lambda self, job: next(states, Status("finished")))
    asked = runs.settings(pdmm.AGPDMM(0.1, 3, 1.0), rounds=5, run="one", **how)
    said: list[str] = []
    assert runs.complete(NOWHERE, asked, say=said.append).restarts == 1
    assert says in said[-1]


def test_a_model_and_its_history_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model.safetensors"

    def full(part: Path, path: Path) -> None:
        if path == out:
            raise OSError("no space left on device")
        link(part, path)

    link = os.link
    monkeypatch.setattr(os, "link", full)
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
