"""What an admin does with a federation: submit a run, follow it, fetch its result."""

import json
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from nvflare.fuel.flare_api.api_spec import (
    AuthenticationError,
    AuthorizationError,
    InternalError,
    JobNotFound,
    JobNotRunning,
    NoConnection,
    NoReply,
    SessionClosed,
)
from nvflare.fuel.flare_api.flare_api import Session

from pdmm.flare.collab import OUTCOME, PROGRESS, RESULT
from pdmm.flare.job import write_job

log = logging.getLogger(__name__)

State = Literal["submitted", "running", "finished", "failed", "aborted", "unknown"]
STATES: dict[str, State] = {
    "SUBMITTED": "submitted",
    "APPROVED": "submitted",
    "DISPATCHED": "submitted",
    "RUNNING": "running",
    "FINISHED:COMPLETED": "finished",
    "FINISHED:ABORTED": "aborted",
}
CANNOT_RUN = ("FINISHED:FAILED_TO_RUN", "FINISHED:CAN_NOT")  # refused, or never begun
TRIES = 2  # to sign in, before FLARE says that the server cannot be reached
PAUSE = 0.5  # seconds between two attempts to connect
STALE = 40.0  # seconds without a sign of life after which a site does not count as connected
T = TypeVar("T")


class AdminError(Exception):
    """The federation could not do what an admin asked for; the message says why."""


@dataclass(frozen=True)
class Status:
    """How a job stands: one word, and what FLARE and the run say of it."""

    state: State
    detail: str = ""
    final: bool = False
    """Whether it failed for a reason that trying again does not remove."""
    unanswered: tuple[str, ...] = ()
    """Sites that had been asked, and had not answered, when FLARE ended the job."""
    round: int | None = None
    """How many rounds were done then."""
    checkpoint: bool | None = None
    """Whether the run has a checkpoint to go on from; None where nobody has said so."""

    @property
    def over(self) -> bool:
        """Whether the job has ended, well or not."""
        return self.state in ("finished", "failed", "aborted")


