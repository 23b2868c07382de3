"""Studies of tables over a real federation of four sites, beside the pooled statsmodels fit."""

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner, Result

import pdmm
import pdmm.federation
from pdmm.cli.app import app
from pdmm.flare import studies
from pdmm.flare.processes import LocalFederation
from pdmm.flare.runs import RunError
from pdmm.flare.site_data import OwnTable, own_table
from pdmm.flare.site_kit import begin_anew, entries
from pdmm.privacy.policy import Policy
from pdmm.tables import Fit, load, load_rand_health
from pdmm.tables.silos import Options

pytestmark = [pytest.mark.flare, pytest.mark.slow]
SITES = ["ana", "ben", "cyd", "dan"]
POLICY = Policy(evaluation_share=0.2, per_site_results=True, max_numbers_out_share=50.0)
"""Of all sites. How many numbers may leave is not what these tests are about."""
NEAR = 1e-6
"""The largest difference from the pooled fit, in standard errors and of these."""
VISITED = "visited ~ coinsurance + age + C(sex) + log_income"
Tables = dict[str, OwnTable]
cli = CliRunner()


def rand() -> pd.DataFrame:
    """Patients of four centres."""
    table = load_rand_health()
    label = table.site.map(dict(zip(sorted(table.site.unique()), [*SITES, "-", "-"], strict=True)))
    columns = ["visited", "visits", "coinsurance", "age", "sex", "log_income"]
    return table[columns].assign(site=label)[label != "-"]


def tumours() -> pd.DataFrame:
    """Measurements of tumours, which are dealt out to four sites."""
    table = load_breast_cancer(as_frame=True).frame
    names = ["texture", "smoothness", "symmetry"]
    found = table[[f"mean {name}" for name in names]].set_axis(names, axis=1)
    return found.assign(malignant=1 - table.target, site=np.resize(SITES, len(table)))


def diabetes() -> pd.DataFrame:
    """A small table, by age: the youngest are at one site, and the oldest at another."""
    table = load_diabetes(as_frame=True, scaled=False).frame
    label = pd.qcut(table.age, 4, labels=SITES).astype(str)
    sex = table.sex.map({1.0: "one", 2.0: "two"})
    return table[["target", "bmi", "bp", "s5"]].assign(sex=sex, site=label)


STUDIES: dict[str, tuple[Callable[[], pd.DataFrame], str, str, Any]] = {
    "visits, counted": (
        *(rand, "visits ~ coinsurance + age + C(sex) + log_income"),
        *("poisson", sm.families.Poisson()),
    ),
    "tumours": (
        *(tumours, "malignant ~ np.log(texture) + smoothness * symmetry"),
        *("binomial", sm.families.Binomial()),
    ),
    "diabetes": (diabetes, "target ~ bmi + bp + s5 + C(sex)", "gaussian", sm.families.Gaussian()),
}


# --- the federation, its tables, and what is asked of it ---------------------------------------


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The sites' files, with the patients."""
    folder = tmp_path_factory.mktemp("tables")
    found = {name: own_table(folder / f"{name}.csv") for name in SITES}
    _write(rand(), found)
    return found


@pytest.fixture(scope="module")
def federation(
    tables: Tables, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalFederation]:
    nodes = tmp_path_factory.mktemp("studies") / "nodes"
    with LocalFederation(SITES, tables, nodes, policy=POLICY) as started:
        yield started


@pytest.fixture
def patients(federation: LocalFederation, tables: Tables) -> Tables:
    """The sites' files, with the patients again, of whom nothing has left."""
    give(federation, tables, rand())
    return tables


def _write(table: pd.DataFrame, tables: Mapping[str, OwnTable]) -> None:
    for name, own in table.groupby("site"):
        own.drop(columns="site").to_csv(tables[str(name)].path, index=False)


def give(federation: LocalFederation, tables: Tables, table: pd.DataFrame) -> None:
    """Put other rows into the sites' files, as their operators do between studies."""
    _write(table, tables)
    for name in SITES:
        begin_anew(federation.kits.sites[name])


