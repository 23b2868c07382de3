"""What the server of a federation does with a job, without the federation."""

import json
import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdmm
from builders import cases
from builders.ranks import close
from builders.sites import SHARES, SILENT, Absence, FakeSites, Fault
from pdmm.cli.federate.showing import summary
from pdmm.common.lock import Lock
from pdmm.common.packing import unpack
from pdmm.flare import model_files, runs
from pdmm.flare import server_run as server

METHOD = pdmm.GPDMM(step_size=0.5, local_steps=5)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long between two questions."""
    monkeypatch.setattr("pdmm.engines.sites.roster.PAUSE", 0.005)


def asked(**more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"rounds": 20, "timeout": 1.0, "patience": 5.0, "run": "one", **more}
    return runs.settings(METHOD, **given)


def done(
    settings: dict[str, Any],
    folder: Path,
    fault: Fault | None = None,
    after_round: Callable[[int], object] | None = None,
) -> tuple[model_files.Model, list[Any]]:
    """A job at a server whose sites are in this process: the model, and what was reported."""
    told: list[Any] = []
    out, kept = folder / "out", folder / "kept"
    kept.mkdir(exist_ok=True)
    out.mkdir(exist_ok=True)

    def report(each: dict[str, Any]) -> None:
        told.append(each)
        if after_round is not None:
            after_round(each["round"])

    travelled = json.loads(json.dumps(settings))
    server.run(travelled, FakeSites(cases.softmax, SHARES, fault), kept, out, report)
    return model_files.read_model(out / server.MODEL), told


@pytest.mark.parametrize("h", [pdmm.Box(-0.1, np.inf), pdmm.L1(0.1), pdmm.L1(np.full(10, 0.1))])
def test_a_job_carries_a_regulariser(h: pdmm.Regulariser, tmp_path: Path) -> None:
    model, _ = done(asked(regulariser=h), tmp_path)
    one = pdmm.solve(cases.softmax(range(cases.M)), METHOD, 20, regulariser=h)
    assert close(model.x, one.x)


def test_a_job_gives_the_model_of_one_process(tmp_path: Path) -> None:
    weights = {"ana": 2.0, "ben": 1.0, "cyd": 0.5}
    model, told = done(asked(weights=weights, optimum=1.0), tmp_path)
    w = np.concatenate([np.full(len(SHARES[name]), weights[name]) for name in sorted(SHARES)])
    one = pdmm.solve(cases.softmax(range(cases.M)), METHOD, 20, weights=w)
    assert close(one.x, model.x)
    assert model.result["sites"] == {"ana": 5, "ben": 1, "cyd": 6}
    assert unpack(model.result["method"], {}) == METHOD
    assert [each["round"] for each in told] == list(range(1, 21))
    assert all(each["answering"] == ["ana", "ben", "cyd"] for each in told)
    gaps = one.history["objective"] - 1.0
    assert told[0]["gap"] is None
    assert told[8]["gap"] == pytest.approx(gaps[8], rel=1e-9)  # that of the round before
    assert told[19]["gap"] == pytest.approx(gaps[19], rel=1e-9)
    assert told[-1]["bytes"] > told[0]["bytes"] > 0


def test_the_model_says_what_part_each_site_made(tmp_path: Path) -> None:
    model, _ = done(asked(tolerance=1e-2, rounds=100), tmp_path)
    rows = model.result["shares"]
    assert [row["site"] for row in rows] == ["ana", "ben", "cyd"]
    assert [row["weight"] for row in rows] == pytest.approx([5 / 12, 1 / 12, 6 / 12])
    assert not any(row["flagged"] for row in rows)
    assert model.result["proviso"] == "if all sites are honest"
    assert "certified after round" in model.result["reason"]
    assert "if all sites are honest, F(x) - F* is proven" in model.result["reason"]
    assert summary(model.result)[0].endswith(model.result["reason"])
    assert not any("of the uploads" in line for line in summary(model.result))


def test_a_site_that_stands_out_is_shown_beside_the_others(tmp_path: Path) -> None:
    def fault(site: str, verb: str, payload: Any) -> Any:
        if site != "ben" or verb != "gradient":
            return None
        return lambda answer: {**answer, "gradient": 1e4 * answer["gradient"], "terms": 1e9}

    model, _ = done(asked(tolerance=1e-30), tmp_path, fault)
    assert [row["flagged"] for row in model.result["shares"]] == [False, True, False]
    told = [line for line in summary(model.result) if "of the uploads" in line]
    assert [line.split(" has ")[0] for line in told] == ["- site ana", "- site ben", "- site cyd"]
    assert "what is usual at the other sites" in told[1]


def test_a_run_goes_on_and_is_not_begun_twice(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    whole, _ = done(asked(rounds=30, run="other", absent="wait"), tmp_path / "other")
    first_asked = {**asked(absent="wait"), "token": "1"}
    first, _ = done(first_asked, tmp_path)
    with pytest.raises(ValueError, match="there is a run one at this server already"):
        done(asked(), tmp_path)
    same, told = done(first_asked, tmp_path)
    assert (same.x == first.x).all()
    assert not told  # it had come to its end
    with pytest.raises(ValueError, match="rounds is 7, but 20 are done"):
        done(runs.resumption("one", rounds=7), tmp_path)
    assert (done(runs.resumption("one"), tmp_path)[0].x == first.x).all()  # that is forgotten
    more, _ = done(runs.resumption("one", rounds=30), tmp_path)
    assert (more.x == whole.x).all()
    kept = json.loads((tmp_path / "kept" / server.SETTINGS).read_text())
    assert (kept["absent"], kept["timeout"]) == ("wait", 1.0)  # as when it began
    (tmp_path / "two").mkdir()
    with pytest.raises(ValueError, match="there is no run two at this server"):
        done(runs.resumption("two"), tmp_path / "two")


def test_a_run_with_secure_sums_says_so(tmp_path: Path) -> None:
    plain, _ = done(asked(), tmp_path)
    (tmp_path / "secure").mkdir()
    model, told = done(asked(secure=True), tmp_path / "secure")
    assert close(model.x, plain.x)
    said = "sums are secure: the server read sums over 3 organisations alone"
    assert model.result["choices"] == [said]
    assert not any(each["checkpoint"] for each in told)
    assert not (tmp_path / "secure" / "kept" / server.CHECKPOINT).exists()


@pytest.mark.parametrize("how", [{"secure": True}, {"verify": "sites"}], ids=["secure", "verify"])
def test_a_run_without_a_checkpoint_begins_again(how: dict[str, Any], tmp_path: Path) -> None:
    """A site forgets what nobody else knows: the next job begins with the first round."""

    class RestartedError(Exception):
        pass

    def end(r: int) -> None:
        if r == 7:
            raise RestartedError

    first = {**asked(**how), "token": "1"}
    with pytest.raises(RestartedError):
        done(first, tmp_path, after_round=end)
    with pytest.raises(ValueError, match="there is a run one at this server already"):
        done({**asked(**how), "token": "2"}, tmp_path)
    model, told = done(first, tmp_path)
    assert [each["round"] for each in told] == list(range(1, 21))
    assert close(model.x, pdmm.solve(cases.softmax(range(cases.M)), METHOD, 20).x)
    assert "began again from its first round" in model.result["choices"][-1]
    more, told = done(runs.resumption("one", rounds=30), tmp_path)
    assert [each["round"] for each in told] == list(range(1, 31))
    assert close(more.x, pdmm.solve(cases.softmax(range(cases.M)), METHOD, 30).x)


def test_a_run_that_never_began_can_be_begun_again(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="weights are for"):
        done(asked(weights={"dan": 1.0}), tmp_path)
    assert done(asked(), tmp_path)[0].result["rounds"] == 20


def test_two_jobs_do_not_work_on_one_run(tmp_path: Path) -> None:
    ours = {**asked(), "token": "1"}
    lock = Lock(tmp_path / "kept" / server.SETTINGS)
    lock.acquire()
    with pytest.raises(RuntimeError, match="another job works on the run one"):
        done(ours, tmp_path)
    lock.release()
    done(ours, tmp_path)
    lock.acquire()
    with pytest.raises(RuntimeError, match="another job works on the run one"):
        done(ours, tmp_path)
    # Another submission need not wait for the end of this one to be told.
    with pytest.raises(ValueError, match="there is a run one at this server already"):
        done({**ours, "token": "2"}, tmp_path)
    lock.release()


def test_of_two_submissions_at_the_same_moment_one_is_refused(tmp_path: Path) -> None:
    """Each is begun again where trying again may help, as a researcher's command does it."""
    (tmp_path / "kept").mkdir()
    first = threading.Barrier(2, timeout=60)

    def submission(token: str) -> model_files.Model | str:
        weights = {"ana": 1.0, "ben": 1.0, "cyd": 50.0 if token == "b" else 1.0}
        mine = json.loads(json.dumps({**asked(weights=weights), "token": token, "owner": "ada"}))
        out = tmp_path / token
        first.wait()
        while True:
            try:
                sites = FakeSites(cases.softmax, SHARES)
                server.run(mine, sites, tmp_path / "kept", out, lambda told: None)
                return model_files.read_model(out / server.MODEL)
            except ValueError as error:
                return str(error)
            except RuntimeError:
                continue

    with ThreadPoolExecutor(2) as pool:
        found = dict(zip("ab", pool.map(submission, "ab"), strict=True))
    models = {token: each for token, each in found.items() if isinstance(each, model_files.Model)}
    (winner,) = models
    assert models[winner].result["token"] == winner
    w = np.concatenate(
        [
            np.full(len(SHARES[n]), 50.0 if (winner, n) == ("b", "cyd") else 1.0)
            for n in sorted(SHARES)
        ]
    )
    assert close(
        models[winner].x, pdmm.solve(cases.softmax(range(cases.M)), METHOD, 20, weights=w).x
    )
    (refused,) = (each for each in found.values() if isinstance(each, str))
    assert "there is a run one at this server already, of another submission" in refused


