"""Sites that hold tables, in this process."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from builders.certificates import Root
from builders.sites import OPEN, FakeSites, Fault
from pdmm.study import TableSite


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
        root = Root()
        self.identities = {
            name: root.site(name, organisation=f"org_{name}") if certified else None
            for name in tables
        }
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
