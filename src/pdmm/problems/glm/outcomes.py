"""Outcomes as users give them: numbers, labels of two or more classes, times and events."""

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from pdmm.common.arrays import as_array, is_table
from pdmm.common.caller import warn_caller
from pdmm.common.matrices import largest_entry
from pdmm.common.per_client import Given
from pdmm.common.sizes import check_sizes
from pdmm.problems.glm.cox import check_survival
from pdmm.problems.glm.entries import entries, numbers
from pdmm.problems.softmax.labels import Kind, label_array

Array = npt.NDArray[Any]
Vector = npt.NDArray[np.float64]
FLOAT64 = np.dtype(np.float64)


class Outcomes(NamedTuple):
    """Every client's outcomes, and the classes that they are of."""

    values: list[Vector]
    """(n_i,), classes as their numbers; (n_i, 2) for times and events."""
    classes: tuple[Any, ...] | None = None


def read_outcomes(
    family: str, y: Given, counts: Sequence[int], reference: Any, classes: Any = None
) -> Outcomes:
    """What the user gave as y, refused or made what the family needs.

    Args:
        family: its name.
        y: what was given; (n, 1) is taken for (n,).
        counts: how many rows each client has.
        reference: the class that the user named, or None.
        classes: all of them, as the user gave them, or None.
    """
    if family == "cox":
        return Outcomes([_survival(y, i, n) for i, n in enumerate(counts)])
    if family == "multinomial":
        return _classes(y, counts, reference, classes)
    if family == "binomial":
        return _binomial(y, counts)
    values = [_numbers(y, i, n) for i, n in enumerate(counts)]
    for i, own in enumerate(values):
        _check_range(family, y.label(i), own)
    check_sizes("y", np.array([largest_entry(own) for own in values]), FLOAT64, y.label)
    if family == "poisson":
        _warn_of_fractions(y, values)
    return Outcomes(values)


def _check_length(y: Given, i: int, array: Array, count: int) -> None:
    if array.shape != (count,):
        raise ValueError(f"{y.label(i)} has shape {array.shape}, but client {i} has {count} rows")


def _numbers(y: Given, i: int, count: int) -> Vector:
    array = entries(y.label(i), y.values[i])
    _check_length(y, i, array, count)
    return numbers(y.label(i), array)


def _check_range(family: str, label: str, y: Vector) -> None:
    if family == "poisson" and (y < 0).any():
        row = int((y < 0).argmax())
        raise ValueError(f"{label} has {y[row]:g} in row {row}: a count is never negative")
    if family == "gamma" and (y <= 0).any():
        row = int((y <= 0).argmax())
        raise ValueError(
            f"{label} has {y[row]:g} in row {row}: an outcome of the gamma family is above 0"
        )
    outside = (y < 0) | (y > 1)
    if family == "binomial" and outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"{label} has {y[row]:g} in row {row}: outcomes of the binomial family are 0 or 1, "
            "fractions between them, booleans or two strings"
        )


def _warn_of_fractions(y: Given, values: list[Vector]) -> None:
    for i, own in enumerate(values):
        broken = own != np.floor(own)
        if broken.any():
            row = int(broken.argmax())
            warn_caller(
                f"{y.label(i)} has {own[row]:g} in row {row}, which is no whole number: a Poisson "
                "model is fitted to it as if it were one (quasi-likelihood)"
            )
            return


def _survival(y: Given, i: int, count: int) -> Vector:
    label = y.label(i)
    given = y.values[i]
    if is_table(given):
        for column in ("time", "event"):
            if column not in given.columns:
                raise ValueError(f"{label} has no column {column!r}: cox needs time and event")
        time, event = (as_array(f"{label}, {name},", given[name]) for name in ("time", "event"))
    else:
        array = as_array(label, given)
        if array.ndim != 2 or array.shape[1] != 2:
            raise ValueError(
                f"{label} has shape {array.shape}: cox needs the columns time and event, (rows, 2)"
            )
        time, event = array.T
    both = np.stack([numbers(f"{label}, time,", time), numbers(f"{label}, event,", event)], axis=1)
    if len(both) != count:
        raise ValueError(f"{label} has {len(both)} rows, but client {i} has {count} rows")
    check_survival(label, both[:, 0], both[:, 1])
    return both


