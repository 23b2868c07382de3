"""Runs of a federation, as the researcher sees them: submitted, followed, taken up again."""

import re
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast

import pdmm
from pdmm.common.checks import not_negative, one_of, positive, switch, whole
from pdmm.common.packing import Arrays, pack
from pdmm.flare.admin import Admin
from pdmm.flare.following import Follower, NotBegunError, Times
from pdmm.flare.job_status import Status, read_outcome
from pdmm.flare.lost_sites import LostSites
from pdmm.flare.model_files import Model, check_out, read_model, write_model
from pdmm.flare.ownership import TOKEN, check_own, new_token, not_yours
from pdmm.flare.server_run import HISTORY, MODEL
from pdmm.flare.taking_up import has_checkpoint, how_to_resume, taken_up
from pdmm.methods.registry import METHODS

T = TypeVar("T")

AUTO = "auto"  # the method that is chosen too


class RunError(Exception):
    """A run did not come to its end; the message says why, and what to do."""


def method_names() -> tuple[str, ...]:
    """The methods that a run may be asked for by name."""
    return (AUTO, *METHODS)


def named_method(name: str, **parameters: Any) -> pdmm.Method | None:
    """A method by its name on the command line; parameters that are None are left out."""
    given = {key: value for key, value in parameters.items() if value is not None}
    if name == AUTO:
        if given:
            raise ValueError(f"method auto takes no {', '.join(given)}: it chooses them")
        return None
    if name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(method_names())}, got {name!r}")
    kind = METHODS[name]
    known = {f.name for f in fields(cast(Any, kind))}
    if odd := sorted(set(given) - known):
        raise ValueError(f"{name} has no {', '.join(odd)}, only {', '.join(sorted(known))}")
    if "rho" in known:
        given.setdefault("rho", "auto")
    return kind(**given)


def settings(
    method: pdmm.Method | None,
    *,
    rounds: int | None = None,
    tolerance: float | None = None,
    check_every: int = 5,
    record_every: int = 1,
    weights: Mapping[str, float] | None = None,
    regulariser: pdmm.Regulariser | None = None,
    optimum: float | None = None,
    timeout: float = 60.0,
    patience: float = 600.0,
    absent: str = "skip",
    verify: str = "server",
    secure: bool | Literal["auto"] = "auto",
    every: int = 10,
    seed: int = 0,
    run: str | None = None,
) -> dict[str, Any]:
    """What a job is told, checked before it travels. See ``pdmm federate submit --help``."""
    packed = pack(method, {}, "method")
    if isinstance(packed, dict) and "code" in packed:
        raise ValueError(
            f"method is a {packed['code']} with code of your own, which no job carries: it must be "
            f"one of {', '.join(method_names())}"
        )
    arrays: Arrays = {}
    held = pack(regulariser, arrays, "regulariser")
    if isinstance(held, dict) and "code" in held:
        raise ValueError("regulariser must be one of pdmm's: a job carries no code")
    one_of("absent", absent, ("skip", "wait"))
    one_of("verify", verify, ("server", "sites"))
    return {
        "run": new_name() if run is None else checked_name(run),
        "method": packed,
        "rounds": None if rounds is None else whole("rounds", rounds, at_least=1),
        "tolerance": None if tolerance is None else positive("tolerance", tolerance),
        "check_every": whole("check_every", check_every, at_least=1),
        "record_every": whole("record_every", record_every, at_least=1),
        "weights": None if weights is None else _positive(weights),
        "regulariser": held,
        "arrays": {name: array.tolist() for name, array in arrays.items()},
        "optimum": optimum,
        "timeout": positive("timeout", timeout),
        "patience": not_negative("patience", patience),
        "absent": absent,
        "verify": verify,
        "secure": switch("secure", secure),
        "every": whole("every", every, at_least=1),
        "seed": whole("seed", seed, at_least=0),
    }


def _positive(weights: Mapping[str, float]) -> dict[str, float]:
    return {name: positive(f"weight of {name}", weight) for name, weight in weights.items()}


def new_name(kind: str = "run") -> str:
    """A name for a run that no other has: what it is, when it began, and chance."""
    return kind + time.strftime("-%Y%m%d-%H%M%S-") + uuid.uuid4().hex[:6]


