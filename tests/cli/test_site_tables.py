"""``pdmm federate site --table``, ``audit``, ``stop``: what operators and researchers read."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from builders.study import FakeTables, hospitals, silos
from pdmm.cli.app import app
from pdmm.engines import Policy
from pdmm.engines.sites.roster import SiteRefusedError
from pdmm.flare import kits, stopping
from pdmm.flare.job_status import Status
from pdmm.flare.site_kit import held_by
from pdmm.study import TableSite, fit

TABLES = silos(hospitals(rows=300), "site")
COLUMNS = "died,age,sex,ward,stage"


def call(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["federate", *(str(word) for word in words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kit that is prepared for a table."""
    folder = tmp_path_factory.mktemp("federation")
    path = kits.provision(folder / "kits", ["h0"]).sites["h0"]
    TABLES["h0"].to_csv(folder / "patients.csv", index=False)
    code, said = call(
        "site", "--kit", path, "--table", folder / "patients.csv", "--columns", COLUMNS
    )
    assert code == 0, said
    return path


def table_of(kit: Path) -> Path:
    return kit.parents[len(kit.parts) - 1 - kit.parts.index("kits")] / "patients.csv"


def files_of(kit: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in kit.rglob("*") if path.is_file()}


def test_a_dry_run_writes_nothing(kit: Path) -> None:
    before = files_of(kit)
    words = ("site", "--kit", kit, "--table", table_of(kit), "--columns", COLUMNS, "--dry-run")
    code, said = call(*words)
    assert code == 0, said
    assert said.rstrip().endswith("Nothing was written.")
    assert "fits are about 300 rows" in said
    assert files_of(kit) == before


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        (None, COLUMNS, "there is no file"),
        ("", COLUMNS, "cannot be read"),
        ("died,age\n1,2\n", "died,bmi", "no column 'bmi', which --columns names"),
        ("died,age,age\n1,2,3\n", "died,age", "two columns 'age'"),
        ("died,age\n", "died,age", "has no rows"),
    ],
)
def test_the_operator_reads_what_is_wrong_with_the_file(
    text: str | None, columns: str, said: str, kit: Path, tmp_path: Path
) -> None:
    before = files_of(kit)
    path = tmp_path / "odd.csv"
    if text is not None:
        path.write_text(text)
    code, output = call("site", "--kit", kit, "--table", path, "--columns", columns)
    assert code == 1
    assert said in " ".join(output.split())
    assert files_of(kit) == before


class WithKit(FakeTables):
    """Sites in this process, of which one keeps its audit in a kit."""

    kit: Path

    def new(self, name: str) -> Any:
        if name != "h0":
            return super().new(name)
        held = held_by(self.kit)
        return TableSite(
            self.tables[name],
            ["died", "age", "sex", "ward", "stage"],
            Policy(),
            name=held.name,
            folder=self.kit / "pdmm",
            identity=self.identities[name],
            by="ada@university.org",
        )


def test_the_audit_has_the_formula_and_what_was_refused(
    kit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WithKit, "kit", kit, raising=False)
    tables = {name: own[COLUMNS.split(",")] for name, own in TABLES.items()}
    sites = WithKit(tables, Policy())
    fit(sites, "died ~ age + sex")
    with pytest.raises(SiteRefusedError, match="site h"):
        fit(sites, "died ~ I(age > 90)")
    code, said = call("audit", "--kit", kit, "--last", 200)
    assert code == 0, said
    lines = said.splitlines()
    assert any(line.startswith("study, asked for by ada@university.org, 20") for line in lines)
    assert any(line.split()[1:2] == ["statistics"] for line in lines)
    assert any("the formula is 'died ~ age + sex'" in line for line in lines)
    assert any("the formula is 'died ~ I(age > 90)'" in line for line in lines)
    assert any("refused" in line and "min_rows_per_level is 10" in line for line in lines)
    assert "numbers have left of a table of 300 rows" in said
    code, said = call("audit", "--kit", kit, "--last", 2)
    assert said.rstrip().splitlines()[-1].startswith("2 of ")
    code, said = call("audit", "--kit", kit, "--reset", "--last", 0)
    assert "0 numbers have left" in said


# --- stop -----------------------------------------------------------------------------------------


class FakeAdmin:
    """A server with one run."""

    user = "ada@university.org"

    def __init__(self, kit: Path, patience: float) -> None:
        self.aborted: list[str] = []

    def __enter__(self) -> "FakeAdmin":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held open."""

    def jobs(self) -> list[dict[str, Any]]:
        names = ("fit-1", "fit-0", "theirs")
        return [{"job_id": name, "job_name": name, "submit_time": name} for name in names]

    def submitter_of(self, job: str) -> str:
        return "bob@university.org" if job == "theirs" else self.user

    def status(self, job: str) -> Status:
        return Status("running" if job == "fit-1" and not self.aborted else "finished")

    def progress(self, job: str) -> dict[str, Any]:
        return {"round": 3, "rounds": 100, "every": None, "no_checkpoint": "its sums are secure"}

    def abort(self, job: str) -> None:
        self.aborted.append(job)

    def outcome(self, job: str) -> dict[str, Any]:
        return {"reports": []}


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("fit-1", 0, "The run fit-1 was stopped: 3 of 100 rounds were done."),
        ("fit-1", 0, "Nothing of it is kept, for its sums are secure."),
        ("fit-1", 0, "To begin it again: pdmm federate resume fit-1 --kit"),
        ("fit-0", 0, "The run fit-0 had ended already (finished): nothing was stopped."),
        ("fit-9", 1, "there is no run fit-9 at this server"),
        ("theirs", 1, "the run theirs belongs to bob@university.org, who alone can stop it"),
    ],
)
def test_stop(
    name: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "Admin", FakeAdmin)
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / "fed_admin.json").write_text("{}")
    found, output = call("stop", "--kit", tmp_path, name)
    assert found == code, output
    assert said in " ".join(output.split())
    assert call("stop", "--kit", tmp_path)[0] == 1  # of which run?