def test_a_run_is_its_owners(tmp_path: Path) -> None:
    first, _ = done({**asked(), "token": "1", "owner": "ada"}, tmp_path)
    assert (first.result["owner"], first.result["run"]) == ("ada", "one")
    for job in ({**asked(), "token": "1"}, {**asked(), "token": "2"}, runs.resumption("one")):
        with pytest.raises(ValueError, match="belongs to ada, who alone can resume it"):
            done({**job, "owner": "bob"}, tmp_path)
    again, _ = done({**runs.resumption("one"), "owner": "ada"}, tmp_path)
    assert again.result["token"] == "1"


def test_what_the_server_writes_is_its_own_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        done(asked(), tmp_path)
    finally:
        os.umask(before)
    for folder in ("kept", "out"):
        paths = sorted((tmp_path / folder).iterdir())
        assert paths
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}


@pytest.mark.parametrize(
    "name",
    [server.SETTINGS, server.CHECKPOINT, f"{server.CHECKPOINT}.history", "settings.json.lock"],
)
def test_a_link_in_the_folder_of_a_run_is_not_followed(name: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / name).symlink_to(mine)
    with pytest.raises((ValueError, OSError), match=r"is a link.*remove it"):
        done(asked(), tmp_path)
    assert mine.read_text() == "mine"


