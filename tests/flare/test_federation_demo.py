"""The demonstration of a federation, as a user starts and stops it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from pdmm.cli.app import app

pytestmark = [pytest.mark.flare, pytest.mark.slow]


@pytest.mark.parametrize(
    ("number", "when"),
    [
        (signal.SIGINT, "all connected"),
        (signal.SIGTERM, "provisioning"),
        (signal.SIGKILL, "all connected"),
    ],
    ids=["ctrl-c", "term", "kill"],
)
def test_the_demonstration_leaves_nothing_behind(
    number: signal.Signals, when: str, tmp_path: Path
) -> None:
    """It has begun its processes when it is ended, and none is left, nor a private key."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "pdmm.cli", "federate", "demo", "--sites", "2"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        # A shell that runs the tests in the background has them ignore Ctrl-C, and their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if when in line:
                break
        process.send_signal(number)
        process.stdout.read()
        code = process.wait(30)
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    _wait_for_the_caretaker(tmp_path)
    assert not _of(tmp_path)
    assert not list(tmp_path.glob("pdmm-demo-*"))


def _wait_for_the_caretaker(folder: Path) -> None:
    end = time.monotonic() + 60
    while _of(folder) and time.monotonic() < end:
        time.sleep(0.1)


def _of(folder: Path) -> list[psutil.Process]:
    """The processes of a federation in a folder, with its caretaker."""
    return [p for p in psutil.process_iter() if str(folder) in " ".join(_words(p))]


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def test_the_demonstration() -> None:
    done = CliRunner().invoke(app, ["federate", "demo", "--sites", "2"])
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    found = re.search(r"in one place differs by ([0-9.e+-]+) of its largest entry", text)
    assert found is not None
    assert float(found[1]) <= 1e-9
    assert "certified after round" in text
