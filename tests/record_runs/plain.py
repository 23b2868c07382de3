"""Results as plain numbers, texts and arrays, by name, without anything that a clock says."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import pdmm

Plain = dict[str, Any]

RESULT = (
    *("x", "history", "reason", "diverged", "rounds", "method", "traffic", "optimum", "seed"),
    *("certificate", "scalars", "choices", "smoothness", "strong_convexity"),
)
NETWORK = (
    *("x", "dual", "history", "reason", "diverged", "iterations", "rho", "optimum", "seed"),
    "choices",
)
CONSTANTS = ("clients", "overall", "kind", "overall_kind")


def outcome(work: Any, folder: Path) -> Plain:
    """All that a run returns or raises, and its warnings."""
    found: Plain = {}
    with _heard(found):
        try:
            value = work(folder)
        except Exception as error:
            value = error
        flatten("", value, found)
    return {
        name: value.replace(str(folder), "FOLDER") if isinstance(value, str) else value
        for name, value in found.items()
    }


@contextmanager
def _heard(found: Plain) -> Iterator[None]:
    """Keep warnings; ranks warn in any order, so they are sorted."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield
    texts = sorted(f"{warning.category.__name__}: {warning.message}" for warning in heard)
    found["warnings"] = "\n".join(texts)


def flatten(name: str, value: Any, found: Plain) -> None:
    """Enter a value, or its parts under names that say where they are."""
    for part, inner in _parts(value):
        flatten(f"{name}/{part}" if name else part, inner, found)
    if not _has_parts(value):
        found[name] = value if _is_plain(value) else repr(value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "biufUS"
    return value is None or isinstance(value, bool | int | float | str)


def _has_parts(value: Any) -> bool:
    return not isinstance(value, pdmm.Method) and next(_parts(value), None) is not None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The named parts of what is no single value."""
    if isinstance(value, pdmm.Result):
        yield from ((name, getattr(value, name)) for name in RESULT)
    elif isinstance(value, pdmm.NetworkResult):
        yield from _of_network(value)
    elif isinstance(value, pdmm.Constants):
        yield from ((name, getattr(value, name)) for name in CONSTANTS)
    elif is_dataclass(value) and not isinstance(value, type | pdmm.Method):  # a certificate
        yield from ((field.name, getattr(value, field.name)) for field in fields(value))
    elif isinstance(value, BaseException):
        yield "error", type(value).__name__
        yield "message", str(value)
        yield "notes", tuple(getattr(value, "__notes__", ()))
        yield "history", getattr(value, "history", None)
    elif isinstance(value, Mapping):
        yield from ((str(key), part) for key, part in value.items() if key != "seconds")
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif isinstance(value, list | tuple):
        yield "count", len(value)
        yield from ((str(k), part) for k, part in enumerate(value))


def _of_network(result: pdmm.NetworkResult) -> Iterator[tuple[str, Any]]:
    """Its fields, the vectors of all nodes and of all edges each as one array."""
    for name in NETWORK:
        value = getattr(result, name)
        if name in ("x", "dual", "optimum") and value is not None:
            yield f"{name} of", repr([(key, vector.shape) for key, vector in value.items()])
            vectors = list(value.values())
            value = np.concatenate(vectors) if vectors else np.empty(0)
        yield name, value
