"""One node, a site or a server: how its process is launched from its kit, and when it is ready."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pdmm.flare.kit_certificates import holder
from pdmm.flare.kit_files import read_json
from pdmm.flare.marked import MARK

Kind = Literal["server", "client"]
KINDS: dict[str, Kind] = {"fed_client.json": "client", "fed_server.json": "server"}
READY: dict[Kind, str] = {
    "server": "Server started",
    "client": "Successfully registered client",
}
# Seconds that the end of a job waits for the last word of a site that may be dead; FLARE would
# wait for 15 minutes.
WAIT = ("NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT", "30")


@dataclass(frozen=True)
class Node:
    """A site or a server, as its start-up kit describes it."""

    kit: Path
    kind: Kind
    name: str
    """The one in its certificate."""
    organisation: str
    host: str
    """Of the server."""
    port: int

    @classmethod
    def of_kit(cls, kit: Path) -> Self:
        """The node whose start-up kit this is."""
        startup = Path(kit).resolve() / "startup"
        for file, kind in KINDS.items():
            if not (startup / file).is_file():
                continue
            target = read_json(startup / file)["servers"][0]["service"]["target"]
            host, _, port = target.rpartition(":")
            name, organisation = holder(startup / f"{kind}.crt")
            return cls(startup.parent, kind, name, organisation, host, int(port))
        raise ValueError(
            f"kit={str(kit)!r} is not the start-up kit of a site or of a server: it must be a "
            "folder with startup/fed_client.json or startup/fed_server.json, as `nvflare "
            "provision` makes it"
        )

    @property
    def is_site(self) -> bool:
        """Whether it is a site, not a server."""
        return self.kind == "client"

    @property
    def server(self) -> str:
        """Where the server is."""
        return f"{self.host}:{self.port}"

    def command(self, options: Sequence[str] = ()) -> list[str]:
        """What runs the node, as FLARE's own start.sh has it, but without its loop."""
        words = ["secure_train=true", f"org={self.organisation}", "config_folder=config"]
        if self.is_site:
            words.append(f"uid={self.name}")
        module = f"nvflare.private.fed.app.{self.kind}.{self.kind}_train"
        return [
            *(sys.executable, "-u", "-m", module, "-m", str(self.kit)),
            *("-s", f"fed_{self.kind}.json", "--set", *words, *options),
        ]

    def launch(
        self,
        console: Path,
        mark: str,
        environment: Mapping[str, str],
        options: Sequence[str] = (),
    ) -> tuple[subprocess.Popen[bytes], int]:
        """Start the node's process, in a session of its own; it outlives the terminal.

        Args:
            console: the file for all that it prints, which only its owner may read.
            mark: by which its processes are found again.
            environment: what it has beside that of this process.
            options: further words for FLARE.

        Returns:
            The process, and where in the file its output begins.
        """
        (self.kit / "transfer").mkdir(exist_ok=True)
        name, seconds = WAIT
        inherited = {name: seconds, **os.environ}
        with open(console, "ab", opener=_private) as file:
            offset = file.tell()
            process = subprocess.Popen(
                self.command(options),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self.kit,
                env={**inherited, MARK: f"{mark}/{self.name}", **environment},
                # Ctrl-C at a terminal is not for the node, which is ended in order
                start_new_session=True,
            )
        return process, offset

    def is_ready(self, console: Path, offset: int) -> bool:
        """Whether a server listens, or a site has been let in by its server."""
        with open(console, "rb") as file:
            file.seek(offset)
            return READY[self.kind].encode() in file.read()


def _private(path: str, flags: int) -> int:
    # a link in its place would lead the text elsewhere
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def last_lines(console: Path, lines: int) -> str:
    """The end of what a node has printed."""
    if not console.is_file():
        return ""
    return "\n".join(console.read_text(errors="replace").splitlines()[-lines:])
