"""What a user gives as data: a table with a column of clients, one table each, or files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pdmm.tables.client_table import ClientTable

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")


@dataclass(frozen=True)
class Given:
    """The clients' tables, and how many rows belong to none."""

    clients: list[ClientTable]
    unlabelled: int = 0


def read_data(data: Any, client: Any, columns: Sequence[str] | None, missing: str) -> Given:
    """Take the user's data apart, a table for each client.

    Args:
        data: a DataFrame, a dict of these (or of paths), a path, or a list of paths.
        client: the column that holds the clients' names.
        columns: those that are needed; None for all.
        missing: "error" refuses rows without a client.
    """
    if client is not None and not isinstance(client, str):
        raise ValueError(f"client must be the name of a column, got {client!r}")
    if isinstance(data, pd.DataFrame):
        return _split(_named(data, "data").copy(deep=False), client, missing, "data")
    if isinstance(data, str | Path):
        path = Path(data)
        frame = read_table(path, _wanted(columns, client))
        return _split(frame, client, missing, str(path), path_name(path))
    if isinstance(data, Mapping):
        return Given(_from_dict(data, client, columns))
    if isinstance(data, Sequence) and data and all(isinstance(one, str | Path) for one in data):
        paths = [Path(one) for one in data]
        if len(paths) == 1:
            return read_data(paths[0], client, columns, missing)
        _refuse_twice([path_name(path) for path in paths], [str(path) for path in paths])
        return Given(_from_dict({path_name(path): path for path in paths}, client, columns))
    raise ValueError(
        "data must be a DataFrame, a dict of DataFrames by client, or the paths of CSV or Parquet "
        f"files, got {type(data).__name__}"
    )


def _wanted(columns: Sequence[str] | None, client: str | None) -> list[str] | None:
    if columns is None:
        return None
    return list(dict.fromkeys([*columns, *([] if client is None else [client])]))


def _split(
    frame: pd.DataFrame, client: str | None, missing: str, what: str, name: str = "all"
) -> Given:
    if not len(frame):
        raise ValueError(f"{what} has no rows")
    if client is None:
        return Given([ClientTable(name, frame)])
    if client not in frame:
        raise ValueError(
            f"client={client!r} is no column of {what}, which has {_listed(frame.columns)}"
        )
    codes, labels = pd.factorize(frame[client], sort=True)
    unlabelled = int((codes < 0).sum())
    if unlabelled and missing == "error":
        raise ValueError(
            f"{unlabelled} of the {len(frame)} rows have no {client!r}, so that they belong to no "
            "client: give missing='drop' to leave them out"
        )
    if not len(labels):
        raise ValueError(f"no row of {what} has a {client!r}")
    order = np.argsort(codes, kind="stable")[unlabelled:]
    ends = np.append(0, np.cumsum(np.bincount(codes[codes >= 0], minlength=len(labels))))
    names = [client_name(label) for label in labels]
    _refuse_twice(names, [repr(label) for label in labels])
    ordered = _taken_over(frame, order)
    own = [
        ClientTable(name, ordered.iloc[start:end], client)
        for name, start, end in zip(names, ends[:-1], ends[1:], strict=True)
    ]
    return Given(own, unlabelled)


def _taken_over(frame: pd.DataFrame, order: Any) -> pd.DataFrame:
    """The rows in an order in which those of a client are next to each other.

    Columns leave the frame one by one, so that a large table is not held twice.
    """
    columns = {}
    for name in list(frame):
        columns[name] = frame.pop(name).array.take(order)
    return pd.DataFrame(columns, copy=False)


def _from_dict(
    data: Mapping[Any, Any], client: str | None, columns: Sequence[str] | None
) -> list[ClientTable]:
    if not data:
        raise ValueError("data has no clients")
    names = [client_name(name) for name in data]
    _refuse_twice(names, [repr(name) for name in data])
    found = []
    for key, name in zip(data, names, strict=True):
        frame = data[key]
        if isinstance(frame, str | Path):
            wanted = None if columns is None else [one for one in columns if one != client]
            frame = read_table(Path(frame), wanted)
        if not isinstance(frame, pd.DataFrame):
            raise ValueError(
                f"data[{key!r}] (client {name!r}) must be a DataFrame, got {type(frame).__name__}"
            )
        own = _named(frame, f"the table of client {name!r}")
        found.append(ClientTable(name, own, client, value=key))
    return found


def _named(frame: pd.DataFrame, what: str) -> pd.DataFrame:
    """The table, whose columns must have names of their own."""
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise ValueError(f"{what} has two columns {str(twice[0])!r}")
    if all(isinstance(name, str) for name in frame.columns):
        return frame
    return frame.rename(columns=str)


def client_name(label: Any) -> str:
    """A client's name: 3.0, which is 3 in a column with missing entries, is called 3."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def _refuse_twice(names: Sequence[str], where: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name, place in zip(names, where, strict=True):
        if name in seen:
            raise ValueError(
                f"two clients have the name {name!r} ({seen[name]} and {place}): give each its own"
            )
        seen[name] = place


def path_name(path: Path) -> str:
    """The name of the client whose file this is: site_a.csv.gz is site_a."""
    name = path.name
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return path.stem


def read_table(path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a CSV or Parquet file; of the columns named, those that it has.

    Args:
        path: of the file, whose ending says what it is.
        columns: those that are needed; None for all.
    """
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        raise ValueError(f"{path}: a table must be one of {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    keep = None if columns is None else set(columns)
    try:
        if name.endswith((".parquet", ".pq")):
            return _read_parquet(path, keep)
        wanted = None if keep is None else lambda column: column in keep
        separator = "\t" if ".tsv" in name else ","
        _refuse_renamed(path, separator, keep or set())
        frame = pd.read_csv(path, sep=separator, usecols=wanted, low_memory=False)
        header = frame.columns if len(frame.columns) else pd.read_csv(path, sep=separator, nrows=0)
    except ImportError:
        raise
    except (ValueError, OSError) as error:  # what pandas and pyarrow raise derives from these
        raise ValueError(f"{path} cannot be read: {error}") from None
    if columns is not None and not len(frame.columns):
        raise ValueError(
            f"{path} has none of the columns {_listed(columns)}: it has {_listed(list(header))}, "
            f"separated by {separator!r}"
        )
    return frame


def _refuse_renamed(path: Path, separator: str, keep: set[str]) -> None:
    """Refuse a file with two columns of a name that is needed, of which pandas renames one."""
    first = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str)
    names = first.iloc[0].tolist()
    twice = sorted(name for name in keep if names.count(name) > 1)
    if twice:
        raise ValueError(f"there are two columns {twice[0]!r}: rename one of them")


def _read_parquet(path: Path, keep: set[str] | None) -> pd.DataFrame:
    from pyarrow import default_memory_pool, parquet

    file = parquet.ParquetFile(path)
    names = file.schema_arrow.names
    found = names if keep is None else [name for name in names if name in keep]
    # One column at a time, into memory that is given back: the table is never held twice.
    columns = {}
    for name in found:
        columns[name] = file.read(columns=[name]).column(name).to_pandas().copy()
        default_memory_pool().release_unused()
    return pd.DataFrame(columns, copy=False)


def _listed(names: Any) -> str:
    shown = ", ".join(repr(str(name)) for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