def _binomial(y: Given, counts: Sequence[int]) -> Outcomes:
    found = [label_array(y.label(i), y.values[i]) for i in range(len(counts))]
    kinds = {kind for _, kind in found}
    for i, (labels, _) in enumerate(found):
        _check_length(y, i, labels, counts[i])
    if "strings" in kinds:
        for i, (_, kind) in enumerate(found):
            own = entries(y.label(i), y.values[i])
            if kind is None and own.dtype.kind == "O":
                _refuse_label(y.label(i), own)
        _check_one_kind(y, found)
        classes = _all_labels(found)
        if len(classes) != 2:
            raise ValueError(
                f"y has the {len(classes)} labels {', '.join(map(repr, classes[:5]))}, but the "
                "binomial family has two: give 0 and 1 where a class may be absent, or take the "
                "family 'multinomial'"
            )
        return Outcomes([(labels == classes[1]).astype(np.float64) for labels, _ in found], classes)
    values = [_numbers(y, i, count) for i, count in enumerate(counts)]
    for i, own in enumerate(values):
        _check_range("binomial", y.label(i), own)
    return Outcomes(values, (False, True) if kinds == {"booleans"} else (0, 1))


def _check_one_kind(y: Given, found: list[tuple[Array, Kind | None]]) -> None:
    first = found[0][1]
    for i, (labels, kind) in enumerate(found):
        if kind != first:
            raise ValueError(
                f"{y.label(i)} holds {kind or labels.dtype}, but {y.label(0)} holds "
                f"{first or found[0][0].dtype}"
            )


def _broken(labels: Array) -> npt.NDArray[np.bool_]:
    """Which numbers are not whole."""
    return np.asarray(~np.isfinite(labels) | (labels != np.floor(labels)))


def _refuse_label(label: str, labels: Array) -> NoReturn:
    """Name the first label that is none, or is of another kind than those before."""
    what = "labels are whole numbers, strings or booleans, all of one kind"
    if labels.dtype.kind == "f":
        row = int(_broken(labels).argmax())
        raise ValueError(f"{label} has {labels[row]:g} in row {row}: {what}")
    if labels.dtype.kind != "O":
        raise ValueError(f"{label} holds {labels.dtype}: {what}")
    kinds = [_kind(entry) for entry in labels.tolist()]
    row = next((r for r, kind in enumerate(kinds) if kind is None or kind != kinds[0]), 0)
    raise ValueError(f"{label} has {labels[row]!r} in row {row}: {what}")


def _kind(entry: Any) -> type | None:
    """Of which kind a label is; None for what is no label."""
    return next((kind for kind in (bool, int, str) if isinstance(entry, kind)), None)


def _all_labels(found: list[tuple[Array, Kind | None]]) -> tuple[Any, ...]:
    return tuple(sorted({label for labels, _ in found for label in np.unique(labels).tolist()}))


def _booleans(classes: Sequence[Any]) -> list[Any]:
    return [label for label in classes if isinstance(label, bool | np.bool_)]


def _classes(y: Given, counts: Sequence[int], reference: Any, given_classes: Any) -> Outcomes:
    found = []
    for i, count in enumerate(counts):
        labels, kind = label_array(y.label(i), y.values[i])
        _check_length(y, i, labels, count)
        if kind is None and labels.dtype.kind == "f" and not _broken(labels).any():
            labels, kind = labels.astype(np.int64), "whole numbers"
        if kind is None:
            _refuse_label(y.label(i), entries(y.label(i), y.values[i]))
        found.append((labels, kind))
    _check_one_kind(y, list(found))
    classes = _all_labels(list(found))
    if given_classes is not None:
        classes = _given_classes(given_classes, classes)
    if len(classes) < 2:
        raise ValueError(
            f"y has the one class {classes[0]!r} at all clients: a multinomial model needs two or "
            "more"
        )
    # True == 1 in Python, but who writes reference=True does not mean the class 1.
    known = reference in classes and not (reference is True and True not in _booleans(classes))
    if reference is not None and reference is not False and not known:
        raise ValueError(
            f"reference is {reference!r}, which is not among the classes "
            f"{', '.join(map(repr, classes[:5]))}"
        )
    return Outcomes(
        [np.searchsorted(classes, labels).astype(float) for labels, _ in found], classes
    )


def _given_classes(given: Any, seen: tuple[Any, ...]) -> tuple[Any, ...]:
    """All classes, sorted, of which clients have shown some."""
    classes = tuple(sorted(set(given)))
    strange = [label for label in seen if label not in classes]
    if strange:
        raise ValueError(
            f"y has the label {strange[0]!r}, which is not among the classes "
            f"{', '.join(map(repr, classes[:5]))}"
        )
    return classes
