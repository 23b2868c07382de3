"""What an admin does with a federation: submit a run, follow it, fetch its result."""

import json
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

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

from pdmm.flare.collab import PROGRESS, RESULT
from pdmm.flare.job import write_job
from pdmm.flare.job_status import Status, judged, last_error, read_outcome, state_of

log = logging.getLogger(__name__)

TRIES = 2  # to sign in, before FLARE says that the server cannot be reached
PAUSE = 0.5  # seconds between two attempts to connect
STALE = 40.0  # seconds without a sign of life after which a site does not count as connected
T = TypeVar("T")


class AdminError(Exception):
    """The federation could not do what an admin asked for; the message says why."""


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
        said = json.loads(config.read_text(encoding="utf-8"))["admin"]
        self.user: str = said["username"]
        self.address = f"{said['host']}:{said['port']}"
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
        state = state_of(word)
        if state == "failed":
            return judged(word, self.outcome(job), meta)
        if state == "submitted":
            return Status(state, "; ".join((meta.get("schedule_history") or [])[-1:]))
        if state == "running" and self._lost(meta):
            return Status("failed", "the server was restarted while the job ran")
        return Status(state, word)

    def progress(self, job: str) -> dict[str, Any] | None:
        """How the run stands; None if it has not begun, or is over."""
        found, _ = self.news(job, None)
        return found

    def news(
        self, job: str, since: int | None
    ) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
        """How the run stands, if it is there to say so, and what it reported of each later round.

        Args:
            job: its number.
            since: the last round that is known; None, if rounds do not matter.
        """
        asked = {"since": since}
        try:
            reply = self._do(lambda s: s.do_app_command(job, PROGRESS, asked), again=False)
        except (JobNotRunning, JobNotFound, NoReply, InternalError):
            # also while the job's process starts or ends, when nobody answers for it
            return None, []
        return json.loads(reply["progress"]) or None, json.loads(reply.get("rounds") or "[]")

    def sites(self) -> list[str]:
        """The sites that are connected now."""
        now = time.time()
        return sorted(name for name, seen in self.seen().items() if now - seen < STALE)

    def seen(self) -> dict[str, float]:
        """When each site that the server knows was heard of last, in seconds since 1970."""
        clients = self._do(lambda session: session.get_connected_client_list())
        return {c.name: c.last_connect_time or time.time() for c in clients}

    def server(self) -> tuple[float | None, str]:
        """Since when the server has been up, and its version of FLARE."""
        info = self._do(lambda session: session.get_system_info()).server_info
        found = self._do(lambda session: session.report_version("server"))
        return info.start_time, str((found.get("server") or {}).get("version", "unknown"))

    def described(self, job: str) -> dict[str, Any]:
        """All that FLARE knows of a job."""
        found: dict[str, Any] = self._do(lambda session: session.get_job_meta(job))
        return found

    def sites_of(self, job: str) -> list[str]:
        """The sites that a job was made for."""
        return sorted((self.described(job).get("deploy_map") or {}).get("site", []))

    def submitter_of(self, job: str) -> str:
        """The user who submitted a job, as the server has verified it."""
        return str(self.described(job).get("submitter_name", ""))

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

    def outcome(self, job: str) -> dict[str, Any]:
        """What the result of a job says of how it went: nothing, if there is none."""
        try:
            with tempfile.TemporaryDirectory(prefix="pdmm-result-") as folder:
                found = self._downloaded(job, Path(folder))
                if found is None:
                    return {"failure": last_error(Path(folder))}
                return read_outcome(found)
        except (AdminError, OSError, ValueError):
            return {}

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


def _closed(session: Session) -> None:
    try:
        session.close()
    except Exception:
        # the connection may be gone; there is nothing left to end then
        return
