"""``pdmm fit``, ``predict``, ``evaluate`` and ``show``, as a user calls them."""

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import pdmm
from pdmm.cli.app import app
from pdmm.tables import load_rand_health

FORMULA = "visited ~ coinsurance + age + sex"


def call(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "patients.csv"
    load_rand_health()[::5].to_csv(path, index=False)
    return path


def test_from_a_table_to_predictions(table: Path, tmp_path: Path) -> None:
    model, page = tmp_path / "model.pdmm", tmp_path / "new" / "report.html"
    code, said = call(
        *("fit", table, "--client", "site", "--formula", FORMULA, "--family", "binomial"),
        *("--out", model, "--report", page),
    )
    assert code == 0, said
    frame = pd.read_csv(table)
    expected = pdmm.fit(FORMULA, frame, client="site")
    assert expected.summary() in said
    assert "site 6" in said
    assert page.read_text().startswith("<!DOCTYPE html>")
    code, said = call("show", model)
    assert code == 0
    assert expected.summary() in said
    out = tmp_path / "predictions.csv"
    code, said = call("predict", model, table, "--out", out)
    assert code == 0
    found = pd.read_csv(out)
    assert list(found) == ["prediction", "class"]
    assert found["prediction"].to_numpy() == pytest.approx(expected.predict(frame).to_numpy())
    assert set(found["class"]) <= {"no", "yes"}
    code, said = call("evaluate", model, table, "--out", tmp_path / "measures.csv")
    assert code == 0
    assert "AUC" in said
    measures = pd.read_csv(tmp_path / "measures.csv", index_col=0)
    assert measures.loc["all", "AUC"] == pytest.approx(expected.evaluate(frame).loc["all", "AUC"])


def test_one_file_for_each_site(table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table)
    paths = []
    for name, own in frame.groupby("site"):
        paths.append(tmp_path / f"{name}.csv")
        own.drop(columns="site").to_csv(paths[-1], index=False)
    code, said = call("fit", *paths, "--formula", FORMULA)
    assert code == 0
    assert "site 3" in said
    assert f"Logistic model: {FORMULA}" in said


def test_other_models(table: Path, tmp_path: Path) -> None:
    for words in (
        ("--formula", "visits ~ age", "--family", "poisson", "--scale", "pearson"),
        (
            "--formula",
            "visits ~ age",
            "--family",
            "huber",
            "--delta",
            "2",
            "--covariance",
            "robust",
        ),
        ("--formula", "health ~ age", "--family", "multinomial", "--reference", "good"),
        ("--formula", "visited ~ age", "--l2", "1", "--standardise", "--no-sites"),
    ):
        code, said = call("fit", table, "--client", "site", *words)
        assert code == 0, said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--formula", "visited ~ height"), "no table has a column 'height'"),
        (("--formula", "visited ~ age", "--client", "clinic"), "client='clinic' is no column"),
        (("--formula", "visited ~ age", "--l2", "much"), "--l2 must be a number, got 'much'"),
        (("--formula", "visited ~ age", "--folds", "many"), "--folds must be a whole number"),
        (("--formula", "visited ~ age", "--report", "page.pdf"), "must end in .html or .htm"),
        (("--formula", "visited ~ age", "--family", "huber"), "go together"),
        (("--formula", "visited ~ age", "--missing", "guess"), "missing must be 'error'"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    table: Path, words: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, output = call("fit", table, *words)
    assert code == 1
    assert said in output + capfd.readouterr().err
    assert "Traceback" not in output


def test_files_that_are_none(table: Path, tmp_path: Path) -> None:
    assert call("fit", tmp_path / "none.csv", "--formula", FORMULA)[0] == 1
    assert call("show", table)[0] == 1
    assert call("predict", table, table)[0] == 1
