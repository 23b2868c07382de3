"""The demonstration of a federation, as a user starts and stops it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from pdmm.cli.app import app

pytestmark = [pytest.mark.flare, pytest.mark.slow]


def test_the_demonstration_ends_cleanly_on_ctrl_c(tmp_path: Path) -> None:
    """It has begun its processes when it is interrupted, and none is left."""
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
            if "all connected" in line:
                break
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(30) == 130
    left = [p for p in psutil.process_iter() if str(tmp_path) in " ".join(_words(p))]
    assert not left
    assert not list(tmp_path.glob("pdmm-demo-*"))


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
