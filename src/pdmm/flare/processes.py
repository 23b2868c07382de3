"""A whole federation on this machine, each node a process of its own: for demonstrations and tests.

Every process that it starts carries a mark, by which alone it is found and ended. If the process
that holds the federation is killed, a caretaker takes everything down.
"""

import logging
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from pdmm.common.threads import available
from pdmm.flare.admin import Admin
from pdmm.flare.caretaker import Caretaker
from pdmm.flare.kits import Kits, prepare_server, prepare_site, provision
from pdmm.flare.marked import MARK, end, marked, send
from pdmm.flare.node import WAIT, Node, last_lines
from pdmm.flare.site_data import SiteData
from pdmm.privacy.policy import Policy

log = logging.getLogger(__name__)

SERVER = "server"
CONSOLE = "console.txt"  # in each kit: all that the node has printed
LOOK = 0.05  # seconds between two looks at a log
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
HEARTBEAT = 2.0  # seconds between two signs of life of a site


class LocalFederation:
    """A server and sites on this machine, over mutually authenticated TLS on 127.0.0.1.

    A context manager: on leaving it, every process is ended, and the folder is removed if it is
    temporary. The same is done if this process is killed.

    Args:
        sites: their names.
        data: what a site has, one for all sites or one for each: a table, or a problem, which as a
            text is `module:function` or `/folder/file.py:function`.
        folder: where everything lies; a temporary one is made, if it is not given.
        timeout: seconds for a node to start.
        temporary: whether a folder that is given is removed too.
        policy: of all sites, or its file; the default one, if not given.
    """

    def __init__(
        self,
        sites: Sequence[str],
        data: str | SiteData | Mapping[str, str | SiteData],
        folder: Path | None = None,
        timeout: float = 60.0,
        temporary: bool = False,
        policy: Path | Policy | None = None,
    ) -> None:
        self.sites = list(sites)
        each = data if isinstance(data, Mapping) else dict.fromkeys(sites, data)
        self.data = {site: each[site] for site in sites}
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
            for site, own in self.data.items():
                prepare_site(self.kits.sites[site], own, self.policy)
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
        return last_lines(self._kit(name) / CONSOLE, lines)

    def _kit(self, name: str) -> Path:
        if name != SERVER and name not in self.sites:
            raise ValueError(f"name={name!r}: must be {SERVER!r} or one of {self.sites}")
        return self.kits.server if name == SERVER else self.kits.sites[name]

    def _launch(self, name: str) -> int:
        """Start a node's process; returns where in its log the new process begins."""
        kit = self._kit(name)
        if name in self._nodes and self._nodes[name].poll() is None:
            raise RuntimeError(f"{name} runs already")
        options = () if name == SERVER else (f"heart_beat_interval={HEARTBEAT}",)
        environment = {
            MARK: f"{self._mark}/{name}",
            "TMPDIR": str((self.folder / "tmp").resolve()),
            # a site that died has nothing more to say here
            WAIT[0]: "5",
            **self._share_of_the_cores(),
        }
        node = Node.of_kit(kit)
        process, offset = node.launch(kit / CONSOLE, self._mark, environment, options)
        self._nodes[name] = process
        log.info("started %s as process %d in %s", name, process.pid, kit)
        return offset

    def _share_of_the_cores(self) -> dict[str, str]:
        """How many threads each node may have, for all of them are on this machine."""
        share = str(max(1, available() // len(self.sites)))
        return {name: os.environ.get(name, share) for name in THREADS}

    def _wait_until_ready(self, name: str, offset: int) -> None:
        node, end = Node.of_kit(self._kit(name)), time.monotonic() + self.timeout
        while not node.is_ready(node.kit / CONSOLE, offset):
            if self._nodes[name].poll() is not None:
                raise RuntimeError(f"{name} ended as it started: {self._why(name)}")
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{name} was not ready within {self.timeout:g} seconds: {self._why(name)}"
                )
            time.sleep(LOOK)
        log.info("%s is ready", name)

    def _why(self, name: str) -> str:
        """What a node has said last, and where the rest is."""
        said = self.log(name, lines=1)
        if self._temporary:
            return said
        return f"{said} (see {self._kit(name) / CONSOLE})"

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
