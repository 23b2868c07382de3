"""Kits: what preparing one closes, and what `pdmm federate check` says of each door."""

import json
import shutil
import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nvflare.apis.fl_exception import UnsafeComponentError
from nvflare.apis.workspace import Workspace
from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
from typer.testing import CliRunner

from builders import federation_problem as fp
from pdmm.cli.app import app
from pdmm.flare import checking, kits
from pdmm.flare.job import site_config

pytestmark = [pytest.mark.flare]
cli = CliRunner()
Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> kits.Kits:
    folder = tmp_path_factory.mktemp("kits")
    found = kits.provision(folder, ["ana", "ben"])
    kits.prepare_site(found.sites["ana"], fp.write(folder, 0))
    kits.prepare_server(found.server)
    return found


@pytest.fixture
def site(made: kits.Kits, tmp_path: Path) -> Path:
    """The prepared kit of a site, with a problem of its own."""
    kit = Path(shutil.copytree(made.sites["ana"], tmp_path / "ana"))
    kits.prepare_site(kit, fp.write(tmp_path, 0))
    return kit


@pytest.fixture
def server(made: kits.Kits, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.server, tmp_path / "server"))


def edited(name: str, change: Callable[[Any], object]) -> Change:
    """Change a setting of a kit."""

    def edit(kit: Path) -> None:
        path = kit / name
        contents = json.loads(path.read_text())
        change(contents)
        path.write_text(json.dumps(contents))

    return edit


def resources(change: Callable[[Any], object]) -> Change:
    return edited("local/resources.json", change)


def granted(right: str) -> Change:
    return edited(
        "local/authorization.json", lambda c: c["permissions"]["lead"].update({right: "any"})
    )


def mode(name: str, bits: int) -> Change:
    return lambda kit: (kit / name).chmod(bits)


def added(name: str, text: str = "{}") -> Change:
    def add(kit: Path) -> None:
        path = kit / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    return add


def another_root(kit: Path) -> None:
    other = kits.provision(kit.parent / "other", ["ana"]).server / "startup" / "rootCA.pem"
    shutil.copy(other, kit / "startup" / "rootCA.pem")


def forged(kit: Path) -> None:
    """Signed by somebody, but not by the root."""
    signature = json.dumps({"rootCA.pem": b64encode(b"forged").decode()})
    (kit / "startup" / "signature.json").write_text(signature)


LOGS = "nvflare.app_common.logging.site_log_streamer.SiteLogStreamer"
OPENED: dict[str, Change] = {
    "certificate": another_root,
    "files signed by the root": forged,
    "private key": mode("startup/client.key", 0o640),
    "who can change the kit": mode("local/resources.json", 0o666),
    "classes that a job may name": resources(lambda c: c["class_allow_list"].append("nvflare.")),
    "class list is enforced": resources(lambda c: c.update(class_list_enforcement_mode="warn")),
    "signed jobs": edited("startup/fed_client.json", lambda c: c.pop("require_signed_jobs")),
    "no code of its own": lambda kit: (kit / "local" / "custom").mkdir(),
    "no further settings": added("local/more__resources.json"),
    "guard": resources(lambda c: c["components"].pop(0)),
    "other components": resources(lambda c: c["components"].append({"path": "a.B", "id": "b"})),
    **{f"right {right}": granted(right) for right in kits.SITE_REFUSES},
    "log streaming": resources(lambda c: c.update(allow_log_streaming=True)),
    "sending of errors": resources(lambda c: c["components"].append({"path": LOGS, "id": "l"})),
    "who names the data": mode("local/pdmm.json", 0o620),
    "who can change the data": lambda kit: (kit.parent / "site0.py").chmod(0o602),
    "policy": added("local/policy.toml", "not = = toml"),
    "errors of the site": mode("pdmm", 0o750),
}
OPENED_SERVER: dict[str, Change] = {
    **{name: OPENED[name] for name in OPENED if name in {door.name for door in checking.SERVER}},
    "private key": mode("startup/server.key", 0o604),
    "signed jobs": edited("startup/fed_server.json", lambda c: c.update(require_signed_jobs=False)),
    "checkpoints": mode("pdmm", 0o755),
}


def open_doors(kit: Path) -> list[str]:
    return [item.name for item in checking.look(kit) if not item.closed]


def test_every_door_has_a_test() -> None:
    assert list(OPENED) == [door.name for door in checking.SITE]
    assert set(OPENED_SERVER) == {door.name for door in checking.SERVER}


@pytest.mark.parametrize("door", OPENED)
def test_a_door_of_a_site_that_is_opened_is_named(site: Path, door: str) -> None:
    assert open_doors(site) == []
    OPENED[door](site)
    assert open_doors(site) == [door]


@pytest.mark.parametrize("door", OPENED_SERVER)
def test_a_door_of_a_server_that_is_opened_is_named(server: Path, door: str) -> None:
    assert open_doors(server) == []
    OPENED_SERVER[door](server)
    assert open_doors(server) == [door]


