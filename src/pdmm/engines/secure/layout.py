"""What a sum is of: arrays with names, one after the other in one vector."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pdmm.methods.base import Method
from pdmm.methods.line_search import HUGE

Vector: TypeAlias = npt.NDArray[np.float64]


class Part(NamedTuple):
    """One array of a sum."""

    name: str
    shape: tuple[int, ...]
    """() for a number."""
    precise: bool = True
    """Whether each sum must be precise. Changes that vanish as a run goes on need not be: what one
    round has rounded away, the next one sends."""
    beyond: float = np.nan
    """What the sum is where a site's part is no number, or too large to be squared."""


@dataclass(frozen=True)
class Layout:
    """The arrays of a sum, in their order."""

    parts: tuple[Part, ...]

    @classmethod
    def of_shapes(cls, shapes: Mapping[str, tuple[int, ...]]) -> "Layout":
        """Of arrays by name; both ends sort the names."""
        return cls(tuple(Part(name, tuple(shapes[name])) for name in sorted(shapes)))

    @cached_property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(prod(part.shape) for part in self.parts)

    @cached_property
    def precise(self) -> npt.NDArray[np.bool_]:
        """(size,): of which numbers each sum must be precise."""
        return self._spread([part.precise for part in self.parts]).astype(bool)

    @cached_property
    def beyond(self) -> Vector:
        """(size,): what the sums are where a part is beyond all numbers."""
        return self._spread([part.beyond for part in self.parts])

    def _spread(self, each: list[Any]) -> Vector:
        counts = [prod(part.shape) for part in self.parts]
        return np.repeat(np.asarray(each, dtype=np.float64), counts)

    def flat(self, arrays: Mapping[str, Any]) -> Vector:
        """One vector of all arrays."""
        pieces = []
        for part in self.parts:
            piece = np.asarray(arrays[part.name], dtype=np.float64)
            if piece.shape != part.shape:
                raise ValueError(f"{part.name} has the shape {piece.shape}, not {part.shape}")
            pieces.append(piece.reshape(-1))
        return np.concatenate(pieces) if pieces else np.empty(0)

    def arrays(self, flat: Vector) -> dict[str, Vector]:
        """The arrays of such a vector."""
        found = {}
        start = 0
        for part in self.parts:
            end = start + prod(part.shape)
            found[part.name] = flat[start:end].reshape(part.shape)
            start = end
        return found


UPLOAD = "upload."
COUNTS = ("gradients", "values", "exact")


def round_layout(method: Method, like: Any) -> Layout:
    """What the sum of a round is of: the fields of an upload, F, and counts.

    Args:
        method: of the run.
        like: an upload of one row.
    """
    exact = getattr(type(like), "EXACT", ())
    fields = [
        Part(UPLOAD + name, tuple(field.shape[1:]), name in exact, HUGE)
        for name, field in zip(like._fields, like, strict=True)
    ]
    apart = [Part("apart", (), precise=False)] if method.disagreement(like) is not None else []
    value = Part("value", (), beyond=np.inf)
    return Layout((*fields, *apart, value, *(Part(name, ()) for name in COUNTS)))


def rows_of(upload: Any) -> Vector:
    """(rows, numbers): the fields of an upload, one row per client."""
    clients = len(upload[0])
    fields = [np.asarray(field, dtype=np.float64).reshape(clients, -1) for field in upload]
    return np.concatenate(fields, axis=1)


def upload_of(like: Any, rows: Vector) -> Any:
    """The upload whose fields these rows are, in the dtype of the fields."""
    found = []
    start = 0
    for field in like:
        shape = field.shape[1:]
        end = start + prod(shape)
        found.append(rows[:, start:end].reshape(len(rows), *shape))
        start = end
    return type(like)(*found)
