"""A whole federation on this machine, each node a process of its own: for demonstrations and tests.

Every process that it starts carries a mark, by which alone it is found and ended. If the process
that holds the federation is killed, a caretaker takes everything down.
"""

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from pdmm.flare.admin import Admin
from pdmm.flare.caretaker import Caretaker
from pdmm.flare.kits import (
    ORGANISATION,
    Kits,
    organisation_of,
    prepare_server,
    prepare_site,
    provision,
)
from pdmm.flare.marked import MARK, end, marked, send
from pdmm.privacy.policy import Policy

log = logging.getLogger(__name__)

SERVER = "server"
LOOK = 0.05  # seconds between two looks at a log
READY = {
    "server": "Server started",
    "client": "Successfully registered client",
}
HEARTBEAT = 2.0  # seconds between two signs of life of a site


class LocalFederation:
    """A server and sites on this machine, over mutually authenticated TLS on 127.0.0.1.

    A context manager: on leaving it, every process is ended, and the folder is removed if it is
    temporary. The same is done if this process is killed.

    Args:
        sites: their names.
        problem: `module:function` or `/folder/file.py:function`, one for all sites or one for each.
        folder: where everything lies; a temporary one is made, if it is not given.
        timeout: seconds for a node to start.
        temporary: whether a folder that is given is removed too.
        policy: of all sites, or its file; the default one, if not given.
    """

    def __init__(
        self,
        sites: Sequence[str],
        problem: str | Mapping[str, str],
        folder: Path | None = None,
        timeout: float = 60.0,
        temporary: bool = False,
        policy: Path | Policy | None = None,
    ) -> None:
        self.sites = list(sites)
        if isinstance(problem, str):
            problem = dict.fromkeys(sites, problem)
        self.problems = {site: problem[site] for site in sites}
        self.timeout = timeout
        self.policy = policy
        self._given = folder
        self._temporary = temporary or folder is None
        self._caretaker: Caretaker | None = None
        self._mark = uuid.uuid4().hex
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.folder: Path
        self.kits: Kits

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Make and prepare the kits, start all nodes, and wait until all sites are connected."""
        self.folder = self._given or Path(tempfile.mkdtemp(prefix="pdmm-federation-"))
        try:
            # before the first private key is made
            self._caretaker = Caretaker(self._mark, self.folder if self._temporary else None)
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "tmp").mkdir(exist_ok=True)
            self.kits = provision(self.folder / "kits", self.sites)
            prepare_server(self.kits.server)
            for site, problem in self.problems.items():
                prepare_site(self.kits.sites[site], problem, self.policy)
            # the server first: a site that finds none waits a second before it tries again
            self.start_server()
            offsets = {site: self._launch(site) for site in self.sites}
            for site, offset in offsets.items():
                self._wait_until_ready(site, offset)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process of the federation, and remove its folder if it is temporary."""
        caretaker, self._caretaker = self._caretaker, None
        try:
            self._take_down()
        except BaseException:
            if caretaker is not None:
                caretaker.alarm()
            raise
        if caretaker is not None:
            caretaker.dismiss()

    def _take_down(self) -> None:
        found = self._processes()
        log.info("ending %d processes of the federation", len(found))
        end(found)
        # again, for what a process started while it was being ended
        end(self._processes())
        for node in self._nodes.values():
            node.wait()
        self._nodes.clear()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def admin(self, patience: float = 10.0) -> Admin:
        """A session with the server, to be used as a context manager."""
        return Admin(self.kits.admin, patience)

    def start_server(self) -> None:
        """Start the server, and wait until it listens."""
        self._wait_until_ready(SERVER, self._launch(SERVER))

    def start_site(self, name: str) -> None:
        """Start a site, and wait until it is connected."""
        self._wait_until_ready(name, self._launch(name))

    def kill_server(self) -> None:
        """Kill the server and its jobs, as if the machine lost power."""
        self._kill(SERVER)

    def kill_site(self, name: str) -> None:
        """Kill a site and its jobs, as if the machine lost power."""
        self._kill(name)

    def job_process(self, name: str) -> int:
        """The number of the process that runs the node's job (the newest, if there are several)."""
        kind = "runner_process" if name == SERVER else "worker_process"
        found = [p for p in self._processes(name) if any(kind in word for word in _command(p))]
        if not found:
            raise LookupError(f"{name} runs no job at the moment")
        newest: int = max(found, key=lambda process: process.create_time()).pid
        return newest

    def freeze(self, name: str) -> None:
        """Stop a node and its jobs where they are, as if the machine slept."""
        send(self._processes(name), signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Let a frozen node go on."""
        send(self._processes(name), signal.SIGCONT)

    def log(self, name: str, lines: int = 20) -> str:
        """The end of what a node has printed."""
        path = self._kit(name) / "console.txt"
        if not path.is_file():
            return ""
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])

    def _kit(self, name: str) -> Path:
        if name != SERVER and name not in self.sites:
            raise ValueError(f"name={name!r}: must be {SERVER!r} or one of {self.sites}")
        return self.kits.server if name == SERVER else self.kits.sites[name]

    def _launch(self, name: str) -> int:
        """Start a node's process; returns where in its log the new process begins."""
        kit = self._kit(name)
        if name in self._nodes and self._nodes[name].poll() is None:
            raise RuntimeError(f"{name} runs already")
        (kit / "transfer").mkdir(exist_ok=True)
        kind = "server" if name == SERVER else "client"
        owner = ORGANISATION if name == SERVER else organisation_of(name)
        words = ["secure_train=true", f"org={owner}", "config_folder=config"]
        if kind == "client":
            words += [f"uid={name}", f"heart_beat_interval={HEARTBEAT}"]
        module = f"nvflare.private.fed.app.{kind}.{kind}_train"
        command = [sys.executable, "-u", "-m", module, "-m", str(kit.resolve())]
        environment = {
            **os.environ,
            MARK: f"{self._mark}/{name}",
            "TMPDIR": str((self.folder / "tmp").resolve()),
            # seconds that a finished job waits for the last word of a site that may be dead
            "NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": "5",
        }
        with open(kit / "console.txt", "ab") as console:
            offset = console.tell()
            self._nodes[name] = subprocess.Popen(
                [*command, "-s", f"fed_{kind}.json", "--set", *words],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                cwd=kit,
                env=environment,
                # Ctrl-C at a terminal is for us: the nodes are ended in order, by stop
                start_new_session=True,
            )
        log.info("started %s as process %d in %s", name, self._nodes[name].pid, kit)
        return offset

    def _wait_until_ready(self, name: str, offset: int) -> None:
        words = READY["server" if name == SERVER else "client"].encode()
        path = self._kit(name) / "console.txt"
        end = time.monotonic() + self.timeout
        while True:
            with open(path, "rb") as console:
                console.seek(offset)
                if words in console.read():
                    log.info("%s is ready", name)
                    return
            if self._nodes[name].poll() is not None:
                raise RuntimeError(f"{name} ended as it started:\n{self.log(name)}")
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{name} was not ready within {self.timeout:g} seconds:\n{self.log(name)}"
                )
            time.sleep(LOOK)

    def _kill(self, name: str) -> None:
        self._kit(name)
        log.info("killing %s and its jobs", name)
        send(self._processes(name), signal.SIGKILL)
        # while dead and not yet waited for, its jobs would take it to be alive
        if name in self._nodes:
            self._nodes.pop(name).wait()
        send(self._processes(name), signal.SIGKILL)

    def _processes(self, name: str | None = None) -> list[psutil.Process]:
        """The living processes of a node and of its jobs, or of all nodes."""
        return marked(self._mark, name)


def _command(process: psutil.Process) -> list[str]:
    try:
        words: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return words