@pytest.mark.parametrize(
    ("door", "change"),
    [
        (
            "certificate",
            lambda kit: shutil.copy(kit / "startup/rootCA.pem", kit / "startup/client.crt"),
        ),
        ("private key", lambda kit: (kit / "startup/client.key").chmod(0o644)),
        ("guard", resources(lambda c: c["components"][0].update(args={"others": [{}]}))),
        ("classes that a job may name", resources(lambda c: c.pop("class_allow_list"))),
        (
            "policy",
            lambda kit: (
                added("local/policy.toml", "")(kit),
                mode("local/policy.toml", 0o666)(kit),
            ),
        ),
        ("errors of the site", lambda kit: shutil.rmtree(kit / "pdmm")),
        (
            "errors of the site",
            lambda kit: (added("pdmm/errors.log")(kit), mode("pdmm/errors.log", 0o644)(kit)),
        ),
        ("who can change the data", lambda kit: (kit.parent / "site0.py").unlink()),
        ("who can change the data", lambda kit: kit.parent.chmod(0o777)),
    ],
)
def test_other_ways_to_open_a_door(site: Path, door: str, change: Change) -> None:
    change(site)
    assert door in open_doors(site)


def test_code_beside_the_kit_is_named(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "SHARED_CODE", tmp_path)
    assert open_doors(site) == ["no code of its own"]


def test_the_command_prints_what_an_operator_signs(site: Path, made: kits.Kits) -> None:
    done = cli.invoke(app, ["federate", "check", "--kit", str(site)])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert len([line for line in lines if line.startswith("closed")]) == len(checking.SITE)
    assert f"{len(checking.SITE)} doors, 0 of them open" in done.output
    OPENED["log streaming"](site)
    done = cli.invoke(app, ["federate", "check", "--kit", str(site)])
    assert done.exit_code == 1
    assert "OPEN    log streaming: allow_log_streaming is true" in done.output
    assert "prepare the kit again: pdmm federate site" in done.output
    assert cli.invoke(app, ["federate", "check", "--kit", str(made.server)]).exit_code == 0
    done = cli.invoke(app, ["federate", "check", "--kit", str(made.admin)])
    assert done.exit_code == 1
    assert "is not the start-up kit of a site or of a server" in " ".join(done.output.split())


def test_a_kit_as_flare_makes_it_is_open(made: kits.Kits) -> None:
    found = open_doors(made.sites["ben"])
    assert {"guard", "right shell_commands", "log streaming", "errors of the site"} <= set(found)


# --- preparing ----------------------------------------------------------------------------------


def test_what_an_operator_added_is_removed_and_named(site: Path, tmp_path: Path) -> None:
    problem = fp.write(tmp_path, 0)
    assert kits.prepare_site(site, problem) == []
    resources(lambda c: c["class_allow_list"].extend(["hospital.Own", "nvflare."]))(site)
    resources(lambda c: c["components"].append({"path": LOGS, "id": "mine"}))(site)
    resources(lambda c: c["components"].append({"path": "hospital.Part", "id": "part"}))(site)
    done = cli.invoke(app, ["federate", "site", "--kit", str(site), "--problem", problem])
    assert (
        f"removed, though not from FLARE's defaults: hospital.Own, nvflare., {LOGS}" in done.output
    )
    # what is no door of the server's stays, and is said
    assert open_doors(site) == ["other components"]
    assert kits.prepare_site(site, problem) == []


def test_a_job_may_name_two_classes(site: Path) -> None:
    """Asked of FLARE's own authorizer, which reads the kit."""
    config = site_config()
    ours = [config["executors"][0]["executor"], config["components"][0]]
    authorizer = ComponentPathAuthorizer()
    workspace = Workspace(str(site), "ana")
    for component in ours:
        authorizer.authorize_component_config(component, workspace=workspace)
    for path in (
        "pdmm.flare.collab.Server",
        "nvflare.app_common.executors.statistics.statistics_executor.StatisticsExecutor",
        "nvflare.app_common.logging.job_log_streamer.JobLogStreamer",
        "subprocess.Popen",
    ):
        with pytest.raises(UnsafeComponentError, match="not in allow_list"):
            authorizer.authorize_component_config({"path": path, "args": {}}, workspace=workspace)


def test_a_kit_that_is_signed_is_not_changed(site: Path, tmp_path: Path) -> None:
    """FLARE would not start with it."""
    problem = fp.write(tmp_path, 0)
    OPENED["signed jobs"](site)
    assert kits.prepare_site(site, problem) == []
    assert open_doors(site) == []
    OPENED["signed jobs"](site)
    (site / "startup" / "signature.json").write_text("{}")
    with pytest.raises(ValueError, match="require_signed_jobs: true"):
        kits.prepare_site(site, problem)


@pytest.mark.slow
def test_a_site_whose_guard_fails_does_not_start(site: Path) -> None:
    """A real process of FLARE: it ends before it connects to anyone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.0)
        port = server.getsockname()[1]
        edited(
            "startup/fed_client.json",
            lambda c: c["servers"][0]["service"].update(target=f"localhost:{port}"),
        )(site)
        resources(lambda c: c["components"][0].update(path="pdmm.flare.guard.Absent"))(site)
        module = "nvflare.private.fed.app.client.client_train"
        settings = ["secure_train=true", "org=pdmm", "config_folder=config", "uid=ana"]
        done = subprocess.run(
            [sys.executable, "-m", module, "-m", site, "-s", "fed_client.json", "--set", *settings],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "has no attribute 'Absent'" in done.stdout + done.stderr
        with pytest.raises(BlockingIOError):
            server.accept()
