"""The commands ``pdmm federate ...``: kits that are prepared and refused, and what is asked for."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from builders import federation_problem as fp
from pdmm.cli.app import app
from pdmm.flare import kits
from pdmm.flare.admin import Admin, AdminError

cli = CliRunner()


def test_kits_are_prepared_and_refused(tmp_path: Path) -> None:
    made = kits.provision(tmp_path / "kits", ["ana"])
    site = made.sites["ana"]

    def prepare(*arguments: str) -> Any:
        return cli.invoke(app, ["federate", *arguments])

    good = fp.write(tmp_path, 0)
    done = prepare("site", "--kit", str(site), "--problem", good)
    assert done.exit_code == 0, done.output
    files = {path: path.read_bytes() for path in (site / "local").iterdir()}
    assert prepare("site", "--kit", str(site), "--problem", good).exit_code == 0
    assert files == {path: path.read_bytes() for path in (site / "local").iterdir()}
    resources = json.loads((site / "local" / "resources.json").read_text())
    assert "pdmm.flare.collab.Site" in resources["class_allow_list"]
    assert not any(name in ("pdmm.", "") for name in resources["class_allow_list"])
    assert prepare("server", "--kit", str(made.server)).exit_code == 0
    for problem, says in (
        ("no_colon", "must be module:function"),
        (f"{tmp_path}/none.py:problem", "there is no file"),
        (good.replace(":problem", ":absent"), "has no function 'absent'"),
        ("no.such.module:problem", "No module named"),
    ):
        done = prepare("site", "--kit", str(site), "--problem", problem)
        assert done.exit_code == 1
        assert says in " ".join(done.output.split())
    path = tmp_path / "data.py"
    path.write_text("def problem():\n    return {'name': 'Smith'}\n")
    done = prepare("site", "--kit", str(site), "--problem", f"{path}:problem")
    assert "must return a pdmm problem, and returns a dict" in " ".join(done.output.split())
    done = prepare("site", "--kit", str(made.admin), "--problem", good)
    assert "is not the start-up kit of a site" in " ".join(done.output.split())
    assert (site / "local" / "pdmm.json").read_bytes() == files[site / "local" / "pdmm.json"]


def test_text_is_printed_as_it_is(tmp_path: Path) -> None:
    """A colon on both sides of a letter is no emoji, and brackets are no markup."""
    folder = tmp_path / "[bold]data[/bold]"
    folder.mkdir(parents=True)
    written = fp.write(folder, 0)
    path = folder / "x.py"
    made = Path(written.rpartition(":")[0]).read_text()
    path.write_text(made.replace("def problem", "def a"))
    site = kits.provision(tmp_path / "kits", ["ana"]).sites["ana"]
    done = cli.invoke(app, ["federate", "site", "--kit", str(site), "--problem", f"{path}:a"])
    assert done.exit_code == 0, done.output
    assert f"its problem {path}:a; " in done.output
    gone = cli.invoke(app, ["federate", "site", "--kit", f"{tmp_path}/:b:", "--problem", "x:a"])
    assert gone.exit_code == 1
    assert "🅰" not in done.output + gone.output


@pytest.mark.slow
def test_what_is_asked_for_is_checked_before_it_travels(tmp_path: Path) -> None:
    kit = kits.provision(tmp_path / "kits", ["ana"]).admin
    out = str(tmp_path / "model.safetensors")

    def submit(*arguments: str) -> str:
        done = cli.invoke(
            app, ["federate", "submit", "--kit", str(kit), "--out", out, "--wait", "1", *arguments]
        )
        assert done.exit_code == 1
        return " ".join(done.output.split())

    assert "method must be one of auto, agpdmm" in submit("--method", "adam")
    assert "scaffold has no rho" in submit("--method", "scaffold", "--rho", "1")
    assert "--rho must be a number or auto, got 'big'" in submit("--rho", "big")
    assert "method auto takes no local_steps" in submit("--method", "auto", "--local-steps", "3")
    assert "--weights must be site=number" in submit("--weights", "ana")
    assert "absent must be" in submit("--absent", "dance")
    assert "give --l1 or --l2" in submit("--l1", "1", "--l2", "1")
    assert "the server cannot be reached" in submit()
    assert not Path(out).exists()
    with pytest.raises(ValueError, match="is not the start-up kit of an admin"):
        Admin(tmp_path)
    with pytest.raises(AdminError, match="cannot be reached"), Admin(kit, patience=1):
        pass


def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvflare", None)
    done = cli.invoke(app, ["federate", "demo"])
    assert done.exit_code == 1
    assert "pdmm federate needs NVIDIA FLARE: pip install 'pdmm[flare]'" in done.output