def pooled(tables: Tables, formula: str, family: Any) -> Any:
    """What statsmodels says of the rows that fits see, all in one place."""
    rows = pd.concat([tables[name].read(POLICY).for_fits for name in SITES])
    if "visited" in rows:
        rows["visited"] = (rows.visited == "yes").astype(float)
    return sm.GLM.from_formula(formula, rows, family=family).fit(tol=1e-13)


def check_the_same(found: Any, there: Any) -> None:
    assert set(found.params.index) == set(there.params.index)
    assert ((found.params - there.params).abs() / there.bse).max() <= NEAR
    assert (found.bse / there.bse - 1).abs().max() <= NEAR


class Faults:
    """Causes one fault in each attempt at a study, as soon as its job says that it has begun.

    Args:
        causes: in their order.
        when: whether the time has come, by what the job tells.
    """

    def __init__(
        self,
        *causes: Callable[[], object],
        when: Callable[[dict[str, Any]], bool] = lambda told: "sites" in told,
    ) -> None:
        self.causes = list(causes)
        self.when = when
        self.said: list[str] = []
        self.attempt = 0
        """How many were begun again when a fault was caused last."""

    def show(self, told: dict[str, Any]) -> None:
        begun = len(self.said)  # first the sites are named, then a sentence for each attempt
        if self.causes and begun > self.attempt and self.when(told):
            self.attempt = begun
            self.causes.pop(0)()


def command(federation: LocalFederation, *words: str) -> Result:
    verb, *rest = words
    return cli.invoke(app, ["federate", verb, "--kit", str(federation.kits.admin), *rest])


def done(federation: LocalFederation, *words: str) -> str:
    """What a command prints that does what was asked."""
    found = command(federation, *words)
    assert found.exit_code == 0, found.output
    return str(found.output)


# --- the commands --------------------------------------------------------------------------------


def test_from_the_tables_to_the_report_by_commands(
    federation: LocalFederation, patients: Tables, tmp_path: Path
) -> None:
    """Describe, fit, evaluate, and what the hospital reads of it afterwards."""
    text = done(federation, "describe", "--lines")
    assert f"4 sites with {len(rand()):,} rows together: ana, ben, cyd, dan" in text
    assert re.search(r"sex +category +0\.0% +female, male", text)
    model, report = tmp_path / "model.pdmm", tmp_path / "report.html"
    asked = ["--formula", VISITED, "--family", "binomial", "--out", str(model)]
    text = done(federation, "fit", *asked, "--report", str(report), "--lines")
    assert len(re.findall(r"(?m)^round +\d+ ", text)) >= 3
    assert "sums are secure" in text
    fitted = load(model)
    check_the_same(fitted, pooled(patients, VISITED, sm.families.Binomial()))
    assert "hospital" not in report.read_text()
    assert all(name in report.read_text() for name in SITES)
    text = done(federation, "evaluate", "--model", str(model), "--out", str(tmp_path / "e.csv"))
    rows = pd.concat([patients[name].read(POLICY).for_evaluation for name in SITES])
    told = pd.read_csv(tmp_path / "e.csv", index_col=0).loc["all"]
    exact = roc_auc_score(rows.visited == "yes", fitted.predict(rows))
    assert told["rows"] <= len(rows)
    assert abs(told["AUC"] - exact) <= told["AUC width"] / 2 + (len(rows) - told["rows"]) / 100
    audit = entries(federation.kits.sites["ana"])
    assert {"describe", "round", "evaluation"} <= {entry.verb for entry in audit}
    about = [entry.reason for entry in audit if entry.verb == "formula"]
    assert len(about) >= 2  # of the fit, and of the evaluation
    assert set(about) == {f"the formula is {VISITED!r}"}


# --- the numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
def test_it_is_the_fit_of_the_pooled_table(
    name: str, federation: LocalFederation, tables: Tables
) -> None:
    make, formula, family, pooled_family = STUDIES[name]
    give(federation, tables, make())
    fit = pdmm.federation.connect(federation.kits.admin, sites=SITES).fit(formula, family)
    check_the_same(fit, pooled(tables, formula, pooled_family))
    assert any("sums are secure" in note for note in fit.notes)


# --- faults --------------------------------------------------------------------------------------