def test_a_site_that_is_away_stops_neither_checkpoints_nor_certificates(tmp_path: Path) -> None:
    """Where a run goes on without a site, it does not wait for it to evaluate F either."""
    absence, waited = Absence("ben", range(5, 15)), []

    def fault(site: str, verb: str, payload: Any) -> str | None:
        why = absence.fault(site, verb, payload)
        waited.append(why is not None and verb in ("value", "gradient"))
        return why

    settings = asked(every=3, tolerance=1e-30, rounds=400, patience=120.0)
    model, told = done(settings, tmp_path, fault, absence.callback)
    assert sum(waited) <= 1  # the one that showed that it was away
    away = [each["round"] for each in told if len(each["answering"]) == 2]
    assert away == list(absence.rounds)
    assert {len(each["answering"]) for each in told} == {2, 3}
    history = (tmp_path / "out" / server.HISTORY).read_text().splitlines()
    objective = [float(line.split(",")[1]) for line in history[1:]]
    assert np.isnan(objective[6])
    assert not np.isnan(objective[15:]).any()
    exact = pdmm.solve(cases.softmax(range(cases.M)))
    assert close(exact.x, model.x, 1e-6)


def test_an_answer_that_is_always_too_late_is_told(tmp_path: Path) -> None:
    """The site says hello whenever it is asked, and never answers in time."""

    def fault(site: str, verb: str, payload: Any) -> str | None:
        return SILENT if site == "ben" and verb == "round" else None

    settings = asked(rounds=10**5, patience=0.3, absent="skip", record_every=100)
    with pytest.raises(RuntimeError, match=r"site ben has not answered for .*a longer timeout"):
        done(settings, tmp_path, fault)


def test_weights_must_be_of_the_sites(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"weights are for \['ana'\], but the sites are"):
        done(asked(weights={"ana": 1.0}), tmp_path)
