"""The caretaker: what is left when a federation's holder is killed, and what it leaves alone."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from pdmm.flare.caretaker import DONE, watch
from pdmm.flare.marked import MARK, marked


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """A process of each of two federations, by their marks."""
    monkeypatch.setattr("pdmm.flare.caretaker.QUIET", 0.0001)
    started = {}
    for _ in range(2):
        mark = uuid.uuid4().hex
        command = [sys.executable, "-c", "input()"]
        environment = {**os.environ, MARK: f"{mark}/ana"}
        started[mark] = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
    yield started
    for process in started.values():
        process.kill()
        process.communicate()


def test_it_ends_what_has_the_mark_and_nothing_else(
    nodes: dict[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    ours, others = nodes
    folder = tmp_path / "keys"
    folder.mkdir()
    (folder / "server.key").write_text("secret")
    assert [process.pid for process in marked(ours, "ana")] == [nodes[ours].pid]
    assert not marked(ours, "ben")
    watch(BytesIO(b""), ours, folder)
    assert not marked(ours)
    assert nodes[ours].poll() is not None
    assert [process.pid for process in marked(others)] == [nodes[others].pid]
    assert not folder.exists()


def test_it_does_nothing_if_all_is_done(
    nodes: dict[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    ours, _ = nodes
    watch(BytesIO(DONE), ours, tmp_path)
    assert marked(ours)
    assert tmp_path.exists()