def restarts(federation: LocalFederation) -> tuple[Callable[[], None], Callable[[], None]]:
    """Ways to have a whole site, and the server, die and come back."""

    def restart_site() -> None:
        federation.kill_site("cyd")
        federation.start_site("cyd")

    def restart_server() -> None:
        federation.kill_server()
        federation.start_server()

    return restart_site, restart_server


def despite(faults: Faults) -> studies.Asking:
    return studies.Asking(
        sites=SITES,
        timeout=2.0,
        patience=5.0,
        restarts=9,
        show=faults.show,
        say=faults.said.append,
    )


def test_sites_and_the_server_are_killed(federation: LocalFederation, patients: Tables) -> None:
    """A site's job, a whole site, and the server: the study begins again, with the same answer."""
    faults = Faults(
        lambda: os.kill(federation.job_process("ben"), signal.SIGKILL), *restarts(federation)
    )
    found = studies.run_fit(federation.kits.admin, VISITED, Options(), None, despite(faults))
    assert not faults.causes
    assert len(faults.said) >= 4
    assert all("the study begins again" in text for text in faults.said[1:]), faults.said
    check_the_same(found.value, pooled(patients, VISITED, sm.families.Binomial()))


def test_the_server_is_killed_in_a_cross_validation(
    federation: LocalFederation, patients: Tables
) -> None:
    """With folds inside the sites, it is the path of one process, from the first penalty on."""
    faults = Faults(
        restarts(federation)[1], when=lambda told: "penalties done" in told.get("phase", "")
    )
    options = Options(l2="cv", penalties=20, folds=3)
    found = studies.run_fit(federation.kits.admin, VISITED, options, None, despite(faults))
    assert len(faults.said) >= 2
    check_the_path(found.value, patients, folds=3, penalties=20)


def check_the_path(found: Fit, tables: Tables, **options: Any) -> None:
    """The penalties, what is lost at each, and the coefficients are those of one process."""
    each = [tables[name].read(POLICY).for_fits.assign(site=name) for name in SITES]
    here = pdmm.fit(VISITED, pd.concat(each), client="site", l2="cv", **options)
    assert found.path is not None
    assert here.path is not None
    np.testing.assert_allclose(found.path["loss"], here.path["loss"], rtol=1e-7)
    assert found.penalty == pytest.approx(here.penalty, rel=1e-9)
    np.testing.assert_allclose(found.params, here.params, rtol=1e-6)


def test_a_table_that_does_not_fit(federation: LocalFederation, patients: Tables) -> None:
    """Its site and the column are named; without it, only if the researcher says so."""
    path = Path(patients["dan"].path)
    pd.read_csv(path).drop(columns="age").to_csv(path, index=False)
    connected = pdmm.federation.connect(federation.kits.admin)
    with pytest.raises(RunError, match="site dan: its table has no column 'age'"):
        connected.fit(VISITED)
    fit = connected.fit(VISITED, leave_out=True)
    assert any("site dan was left out: its table has no column 'age'" in n for n in fit.notes)
    others = {name: patients[name] for name in SITES[:3]}
    rows = pd.concat([own.read(POLICY).for_fits for own in others.values()])
    assert fit.nobs == len(rows)
    assert list(fit.sites.index) == SITES[:3]


# --- a study that is stopped ---------------------------------------------------------------------


def test_a_study_that_is_stopped(federation: LocalFederation, patients: Tables) -> None:
    """It ends cleanly, `status` says so, and what it asked can be asked again under its name."""
    begun = threading.Event()

    def show(told: dict[str, Any]) -> None:
        if "penalties done" in told.get("phase", ""):
            begun.set()

    asking = studies.Asking(sites=SITES, run="long", show=show)
    many = Options(l2="cv", penalties=500, folds=5)
    with ThreadPoolExecutor(1) as pool:
        study = pool.submit(studies.run_fit, federation.kits.admin, VISITED, many, None, asking)
        assert begun.wait(120)
        assert "The run long was stopped" in done(federation, "stop", "long")
        with pytest.raises(RunError, match="the run was stopped"):
            study.result(120)
    text = done(federation, "status")
    assert re.search(r"  long\n    fit, asked for by you.*\n    aborted", text), text
