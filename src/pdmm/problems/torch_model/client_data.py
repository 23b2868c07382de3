"""The clients' samples as tensors: read once, checked, and taken out by their numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset, default_collate


class Samples(NamedTuple):
    """A client's samples: rows of X, and what belongs to each."""

    X: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.X)


def read(datasets: Any, device: torch.device) -> list[Samples]:
    """The samples of every client, on the device that they are worked on.

    Args:
        datasets: one dataset of PyTorch, or pair of tensors, for each client.
        device: where they are to be. This is the one place where data move.
    """
    found = [_read(_label(i), given) for i, given in enumerate(_each(datasets))]
    for i, samples in enumerate(found):
        _check_alike(_label(i), samples, found[0])
    return [Samples(own.X.to(device), own.y.to(device)) for own in found]


def _each(datasets: Any) -> Sequence[Any]:
    if isinstance(datasets, Mapping):
        datasets = list(datasets.values())
    if isinstance(datasets, Dataset | Tensor) or not isinstance(datasets, Sequence):
        raise ValueError(
            "datasets must be a list with one dataset of PyTorch, or one pair of tensors (X, y), "
            f"for each client, got {type(datasets).__name__}"
        )
    if not datasets:
        raise ValueError("datasets is empty: at least one client is needed")
    return datasets


def _label(i: int) -> str:
    return f"datasets[{i}] (client {i})"


def _read(label: str, given: Any) -> Samples:
    if isinstance(given, TensorDataset):
        given = given.tensors
    elif isinstance(given, Dataset):
        given = _collected(label, given)
    pair = isinstance(given, tuple | list) and len(given) == 2
    if not pair or not all(isinstance(part, Tensor) for part in given):
        raise ValueError(f"{label} must be a dataset of pairs, or a pair of tensors (X, y)")
    X, y = (part.detach() for part in given)
    if X.ndim == 0 or y.ndim == 0:
        raise ValueError(f"{label}: X and y must have a row for each sample, not be numbers")
    if len(X) != len(y):
        raise ValueError(f"{label}: X has {len(X)} rows and y has {len(y)}")
    if len(X) == 0:
        raise ValueError(f"{label} is empty: every client needs a sample")
    for name, tensor in (("X", X), ("y", y)):
        _check_numbers(f"{label}: {name}", tensor)
    return Samples(X, y)


def _collected(label: str, dataset: Any) -> Any:
    """All samples of a dataset, in tensors."""
    try:
        samples = [dataset[k] for k in range(len(dataset))]
    except TypeError:
        raise ValueError(
            f"{label} must have a length and samples by number, as torch.utils.data.Dataset has"
        ) from None
    if not samples:
        raise ValueError(f"{label} is empty: every client needs a sample")
    return default_collate(samples)


def _check_numbers(label: str, tensor: Tensor) -> None:
    if tensor.dtype in (torch.float64, torch.float16, torch.bfloat16):
        raise ValueError(
            f"{label} is {tensor.dtype}, and the model computes in torch.float32: take .float()"
        )
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        raise ValueError(f"{label} has a NaN or an infinity in it")


def _check_alike(label: str, samples: Samples, first: Samples) -> None:
    """Refuse samples that are not of the same kind as client 0's."""
    for name in ("X", "y"):
        own: Tensor = getattr(samples, name)
        other: Tensor = getattr(first, name)
        if own.dtype != other.dtype:
            raise ValueError(
                f"{label}: {name} is {own.dtype}, but that of client 0 is {other.dtype}"
            )
        if own.shape[1:] != other.shape[1:]:
            raise ValueError(
                f"{label}: a row of {name} has shape {tuple(own.shape[1:])}, but one of client 0 "
                f"has {tuple(other.shape[1:])}"
            )
