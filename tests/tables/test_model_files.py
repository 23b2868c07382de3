"""Model files: what is saved comes back, and what is damaged is refused with a sentence."""

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_agreement import FORMULA, patients
from test_table_references import survival

import pdmm
from pdmm.tables import Fit

CASES: dict[str, dict[str, Any]] = {
    "binomial": {"formula": FORMULA + " + center(age):bmi", "missing": "mean"},
    "poisson": {"formula": "stage ~ age + sex", "family": "poisson", "offset": "np.log(bmi)"},
    "gaussian": {"formula": "np.log(bmi) ~ scale(age) * sex", "family": "gaussian"},
    "multinomial": {"formula": "stage ~ age + sex", "family": "multinomial", "reference": 2},
    "penalised": {"formula": FORMULA, "l1": 1.0, "l2": 0.5, "standardise": True},
    "words": {"formula": "sex ~ age + C(died)", "weights": "stage"},
    "huber": {"formula": "bmi ~ age", "family": pdmm.Huber(2.0), "covariance": "client"},
}


def fitted(name: str) -> tuple[Fit, pd.DataFrame]:
    if name == "cox":
        table = survival()
        return pdmm.fit("Surv(days, status == 2) ~ age + C(dose)", table, "clinic", "cox"), table
    table = patients()
    return pdmm.fit(data=table, client="ward", **CASES[name]), table


@pytest.mark.parametrize("name", [*CASES, "cox"])
def test_a_model_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    fit, table = fitted(name)
    path = fit.save(tmp_path / "model.pdmm")
    back = pdmm.load(path)
    pd.testing.assert_series_equal(back.params, fit.params, check_exact=True)
    pd.testing.assert_frame_equal(back.sites, fit.sites)
    assert back.summary() == fit.summary()
    assert back.certificate == fit.certificate
    assert back.levels == fit.levels
    assert back.classes == fit.classes
    assert back.formula == fit.formula
    if not fit.why_no_errors:
        pd.testing.assert_frame_equal(back.cov_params(), fit.cov_params(), check_exact=True)
    expected: Any = fit.predict(table)
    found: Any = back.predict(table)
    np.testing.assert_array_equal(found, expected)
    again = back.save(tmp_path / "again.pdmm")
    assert again.read_text() == path.read_text()


def test_a_file_holds_no_row(tmp_path: Path) -> None:
    table = patients().assign(age=lambda frame: frame.age + 0.123456789)
    fit = pdmm.fit(FORMULA, table, client="ward")
    text = fit.save(tmp_path / "model.pdmm").read_text()
    assert not any(repr(float(age)) in text for age in table.age)
    head = json.loads(text.splitlines()[0])
    assert head["format"] == "pdmm model"


def test_damage_and_newer_versions_are_refused(tmp_path: Path) -> None:
    fit, _ = fitted("binomial")
    path = fit.save(tmp_path / "model.pdmm")
    text = path.read_text()
    rng = np.random.default_rng(0)
    for _ in range(40):
        broken = bytearray(text.encode())
        where = int(rng.integers(len(broken)))
        broken[where] ^= 1 << int(rng.integers(7))
        path.write_bytes(bytes(broken))
        with pytest.raises(ValueError, match=r"damaged|no model file|newer|cannot be read"):
            pdmm.load(path)
    path.write_text(text[: len(text) // 2])
    with pytest.raises(ValueError, match="is damaged"):
        pdmm.load(path)
    path.write_text(text.replace('"version": 1', '"version": 2', 1))
    with pytest.raises(ValueError, match="written by a newer pdmm"):
        pdmm.load(path)
    path.write_text("")
    with pytest.raises(ValueError, match="no model file of pdmm"):
        pdmm.load(path)
    with pytest.raises(ValueError, match="there is no file"):
        pdmm.load(tmp_path / "nothing.pdmm")


def test_a_formula_in_a_file_runs_no_code(tmp_path: Path) -> None:
    fit, _ = fitted("binomial")
    path = fit.save(tmp_path / "model.pdmm")
    body = path.read_text().split("\n", 1)[1].removesuffix("\n")
    evil = body.replace("1 + age", "1 + open('x') + age", 1)
    assert evil != body
    from pdmm.tables.stored import _sum

    head = {"format": "pdmm model", "version": 1, "sha256": _sum(evil)}
    path.write_text(f"{json.dumps(head)}\n{evil}\n")
    with pytest.raises(ValueError, match="calls 'open'"):
        pdmm.load(path)


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    fit, _ = fitted("gaussian")
    closed = tmp_path / "file"
    closed.write_text("")
    with pytest.raises(OSError, match="file"):
        fit.save(closed / "model.pdmm")
    assert list(tmp_path.iterdir()) == [closed]
    assert stat.S_ISREG(closed.stat().st_mode)
