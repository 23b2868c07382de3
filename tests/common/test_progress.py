"""A progress bar that is not wanted, or whose library is missing."""

import sys

import pytest

from pdmm.common.progress import progress_bar


def test_without_a_bar_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("PDMM", 3, show=False) as advance:
        advance(1)
    assert capsys.readouterr().out == ""


def test_a_bar_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with (
        pytest.raises(ImportError, match=r"progress=True needs rich: pip install 'pdmm\[cli\]'"),
        progress_bar("PDMM", 3, show=True),
    ):
        pass
