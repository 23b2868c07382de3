"""What a site has: a table in a file, or a problem that its own function makes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pdmm import Problem
from pdmm.engines.sites.site import Site
from pdmm.flare.site_problem import absolute, file_of, load
from pdmm.privacy.policy import Policy

if TYPE_CHECKING:
    from pdmm.privacy.identity import Identity
    from pdmm.study.table_site import TableSite


@dataclass(frozen=True)
class OwnProblem:
    """A problem that a function of the site's makes.

    Args:
        reference: `module:function` or `/folder/file.py:function`.
    """

    reference: str

    @property
    def name(self) -> str:
        """Under which the audit counts what leaves."""
        return self.reference

    @property
    def words(self) -> str:
        """What it is, for the site's operator."""
        return f"problem {self.reference}"

    @property
    def file(self) -> Path | None:
        """The file that holds it."""
        return file_of(self.reference)

    def settings(self) -> dict[str, Any]:
        """What the kit keeps of it."""
        return {"problem": self.reference}

    def check(self) -> None:
        """Refuse what cannot be used."""
        load(self.reference)

    def tried(self) -> Problem:
        """Make the problem once, to see that it can be made."""
        found = load(self.reference)()
        if not isinstance(found, Problem):
            kind = type(found).__name__
            raise ValueError(f"{self.reference} must return a pdmm problem, and returns a {kind}")
        return found

    def site(self, policy: Policy, folder: Path, identity: "Identity", by: str) -> Site:
        """The site that answers about it."""
        return Site(
            load(self.reference),
            policy,
            folder=folder,
            table=self.name,
            identity=identity,
            by=by,
        )


@dataclass(frozen=True)
class OwnTable:
    """A table in a file.

    Args:
        path: of a CSV or Parquet file.
        columns: those that studies may use; None for all.
    """

    path: str
    columns: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """Under which the audit counts what leaves."""
        return self.path

    @property
    def words(self) -> str:
        """What it is, for the site's operator."""
        if self.columns is None:
            return f"table {self.path}, all of its columns"
        return f"table {self.path}, columns {', '.join(self.columns)}"

    @property
    def file(self) -> Path | None:
        """The file that holds it."""
        return Path(self.path)

    def settings(self) -> dict[str, Any]:
        """What the kit keeps of it."""
        return {"table": self.path, "columns": None if self.columns is None else [*self.columns]}

    def check(self) -> None:
        """Refuse what cannot be used."""
        self.read(Policy())

    def read(self, policy: Policy) -> Any:
        """The table as a study would find it now."""
        # here, not above: a site whose problem is its own needs no pandas
        from pdmm.study import HeldTable

        return HeldTable(Path(self.path), self.columns, policy.evaluation_share)

    def site(self, policy: Policy, folder: Path, identity: "Identity", by: str) -> "TableSite":
        """The site that answers about it."""
        from pdmm.study import TableSite

        return TableSite(self.path, self.columns, policy, folder=folder, identity=identity, by=by)


SiteData: TypeAlias = OwnProblem | OwnTable


def own_problem(reference: str) -> OwnProblem:
    """The problem of a reference, whose file is found from any folder."""
    return OwnProblem(absolute(reference))


def own_table(path: str | Path, columns: Sequence[str] | None = None) -> OwnTable:
    """The table of a file, which is found from any folder."""
    place = os.path.abspath(os.path.expanduser(path))
    return OwnTable(place, None if columns is None else tuple(columns))


def data_of(settings: dict[str, Any]) -> SiteData:
    """What a kit says that its site has."""
    if settings.get("table") is None:
        return OwnProblem(settings["problem"])
    columns = settings.get("columns")
    return OwnTable(settings["table"], None if columns is None else tuple(columns))