def checked_name(name: str) -> str:
    """A name that can be a run's."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}", name):
        raise ValueError(f"run must be up to 61 letters, digits, '_' and '-', got {name!r}")
    return name


def complete(
    kit: Path,
    asked: dict[str, Any],
    out: Path | None = None,
    *,
    sites: Sequence[str] | None = None,
    restarts: int = 5,
    wait: float = 600.0,
    force: bool = False,
    show: Callable[[dict[str, Any]], object] = lambda progress: None,
    say: Callable[[str], object] = lambda text: None,
) -> Model:
    """Have a federation do a run, and take it up again where its job ends early.

    It goes on from its checkpoint. A run that has none, because its sums are secure or its sites
    compute x, begins again from its first round.

    The model is that of this call, or of the run that it resumes: where somebody else has given
    the same name to a run, however late, it is an error.

    Args:
        kit: an admin's start-up kit.
        asked: what :func:`settings` gave.
        out: a file for the model (safetensors); the history goes beside it.
        sites: those that take part; those that are connected now, if not given.
        restarts: how often to take the run up again, at most.
        wait: seconds to wait for the server and for all sites, at most.
        force: write over a model that is there; otherwise nothing is submitted then.
        show: takes the progress, whenever there is news.
        say: takes what happened besides, in words.
    """
    if out is not None:
        check_out(out, force)

    def fetch(done: Done) -> Model:
        return _fetched(done, out, force)

    return carry_out(
        kit, asked, fetch, sites=sites, restarts=restarts, wait=wait, show=show, say=say
    )


class Done(NamedTuple):
    """A job that has come to its end."""

    admin: Admin
    job: str
    asked: dict[str, Any]
    again: int
    """How often it had to be taken up."""
    follower: Follower | None = None
    """What has followed it; None if it was over already."""
    ours: bool = False
    """Whether this call has submitted it."""

    def times(self, outcome: dict[str, Any]) -> Times | None:
        """Show the last rounds, and say how long it all took, where this call knows that."""
        if self.follower is None:
            return None
        self.follower.finish(outcome.get("reports", ()))
        return self.follower.times(outcome) if self.ours else None


def carry_out(
    kit: Path,
    asked: dict[str, Any],
    fetch: Callable[[Done], T],
    *,
    sites: Sequence[str] | None = None,
    restarts: int = 5,
    wait: float = 600.0,
    show: Callable[[dict[str, Any]], object] = lambda progress: None,
    say: Callable[[str], object] = lambda text: None,
) -> T:
    """Have a federation do what is asked, again where its job ends early, and fetch the result.

    Args:
        kit: an admin's start-up kit.
        asked: what the job is told.
        fetch: reads the result of a job that has come to its end.
        sites: those that take part; those that are connected now, if not given.
        restarts: how often to take it up again, at most.
        wait: seconds to wait for the server and for all sites, at most.
        show: takes the progress, whenever there is news.
        say: takes what happened besides, in words.
    """
    weights = asked.get("weights")
    if sites is not None:
        check_weights(weights, sites)
    names, again = list(sites) if sites is not None else None, 0
    if not asked.get("resume"):
        asked = {**asked, TOKEN: new_token()}
    lost = LostSites()
    with Admin(kit, patience=wait) as admin:
        # This saves a job. Whether the name is taken is decided at the server, one job at a time.
        job, states = None, _jobs(admin, asked)
        running = [number for number, status in states.items() if not status.over]
        done = [number for number, status in states.items() if status.state == "finished"]
        if running and not asked.get("resume"):
            raise RunError(f"the run {asked['run']} goes on already: follow it by resume")
        if running:
            job = running[0]
            say("the run goes on still, as it was asked to: its model is fetched when it is done")
        elif done and asked.get("resume") and not asked.get("more_rounds"):
            return fetch(Done(admin, done[0], asked, again))
        if names is None:
            names = next((s for s in map(admin.sites_of, states) if s), None) or admin.sites()
            if not names:
                raise RunError("no site is connected: start the sites first")
            check_weights(weights, names)
        say(f"sites: {', '.join(names)}")
        while True:
            ours = job is None
            job = job or admin.submit(asked, asked["run"], names)
            follower = Follower(admin, job, names, show)
            status = _followed(admin, follower, wait)
            if status.state == "finished":
                return fetch(Done(admin, job, asked, again, follower, ours))
            kept = has_checkpoint(status.checkpoint, asked)
            if status.state == "aborted":
                raise RunError(
                    "the run was stopped (pdmm federate stop, or an admin aborted its job); "
                    + how_to_resume(asked, kept)
                )
            if status.final:
                raise RunError(status.detail)
            why = lost.told(status.detail, status.unanswered, status.round)
            if again >= restarts:
                raise RunError(
                    f"the run was taken up {restarts} times and did not come to its end: "
                    f"{why}. When that is mended, {how_to_resume(asked, kept)}"
                )
            again, job = again + 1, None
            say(f"{why}; {taken_up(kept, asked)} ({again} of {restarts})")


def _jobs(admin: Admin, asked: dict[str, Any]) -> dict[str, Status]:
    """The jobs that worked on a run, or do: the newest first. Who resumes has none but their own.

    The owner of a run is who submitted it.
    """
    run = asked["run"]
    jobs = sorted(admin.jobs(), key=lambda job: str(job.get("submit_time")), reverse=True)
    numbers = [str(job["job_id"]) for job in jobs if job.get("job_name") == run]
    if asked.get("resume"):
        others = {number: admin.submitter_of(number) for number in numbers}
        own = [number for number in numbers if others[number] == admin.user]
        if numbers and not own:
            raise RunError(not_yours(run, others[numbers[-1]]))
        numbers = own
    return {number: admin.status(number) for number in numbers}


def resumption(
    run: str,
    *,
    rounds: int | None = None,
    timeout: float | None = None,
    patience: float | None = None,
) -> dict[str, Any]:
    """What a job is told that goes on with a run; what is None stays as it was."""
    return {
        "run": checked_name(run),
        "resume": True,
        "more_rounds": None if rounds is None else whole("rounds", rounds, at_least=1),
        "timeout": None if timeout is None else positive("timeout", timeout),
        "patience": None if patience is None else not_negative("patience", patience),
    }


def _followed(admin: Admin, follower: Follower, wait: float) -> Status:
    """Watch a job until it is over; one that does not begin in time is ended."""
    try:
        return follower.follow(wait)
    except NotBegunError as who:
        admin.abort(follower.job)
        raise RunError(
            f"the run did not begin within {wait:.0f} seconds: {who}. A run that had begun before "
            "can be resumed"
        ) from None


def _fetched(done: Done, out: Path | None, force: bool) -> Model:
    with tempfile.TemporaryDirectory(prefix="pdmm-model-") as folder:
        done.admin.result(done.job, Path(folder))
        model = Path(folder) / MODEL
        if not model.is_file():
            raise RunError(f"job {done.job} has ended, but there is no model in its result")
        found = read_model(model, done.again)
        check_result(done, found.result)
        if out is not None:
            _write(out, model, Path(folder) / HISTORY, done.asked, force)
        return replace(found, times=done.times(read_outcome(Path(folder))))


def check_result(done: Done, said: dict[str, Any]) -> None:
    """Refuse the result of another's run of the same name."""
    try:
        check_own(said, done.asked, done.admin.user)
    except ValueError as error:
        raise RunError(f"job {done.job} has ended, but {error}") from None


def _write(out: Path, model: Path, history: Path, asked: dict[str, Any], force: bool) -> None:
    """Write what was fetched; a run takes long, and something may be there by now."""
    try:
        write_model(out, model.read_bytes(), history.read_bytes(), force)
    except ValueError as error:
        raise RunError(
            f"the run is done, but its model is not written: {error}. To fetch it then: "
            f"pdmm federate resume {asked['run']} --kit ... --out ..."
        ) from None


def check_weights(weights: Mapping[str, float] | None, sites: Sequence[str]) -> None:
    """Refuse weights that are for other sites than those of a run."""
    if weights is None or set(weights) == set(sites):
        return
    raise ValueError(
        f"weights are for {', '.join(sorted(weights))}, but the sites are "
        f"{', '.join(sorted(sites))}: each of these needs one"
    )
