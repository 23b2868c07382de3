"""``pdmm federate demo --table``: a study of a real table at six sites, all on this computer."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pdmm.flare.processes import LocalFederation
from pdmm.flare.site_data import OwnTable, own_table
from pdmm.flare.studies import Asking, Found, run_description, run_evaluation, run_fit
from pdmm.privacy.policy import Policy
from pdmm.privacy.policy_file import policy_text
from pdmm.tables import load_rand_health
from pdmm.tables.silos import Options

if TYPE_CHECKING:
    import pandas as pd

    from pdmm.tables import Fit

FORMULA = "visited ~ coinsurance + age + sex + log_income"
COLUMNS = ("visited", "coinsurance", "age", "sex", "log_income")
POLICY = Policy(evaluation_share=0.2)
NEAR = 1e-6  # the largest difference from the pooled fit, in standard errors and of these
NEEDS = (
    "the demonstration ends by comparing with statsmodels' fit of the pooled table: pip install "
    "'pdmm[study]'"
)
Say = Callable[[str], object]
Show = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class Compared:
    """The federation's fit beside statsmodels' fit of the pooled table."""

    table: "pd.DataFrame"
    """A row for each coefficient: both estimates, and both standard errors."""

    @property
    def apart(self) -> float:
        """The largest difference of an estimate, in standard errors."""
        rows = self.table
        return float(((rows["federation"] - rows["pooled"]).abs() / rows["pooled se"]).max())

    @property
    def errors_apart(self) -> float:
        """The largest relative difference of a standard error."""
        rows = self.table
        return float((rows["federation se"] / rows["pooled se"] - 1).abs().max())

    def check(self) -> None:
        """Raise if the federation did not find what the pooled table says."""
        if not max(self.apart, self.errors_apart) <= NEAR:
            raise RuntimeError("the federation's fit is not that of the pooled table")


def run(
    out: Path,
    say: Say,
    show: Callable[[], Any],
    tell: Callable[[Found, str], object],
) -> Compared:
    """Provision a federation, describe its tables, fit and evaluate a model, and compare it.

    Args:
        out: the folder for the tables, the policy, the model and its report.
        say: takes what happens, in words.
        show: makes a context whose value takes the progress of a study.
        tell: takes what came of a study, and its file.
    """
    try:
        import statsmodels  # noqa: F401
    except ImportError:
        raise ValueError(NEEDS) from None
    tables = write_tables(out / "tables")
    policy = out / "policy.toml"
    policy.write_text(policy_text(POLICY), encoding="utf-8")
    with ExitStack() as stack:
        # removed here, or by the federation, which does so even if this process is killed
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pdmm-demo-")))
        begun = perf_counter()
        federation = stack.enter_context(
            LocalFederation(list(tables), tables, folder, temporary=True, policy=policy)
        )
        say(
            f"{len(tables)} sites and a server run on 127.0.0.1 after {perf_counter() - begun:.0f} "
            "s, each with a certificate of its own. Each site was prepared by one command:\n"
        )
        first = next(iter(tables))
        say(
            f"  pdmm federate site --kit KIT_OF_{first.upper().replace('-', '_')} --table "
            f"{tables[first].path} --columns {','.join(COLUMNS)} --policy {policy}\n"
        )
        kit = federation.kits.admin

        def ask(do: Callable[[Asking], Found], file: str) -> Found:
            with show() as each:
                found = do(Asking(sites=list(tables), show=each, say=say))
            tell(found, file)
            return found

        say("1. pdmm federate describe --kit ADMIN_KIT\n")
        ask(lambda how: run_description(kit, how), "description.csv")
        say(
            f'\n2. pdmm federate fit --kit ADMIN_KIT --formula "{FORMULA}" --out ... --report ...\n'
        )
        fitted = ask(lambda how: run_fit(kit, FORMULA, Options(), None, how), "model.pdmm").value
        say("\n3. pdmm federate evaluate --kit ADMIN_KIT --model model.pdmm\n")
        ask(lambda how: run_evaluation(kit, fitted, how), "evaluation.csv")
    return compared(fitted, tables)


def write_tables(folder: Path) -> dict[str, OwnTable]:
    """The RAND Health Insurance Experiment's first year, a file for each of its six sites."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for label, own in load_rand_health().groupby("site"):
        name = str(label).replace(" ", "-")
        path = folder / f"{name}.csv"
        own.drop(columns="site").to_csv(path, index=False)
        found[name] = own_table(path, COLUMNS)
    return found


def compared(fitted: "Fit", tables: dict[str, OwnTable]) -> Compared:
    """The fit beside that of statsmodels on the rows of all sites in one place."""
    import pandas as pd
    import statsmodels.api as sm

    rows = pd.concat([table.read(POLICY).for_fits for table in tables.values()])
    rows["visited"] = (rows["visited"] == "yes").astype(float)
    pooled = sm.GLM.from_formula(FORMULA, rows, family=sm.families.Binomial()).fit(tol=1e-12)
    return Compared(
        pd.DataFrame(
            {
                "federation": fitted.params,
                "pooled": pooled.params,
                "federation se": fitted.bse,
                "pooled se": pooled.bse,
            }
        )
    )
