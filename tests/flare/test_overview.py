"""How a federation's runs stand, by what FLARE says of their jobs: no federation."""

from pathlib import Path
from typing import Any, Self

import pytest

from pdmm.flare import overview
from pdmm.flare.job import SUMMARY, summary
from pdmm.flare.job_status import Status

FIT = {"kind": "fit", "timeout": 60.0}
AGAIN = {"resume": True, "timeout": 5.0}
METHOD = {"method": {"class": "AGPDMM", "fields": {}}, "rounds": 20}


class FakeAdmin:
    """A session with a server that knows some jobs, the oldest first."""

    user = "ada"
    asked: list[tuple[str, dict[str, Any]]]

    def __init__(self, kit: Path) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def jobs(self) -> list[dict[str, Any]]:
        return [
            {"job_id": str(k), "job_name": name, "submit_time": k}
            for k, (name, _) in enumerate(self.asked)
        ]

    def described(self, job: str) -> dict[str, Any]:
        told = summary(self.asked[int(job)][1])
        return {SUMMARY: told, "submitter_name": "ada", "submit_time": float(job)}

    def status(self, job: str) -> Status:
        return Status("finished")

    def server(self) -> tuple[float, str]:
        return 0.0, "2.9.0"

    def seen(self) -> dict[str, Any]:
        return {}

    def sites(self) -> list[str]:
        return []

    @property
    def address(self) -> str:
        return "localhost:8702"


def test_a_run_that_was_taken_up_is_what_was_asked_for_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = [("one", METHOD), ("two", FIT), ("two", AGAIN), ("one", AGAIN)]
    monkeypatch.setattr(FakeAdmin, "asked", jobs, raising=False)
    monkeypatch.setattr(overview, "Admin", FakeAdmin)
    one, two = overview.overview(Path("kit")).runs
    assert (one.name, one.kind, one.method, one.jobs) == ("one", "run", "AGPDMM", 2)
    assert (two.name, two.kind, two.jobs) == ("two", "fit", 2)
    assert one.asked["rounds"] == 20
    assert one.asked["timeout"] == two.asked["timeout"] == 5.0
