"""Settings and states as JSON and arrays: what a file or a message may say, and no code."""

from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
CALLABLE = "a callable"
_KEEPABLE: dict[str, type[Any]] = {}  # classes that a file or a message may name

T = TypeVar("T")


def keepable(kind: type[T]) -> type[T]:
    """Let files and messages name a dataclass, whose fields are plain values or keepable too."""
    _KEEPABLE[kind.__name__] = kind
    return kind


def pack(value: Any, arrays: Arrays, name: str) -> Any:
    """A value as JSON; its arrays go into ``arrays`` under names that begin with ``name``."""
    if isinstance(value, np.ndarray):
        arrays[name] = np.ascontiguousarray(value)
        return {"array": name, "shape": list(value.shape)}
    if isinstance(value, np.generic):
        return pack(value.item(), arrays, name)
    if isinstance(value, dict):
        return {"dict": {k: pack(v, arrays, f"{name}.{k}") for k, v in value.items()}}
    if isinstance(value, (list, tuple)):
        return [pack(v, arrays, f"{name}.{k}") for k, v in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        kept = {f.name: getattr(value, f.name) for f in fields(value)}
        kind = type(value).__name__
        own = _KEEPABLE.get(kind) is not type(value)  # a user's own
        word = "code" if own or any(map(callable, kept.values())) else "class"
        return {word: kind, "fields": pack(kept, arrays, name)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if callable(value):
        return {"code": CALLABLE}
    raise ValueError(f"{name} cannot be kept in a checkpoint: {value!r}")


def unpack(value: Any, arrays: Arrays) -> Any:
    """The value again; code is left as it stands in the file, for the caller to replace."""
    if isinstance(value, list):
        return [unpack(v, arrays) for v in value]
    if not isinstance(value, dict):
        return value
    if "code" in value:
        return {word: unpack(part, arrays) for word, part in value.items()}
    if "array" in value:
        return arrays[value["array"]].reshape(value["shape"])
    if "dict" in value:
        return {k: unpack(v, arrays) for k, v in value["dict"].items()}
    kind = _KEEPABLE.get(value["class"])
    if kind is None:
        raise ValueError(f"{value['class']!r} is not one of pdmm's classes")
    return kind(**unpack(value["fields"], arrays))