class Admin:
    """A session with the server of a federation, by an admin's start-up kit.

    A context manager. If the server goes away, every call tries for `patience` seconds to connect
    again.
    """

    def __init__(self, kit: Path, patience: float = 10.0) -> None:
        config = Path(kit) / "startup" / "fed_admin.json"
        if not config.is_file():
            raise ValueError(
                f"kit={str(kit)!r} is not the start-up kit of an admin: it must be a folder with "
                "startup/fed_admin.json, as `nvflare provision` makes it"
            )
        self._kit = Path(kit).resolve()
        self.user: str = json.loads(config.read_text(encoding="utf-8"))["admin"]["username"]
        self._patience = patience
        self._session: Session | None = None
        # what matters of FLARE's log comes back as an error; without a handler it goes to stderr
        logging.getLogger("nvflare").addHandler(logging.NullHandler())

    def __enter__(self) -> Self:
        self._do(lambda session: None)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the session; a server that has gone is no obstacle."""
        session = self._session
        self._session = None
        if session is not None:
            _closed(session)

    def submit(
        self,
        settings: dict[str, Any],
        name: str = "pdmm",
        sites: Sequence[str] | None = None,
    ) -> str:
        """Submit a run, and return the id of its job.

        It takes the given sites, or those that are connected now, and begins when all are there.
        """
        chosen = list(sites) if sites is not None else self.sites()
        if not chosen:
            raise AdminError("no site is connected: there is nobody to run the job")
        with tempfile.TemporaryDirectory(prefix="pdmm-job-") as folder:
            job = write_job(Path(folder) / name, settings, name, chosen)
            submitted: str = self._do(lambda session: session.submit_job(str(job)))
        log.info("submitted the run %s as job %s to %s", name, submitted, ", ".join(chosen))
        return submitted

    def status(self, job: str) -> Status:
        """How the job stands."""
        try:
            meta = self._do(lambda session: session.get_job_meta(job))
        except JobNotFound:
            return Status("unknown", f"the server knows no job {job}")
        word = str(meta.get("status", ""))
        state = STATES.get(word, "failed" if word.startswith("FINISHED") else "unknown")
        if state == "failed":
            return self._judged(job, word, meta)
        if state == "submitted":
            return Status(state, "; ".join((meta.get("schedule_history") or [])[-1:]))
        if state == "running" and self._lost(meta):
            return Status("failed", "the server was restarted while the job ran")
        return Status(state, word)

    def progress(self, job: str) -> dict[str, Any] | None:
        """What the run reported last; None if it has not begun, or is over."""
        try:
            reply = self._do(lambda session: session.do_app_command(job, PROGRESS, {}), again=False)
        except (JobNotRunning, JobNotFound, NoReply, InternalError):
            # also while the job's process starts or ends, when nobody answers for it
            return None
        found: dict[str, Any] = json.loads(reply["progress"])
        return found or None

    def sites(self) -> list[str]:
        """The sites that are connected now."""
        clients = self._do(lambda session: session.get_connected_client_list())
        now = time.time()
        return sorted(c.name for c in clients if now - (c.last_connect_time or now) < STALE)

    def sites_of(self, job: str) -> list[str]:
        """The sites that a job was made for."""
        meta = self._do(lambda session: session.get_job_meta(job))
        return sorted((meta.get("deploy_map") or {}).get("site", []))

    def submitter_of(self, job: str) -> str:
        """The user who submitted a job, as the server has verified it."""
        meta = self._do(lambda session: session.get_job_meta(job))
        return str(meta.get("submitter_name", ""))

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs that the server knows, as FLARE describes them."""
        found: list[dict[str, Any]] = self._do(lambda session: session.list_jobs())
        return found

    def abort(self, job: str) -> None:
        """End a job that runs or waits."""
        try:
            self._do(lambda session: session.abort_job(job))
        except JobNotRunning as error:
            raise AdminError(f"job {job} does not run: there is nothing to abort") from error

    def result(self, job: str, out: Path) -> list[Path]:
        """Download what the run wrote, into the folder `out`; returns its files."""
        with tempfile.TemporaryDirectory(prefix="pdmm-result-") as folder:
            found = self._downloaded(job, Path(folder))
            if found is None:
                raise AdminError(f"job {job} left no result: {self.status(job).detail}")
            out.mkdir(parents=True, exist_ok=True)
            shutil.copytree(found, out, dirs_exist_ok=True)
            return sorted(out / path.relative_to(found) for path in found.rglob("*.*"))

    def _downloaded(self, job: str, folder: Path) -> Path | None:
        place = self._do(lambda session: session.download_job_result(job, str(folder)))
        found = Path(place or folder) / "workspace" / RESULT
        return found if found.is_dir() else None

    def _judged(self, job: str, word: str, meta: dict[str, Any]) -> Status:
        """A job that FLARE counts as failed: what the run itself says of it, else FLARE."""
        try:
            with tempfile.TemporaryDirectory(prefix="pdmm-result-") as folder:
                found = self._downloaded(job, Path(folder))
                if found is not None:
                    outcome = json.loads((found / OUTCOME).read_text(encoding="utf-8"))
                else:
                    outcome = {"failure": _last_error(Path(folder))}
        except (AdminError, OSError, ValueError):
            outcome = {}
        if outcome.get("finished"):
            # FLARE's view when a site was lost on the way, though the run came to its end
            return Status("finished", f"the run came to its end; some site did not ({word})")
        final = bool(outcome.get("final")) or word.startswith(CANNOT_RUN)
        if outcome.get("failure"):
            return Status(
                "failed",
                outcome["failure"],
                final,
                unanswered=tuple(outcome.get("unanswered") or ()),
                round=outcome.get("round"),
                checkpoint=outcome.get("checkpoint"),
            )
        notes = [*(meta.get("job_deploy_detail") or []), *(meta.get("schedule_history") or [])]
        bad = [note for note in notes if not note.endswith((": OK", ": scheduled"))]
        why = "; ".join(bad) or "see the logs of the server and sites"
        return Status("failed", f"{word}: {why}", final)

    def _lost(self, meta: dict[str, Any]) -> bool:
        """Whether the job began at a server that is no more; FLARE takes it to run for ever."""
        server = self._do(lambda session: session.get_system_info()).server_info
        began = meta.get("last_schedule_time")
        return bool(began and server.start_time and began < server.start_time)

    def _do(self, action: Callable[[Session], T], again: bool = True) -> T:
        """Do something in a session that works, connecting again if need be.

        A server that has just started, or has much to do, may also give no answer, or an odd one:
        then it is asked again too, unless ``again`` says that this tells enough.
        """
        end = time.monotonic() + self._patience
        while True:
            try:
                if self._session is None:
                    self._session = self._connected(max(1.0, end - time.monotonic()))
                return action(self._session)
            except (NoConnection, SessionClosed) as error:
                self.close()
                if time.monotonic() > end:
                    raise AdminError(f"the server cannot be reached: {error}") from error
                log.debug("the server cannot be reached, trying again: %s", error)
                time.sleep(PAUSE)
            except (InternalError, NoReply) as error:
                if not again:
                    raise
                if time.monotonic() > end:
                    raise AdminError(f"the server gives no proper answer: {error}") from error
                time.sleep(PAUSE)
            except (AuthenticationError, AuthorizationError) as error:
                raise AdminError(f"the server refused: {error}") from error

    def _connected(self, timeout: float) -> Session:
        session = Session(username=self.user, startup_path=str(self._kit))
        session.api.auto_login_max_tries = TRIES
        # FLARE prints that it connects, where a command's own output belongs. Other threads may
        # print meanwhile: so the FLARE session is silenced, and not sys.stdout.
        session.api._print_hci = log.debug
        try:
            session.try_connect(min(timeout, 5.0))
        except Exception:
            # not after Ctrl-C: of a session that is half made FLARE would print an error
            _closed(session)
            raise
        return session


def _last_error(folder: Path) -> str:
    """The last line of the server's error log of a job that did not get as far as to run."""
    lines = [
        line.strip()
        for path in sorted(folder.rglob("error_log.txt"))
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
    ]
    return next((line for line in reversed(lines) if line), "")


def _closed(session: Session) -> None:
    try:
        session.close()
    except Exception:
        # the connection may be gone; there is nothing left to end then
        return
