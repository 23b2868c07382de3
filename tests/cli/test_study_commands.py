"""``pdmm federate describe``, ``fit`` and ``evaluate``: a federation in this process."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import pdmm
import pdmm.federation
from builders.study import FakeTables, hospitals, silos
from pdmm.cli.app import app
from pdmm.engines import Policy
from pdmm.flare import researcher, studies
from pdmm.flare.ownership import OWNER, TOKEN
from pdmm.flare.runs import Done, RunError
from pdmm.flare.server_study import do_study
from pdmm.tables.silos import Options

TABLE = hospitals(rows=400)
TABLES = silos(TABLE, "site")
FORMULA = "died ~ age + C(sex)"
POLICY = Policy(evaluation_share=0.3, per_site_results=True)


class Federation:
    """Stands for the server and its sites: a job is done here and now, as the server does it."""

    user = "ada@university.org"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sites = FakeTables(TABLES, POLICY)
        self.asked: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []

    def carry_out(
        self, kit: Path, asked: dict[str, Any], fetch: Callable[[Done], Any], **how: Any
    ) -> Any:
        job = {**json.loads(json.dumps(asked)), OWNER: self.user, TOKEN: "one"}
        self.asked.append(job)
        out = self.folder / f"job-{len(self.asked)}"
        out.mkdir(parents=True)

        def report(told: dict[str, Any]) -> None:
            self.told.append(told)
            how["show"](told)

        how["say"](f"sites: {', '.join(sorted(self.sites.names))}")
        try:
            for path, contents in do_study(dict(job), self.sites, out, out, report).items():
                path.write_bytes(contents)
        except Exception as error:  # as the server tells of it
            raise RunError(str(error)) from None
        return fetch(Done(self, str(out), job, 0))  # type: ignore[arg-type]

    def result(self, job: str, folder: Path) -> None:
        shutil.copytree(job, folder, dirs_exist_ok=True)


@pytest.fixture
def federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Federation:
    found = Federation(tmp_path / "server")
    monkeypatch.setattr(studies, "carry_out", found.carry_out)
    monkeypatch.setattr(studies, "kind_of", lambda *_: "fit")
    return found


def call(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["federate", *(str(word) for word in words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def plain(said: str) -> str:
    return " ".join(said.split())


def fitted(tmp_path: Path, *more: object) -> tuple[int, str]:
    return call("fit", "--kit", tmp_path, "--formula", FORMULA, *more)


def test_a_fit_from_the_command_to_the_report(federation: Federation, tmp_path: Path) -> None:
    model, page = tmp_path / "new" / "model.pdmm", tmp_path / "report.html"
    code, said = fitted(tmp_path, "--out", model, "--report", page, "--run", "one", "--lines")
    assert code == 0, said
    assert said.startswith("Run one\nsites: h0, h1, h2, h3\n")
    found = pdmm.load(model)
    assert str(found.summary()) in said
    assert found.sites.index.tolist() == ["h0", "h1", "h2", "h3"]
    assert all(name in said for name in found.sites.index)
    assert f"Model: {model}" in plain(said)
    assert f"Report: {page}" in plain(said)
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert federation.asked[0]["formula"] == FORMULA
    aside = [own for own in found.notes if "secure" in own]
    assert aside == ["sums are secure: the server read sums over 4 organisations alone"]


def test_a_line_for_each_round_and_each_phase(federation: Federation, tmp_path: Path) -> None:
    code, said = fitted(tmp_path)
    assert code == 0
    rounds = [told["round"] for told in federation.told if "round" in told]
    assert rounds == list(range(1, len(rounds) + 1))
    lines = [line for line in said.splitlines() if line.startswith("round ")]
    assert len(lines) == len(rounds)
    for line in lines:
        assert "4 of 4 sites" in line
        assert line.rstrip().endswith(" s")
    assert "asking the sites for the columns of the formula" in said
    assert "standard errors" in said


def test_options_reach_the_sites(federation: Federation, tmp_path: Path) -> None:
    words = ["--family", "poisson", "--offset", "log(years)", "--missing", "drop"]
    words += ["--covariance", "robust", "--study", "statins", "--leave-out", "--secure", "yes"]
    code, said = call("fit", "--kit", tmp_path, "--formula", "visits ~ age", *words)
    assert code == 0, said
    told = federation.asked[0]
    for name, value in (
        ("family", "poisson"),
        ("offset", "log(years)"),
        ("missing", "drop"),
        ("covariance", "robust"),
    ):
        assert told["options"][name] == value
    assert (told["study"], told["leave_out"], told["secure"]) == ("statins", True, True)
    words = ["--family", "huber", "--delta", "3", "--covariance", "robust"]
    federation.sites = FakeTables(TABLES)
    code, said = call("fit", "--kit", tmp_path, "--formula", "pressure ~ age", *words)
    assert code == 0, said
    assert federation.asked[1]["options"]["family"] == "huber"
    assert federation.asked[1]["options"]["delta"] == 3


def test_describe(federation: Federation, tmp_path: Path) -> None:
    table = tmp_path / "columns.csv"
    code, said = call("describe", "--kit", tmp_path, "--out", table)
    assert code == 0, said
    assert "4 sites with 1,600 rows together: h0, h1, h2, h3" in said
    assert "Note: sums are secure" in said
    lines = {line.split()[0]: line for line in said.splitlines() if line.strip()}
    assert "female, male" in lines["sex"]
    assert "whole number" in lines["stage"]
    assert "0.0%" in lines["age"]
    found = pd.read_csv(table, index_col="column")
    assert set(found.index) == set(TABLE.columns) - {"site"}


def test_describe_where_policies_tell_little(federation: Federation, tmp_path: Path) -> None:
    federation.sites = FakeTables(TABLES, Policy(describes=("columns",)))
    code, said = call("describe", "--kit", tmp_path)
    assert code == 0, said
    assert said.count("not told") == len(TABLE.columns) - 1
    assert "rows together" not in said
    federation.sites = FakeTables(TABLES, Policy(describes=()))
    code, said = call("describe", "--kit", tmp_path)
    assert code == 0, said
    assert "The sites tell of no column that all of them have." in said


def test_evaluate(federation: Federation, tmp_path: Path) -> None:
    model, out = tmp_path / "model.pdmm", tmp_path / "measures.csv"
    assert fitted(tmp_path, "--out", model)[0] == 0
    code, said = call("evaluate", "--kit", tmp_path, "--model", model, "--out", out)
    assert code == 0, said
    for word in ("AUC width", "Brier", "calibration slope", "Calibration: groups of rows"):
        assert word in said
    measures = pd.read_csv(out, index_col="site")
    assert measures.index.tolist() == ["all", "h0", "h1", "h2", "h3"]
    assert 0.5 < measures.loc["all", "AUC"] < 1
    assert federation.asked[1]["kind"] == "evaluate"
    assert federation.asked[1]["model"]["sites"] == {}  # what sites have said stays here


def test_a_study_is_fetched_again(federation: Federation, tmp_path: Path) -> None:
    asked: list[Any] = []
    federation_carry = federation.carry_out

    def carry_out(kit: Path, settings: dict[str, Any], fetch: Any, **how: Any) -> Any:
        asked.append(settings)
        whole = studies.fit_settings(FORMULA, Options(), None, studies.Asking(run="one"))
        return federation_carry(kit, whole, fetch, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(studies, "carry_out", carry_out)
        out = tmp_path / "model.pdmm"
        code, said = call("resume", "one", "--kit", tmp_path, "--out", out)
    assert code == 0, said
    assert asked[0]["resume"] is True
    assert pdmm.load(out).formula == FORMULA


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("there", ["model.pdmm", "report.html"])
def test_what_is_there_is_not_written_over(
    there: str, federation: Federation, tmp_path: Path
) -> None:
    (tmp_path / there).write_text("of last year")
    words = ("--out", tmp_path / "model.pdmm", "--report", tmp_path / "report.html")
    code, said = fitted(tmp_path, *words)
    assert code == 1
    assert f"{there} is there already" in plain(said)
    assert "--force" in said
    assert not federation.asked
    assert (tmp_path / there).read_text() == "of last year"
    assert fitted(tmp_path, *words, "--force")[0] == 0
    assert (tmp_path / there).read_bytes()[:12] != b"of last year"


def test_nothing_is_written_where_the_study_fails(federation: Federation, tmp_path: Path) -> None:
    words = ("--out", tmp_path / "model.pdmm", "--report", tmp_path / "report.html")
    code, said = call("fit", "--kit", tmp_path, "--formula", "died ~ shoe_size", *words)
    assert code == 1
    assert "Error: " in said
    assert "shoe_size" in said
    assert "Traceback" not in said
    assert not list(tmp_path.glob("*.pdmm*"))
    assert not list(tmp_path.glob("*.html*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--formula", "died"), "must be text with one ~"),
        (("--formula", "died ~ age +"), "cannot be read"),
        (("--formula", "died ~ __import__('os')"), "formula"),
        (("--formula", FORMULA, "--family", "binominal"), "family must be 'gaussian', 'binomial'"),
        (("--formula", "Surv(time, event) ~ age"), "go together"),
        (("--formula", FORMULA, "--family", "huber"), "go together"),
        (("--formula", FORMULA, "--l2", "much"), "--l2 must be a number"),
        (("--formula", FORMULA, "--folds", "many"), "--folds must be a whole number"),
        (("--formula", FORMULA, "--missing", "guess"), "missing must be"),
        (("--formula", FORMULA, "--secure", "perhaps"), "secure"),
        (("--formula", FORMULA, "--out", "model.txt"), "must end in .pdmm"),
        (("--formula", FORMULA, "--report", "page.pdf"), "must end in .html"),
        (("--formula", FORMULA, "--run", "a b/c"), "run"),
        (("--formula", FORMULA, "--timeout", "0"), "timeout"),
        (("--formula", FORMULA, "--study", "a\nb"), "study must be a name of one line"),
    ],
)
def test_what_is_asked_for_is_checked_before_it_travels(
    words: tuple[str, ...], said: str, federation: Federation, tmp_path: Path
) -> None:
    code, output = call("fit", "--kit", tmp_path, *words)
    assert code == 1, output
    assert said in plain(output)
    assert "Traceback" not in output
    assert not federation.asked


def test_a_model_that_is_none(federation: Federation, tmp_path: Path) -> None:
    (tmp_path / "text.pdmm").write_text("no model")
    for name in ("none.pdmm", "text.pdmm"):
        code, said = call("evaluate", "--kit", tmp_path, "--model", tmp_path / name)
        assert code == 1
        assert name in said
    assert not federation.asked


def test_a_site_that_does_not_fit_and_one_that_refuses(
    federation: Federation, tmp_path: Path
) -> None:
    federation.sites = FakeTables(TABLES | {"h2": TABLES["h2"].drop(columns="age")}, POLICY)
    code, said = fitted(tmp_path)
    assert code == 1
    assert "site h2: its table has no column 'age', which the model needs" in plain(said)
    code, said = fitted(tmp_path, "--leave-out", "--out", tmp_path / "model.pdmm")
    assert code == 0
    assert "site h2 was left out: its table has no column 'age'" in plain(said)
    policy = {name: Policy(columns=("age",)) if name == "h1" else POLICY for name in TABLES}
    federation.sites = FakeTables(TABLES, policy)
    code, said = fitted(tmp_path)
    assert code == 1
    assert "site h1 refused by policy" in plain(said)
    assert "may not allow one of the columns" in plain(said)


def test_a_warning_is_told(federation: Federation, tmp_path: Path) -> None:
    policy = {name: Policy(hessians="never") if name == "h1" else POLICY for name in TABLES}
    federation.sites = FakeTables(TABLES, policy)
    code, said = fitted(tmp_path, "--report", tmp_path / "report.html")
    assert code == 0, said
    assert "Warning: the estimate is not certified" in plain(said)
    assert 'site h1 has hessians = "never" in the policy' in plain(said)


def test_ctrl_c_says_how_to_fetch_what_comes_of_it(
    federation: Federation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(studies, "carry_out", stopped)
    code, said = fitted(tmp_path, "--run", "one", "--out", tmp_path / "model.pdmm")
    assert code == 130
    assert f"pdmm federate resume --kit {tmp_path} --out {tmp_path}/model.pdmm one" in plain(said)


# --- from Python ----------------------------------------------------------------------------------


def test_from_python(federation: Federation, tmp_path: Path) -> None:
    (tmp_path / "startup").mkdir()
    kit = studies.Asking(study="statins")
    found = researcher.Federation(tmp_path, kit)
    model = found.fit(FORMULA)
    expected = pdmm.fit(FORMULA, fits_only(), client="site")
    np.testing.assert_allclose(model.params, expected.params, rtol=1e-6)
    np.testing.assert_allclose(model.bse, expected.bse, rtol=1e-6)
    assert model.result is not None
    assert model.result.rounds > 0
    assert federation.asked[0]["study"] == "statins"
    assert found.describe(run="columns").rows == 1600
    assert federation.asked[-1]["run"] == "columns"
    assert found.evaluate(model).measures["AUC"] > 0.5
    path = model.save(tmp_path / "model.pdmm")
    assert found.evaluate(path).measures == found.evaluate(model).measures
    federation.sites = FakeTables(TABLES, POLICY)  # whose numbers are not all out
    assert found.fit("visits ~ age", "poisson", leave_out=True).family == "poisson"
    assert federation.asked[-1]["leave_out"] is True
    with pytest.raises(TypeError, match="sight"):
        found.fit(FORMULA, sight=3)
    with pytest.raises(ValueError, match="kit"):
        pdmm.federation.connect(tmp_path / "nowhere")


def fits_only() -> pd.DataFrame:
    from pdmm.study import HeldTable

    held = {name: HeldTable(own, None, 0.3).for_fits for name, own in TABLES.items()}
    return pd.concat([own.assign(site=name) for name, own in held.items()])
