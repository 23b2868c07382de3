"""Sites that hold tables, in this process."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from builders.certificates import Root
from builders.sites import OPEN, FakeSites, Fault
from pdmm.privacy.identity import Identity
from pdmm.study import TableSite


@cache
def _root() -> Root:
    return Root()


@cache
def _identity(name: str) -> Identity:
    """Keys are slow to make: a site of the same name has the same one in all tests."""
    return _root().site(name, organisation=f"org_{name}")


class FakeTables(FakeSites):
    """Sites with tables, and certificates of an organisation each.

    Args:
        tables: by site.
        policy: of all sites, or of each.
        fault: what happens to a question; see :class:`FakeSites`.
        certified: whether the sites have certificates.
        columns: those that studies may use.
    """

    def __init__(
        self,
        tables: Mapping[str, pd.DataFrame],
        policy: Any = OPEN,
        fault: Fault | None = None,
        certified: bool = True,
        columns: Any = None,
    ) -> None:
        self.tables = dict(tables)
        self.columns = columns
        self.identities = {name: _identity(name) if certified else None for name in tables}
        self.policies = policy if isinstance(policy, dict) and set(policy) == set(tables) else {}
        super().__init__(lambda clients: None, dict.fromkeys(tables, ()), fault, policy)  # type: ignore[arg-type,return-value]

    def new(self, name: str) -> Any:
        return TableSite(
            self.tables[name],
            self.columns,
            self.policies.get(name, self.policy),
            name=name,
            identity=self.identities[name],
        )


def silos(frame: pd.DataFrame, label: str) -> dict[str, pd.DataFrame]:
    """A table taken apart by one of its columns."""
    return {
        str(name): own.drop(columns=label).reset_index(drop=True)
        for name, own in frame.groupby(label)
    }


def hospitals(rows: int = 120, sites: int = 4, seed: int = 0) -> pd.DataFrame:
    """Patients of some hospitals: numbers of every scale, categories, counts, times, gaps."""
    rng = np.random.default_rng(seed)
    n = rows * sites
    site = np.repeat([f"h{k}" for k in range(sites)], rows)
    age = rng.normal(60, 12, n).round(2)
    sex = rng.choice(["female", "male"], n)
    # The last hospital has no ward "east", and the first one alone has "south".
    ward = np.where(site == "h0", rng.choice(["east", "south"], n), rng.choice(["east", "west"], n))
    ward = np.where(site == f"h{sites - 1}", "west", ward)
    income = np.exp(rng.normal(13.0, 0.6, n)).round(0)
    marker = rng.normal(2e-6, 1e-6, n)
    years = rng.uniform(0.5, 3.0, n).round(3)
    eta = 0.03 * (age - 60) + 0.5 * (sex == "male") - 0.4 * (ward == "west") + 2e5 * (marker - 2e-6)
    probability = 1 / (1 + np.exp(0.7 - eta))
    table = pd.DataFrame(
        {
            "site": site,
            "age": age,
            "sex": sex,
            "ward": ward,
            "income": income,
            "marker": marker,
            "years": years,
            "often": rng.integers(1, 4, n),
            "stage": rng.integers(1, 4, n),
            "died": (rng.random(n) < probability).astype(int),
            "visits": rng.poisson(years * np.exp(0.5 * eta)),
            "cost": (rng.gamma(3.0, 1.0, n) * np.exp(4 + 0.5 * eta)).round(3),
            "pressure": (120 + 10 * eta + rng.normal(0, 8, n)).round(2),
            "time": rng.exponential(np.exp(-eta)).round(2) + 0.01,
        }
    )
    table["event"] = (rng.random(n) < 0.7).astype(int)
    shifted = eta + rng.gumbel(size=n)
    table["health"] = np.select([shifted < 0, shifted < 1], ["good", "fair"], "poor")
    return table


def with_gaps(table: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    """The same with missing entries, of numbers and of words."""
    rng = np.random.default_rng(seed)
    gaps = table.copy()
    for name in ("age", "sex", "income"):
        gaps.loc[rng.random(len(table)) < 0.07, name] = None
    return gaps


def text_of_refusals(sites: FakeSites) -> str:
    """The reasons in the audits of all sites, which stay there."""
    kept = [entry for site in sites.sites.values() for entry in site.audit.kept]
    return "\n".join(entry.reason for entry in kept if entry.reason)
