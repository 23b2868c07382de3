"""The labels of softmax regression: whole numbers, strings or booleans, and their classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.common.arrays import refuse_masked
from pdmm.common.checks import whole
from pdmm.common.per_client import Given, as_vector
from pdmm.problems.softmax.block import Labels

Kind: TypeAlias = Literal["whole numbers", "strings", "booleans"]
Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Coding:
    """Which label is which column of x."""

    kind: Kind
    classes: int | tuple[Any, ...]
    """The number of classes, whose labels are 0, 1, ..., or the labels themselves."""

    @property
    def count(self) -> int:
        """How many classes there are."""
        return self.classes if isinstance(self.classes, int) else len(self.classes)

    def codes(self, name: str, labels: Array) -> Labels:
        """Labels as columns of x, counted from 0."""
        if isinstance(self.classes, int):
            least, largest = labels.min(), labels.max()
            if least < 0 or largest >= self.classes:
                bad = least if least < 0 else largest
                raise ValueError(f"{name} has the label {bad}, outside 0 .. {self.classes - 1}")
            return labels.astype(np.intp)  # bytes would overflow as indices
        number = {label: k for k, label in enumerate(self.classes)}
        found, where = np.unique(labels, return_inverse=True)
        for label in found.tolist():
            if label not in number:
                raise ValueError(
                    f"{name} has the label {label!r}, which is not among the classes "
                    f"{_listed(self.classes)}"
                )
        return np.array([number[label] for label in found.tolist()], dtype=np.intp)[where]

    def labels(self, codes: Labels) -> Array:
        """The labels of columns of x."""
        if isinstance(self.classes, int):
            return codes
        return np.array(self.classes)[codes]


def label_array(name: str, value: Any) -> tuple[Array, Kind | None]:
    """Labels as an array of numbers, strings or booleans, and which; None for anything else."""
    array = as_vector(name, value)
    if array.dtype.kind in "iu":
        return array, "whole numbers"
    if array.dtype.kind == "b":
        return array, "booleans"
    # NumPy makes strings of what stands beside a string in a list.
    entries = array if array.dtype.kind != "U" or hasattr(value, "dtype") else _entries(value)
    if entries.dtype.kind == "O":
        kinds = {type(entry) for entry in entries.flat}
        if kinds and all(issubclass(kind, (bool, np.bool_)) for kind in kinds):
            return array.astype(bool), "booleans"
        if not kinds or not all(issubclass(kind, str) for kind in kinds):
            return array, None
        return array.astype(str), "strings"
    return array, "strings" if array.dtype.kind == "U" else None


def _entries(value: Any) -> Array:
    """The entries of a list, each as it is."""
    return np.array(value, dtype=object)


def read_labels(y: Given, counts: Sequence[int], rows: str) -> tuple[list[Array], Kind]:
    """Every client's labels (n,), and what they are.

    Args:
        y: what was given; (n, 1) is taken for (n,).
        counts: how many rows each client has.
        rows: the name of the argument that has them.
    """
    arrays: list[Array] = []
    first: Kind | None = None
    for i, (value, count) in enumerate(zip(y.values, counts, strict=True)):
        labels, kind = label_array(y.label(i), value)
        if labels.shape != (count,):
            raise ValueError(
                f"{y.label(i)} has shape {labels.shape}, but {rows}[{i}] has {count} rows"
            )
        if kind is None:
            advice = "try y.astype(int)" if labels.dtype.kind == "f" else "all of one kind"
            raise ValueError(
                f"{y.label(i)} must hold whole numbers, strings or booleans, got {labels.dtype}: "
                f"{advice}"
            )
        if first is None:
            first = kind
        if kind != first:
            raise ValueError(f"{y.label(i)} holds {kind}, but {y.label(0)} holds {first}")
        arrays.append(labels)
    assert first is not None
    return arrays, first


def coding(classes: Any, arrays: list[Array], kind: Kind) -> Coding:
    """The classes as they were given, or as the clients have them."""
    if classes is None:
        return Coding(kind, _found(arrays, kind))
    if isinstance(classes, (Sequence, np.ndarray)) and not isinstance(classes, str):
        return Coding(kind, _listed_classes(classes, kind))
    count = whole("classes", classes, at_least=2)
    if kind == "whole numbers":
        return Coding(kind, count)
    found = _found(arrays, kind)
    if len(found) != count:
        raise ValueError(
            f"classes is {count}, but y has the {len(found)} labels {_listed(found)}: leave "
            "classes out, or list the labels"
        )
    return Coding(kind, found)


def _found(arrays: list[Array], kind: Kind) -> tuple[Any, ...]:
    """All labels of all clients, sorted."""
    if kind == "whole numbers":
        raise ValueError(
            "classes must be given where labels are whole numbers: how many there are, for labels "
            "0 .. classes - 1, or a list of the labels"
        )
    if kind == "booleans":
        return False, True
    found = tuple(sorted({label for labels in arrays for label in np.unique(labels).tolist()}))
    if len(found) < 2:
        raise ValueError(
            f"y has the one label {found[0]!r}, but there must be at least two classes: list all "
            "labels that there are as classes"
        )
    return found


def _listed_classes(classes: Any, kind: Kind) -> tuple[Any, ...]:
    refuse_masked("classes", classes)
    labels, own = label_array("classes", classes)
    if own != kind or labels.ndim != 1:
        raise ValueError(f"classes must list {kind}, as y holds, got {classes!r}")
    listed = tuple(labels.tolist())
    if len(listed) < 2:
        raise ValueError(f"classes must list at least 2 labels, got {classes!r}")
    if len(set(listed)) < len(listed):
        raise ValueError(f"classes must list every label once, got {classes!r}")
    return listed


def _listed(labels: tuple[Any, ...]) -> str:
    shown = ", ".join(repr(label) for label in labels[:5])
    return shown if len(labels) <= 5 else f"{shown} and {len(labels) - 5} more"
