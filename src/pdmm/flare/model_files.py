"""The files that a run of a federation leaves at the researcher: a model, and its history."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import safe_open
from safetensors.numpy import save

from pdmm.common.whole_files import write_together
from pdmm.engines.sites.told_parameters import Parameters
from pdmm.flare.following import Times

PARAMETERS = "parameters"  # in what a result says: their names, in the order of x


@dataclass(frozen=True)
class Model:
    """What a run of a federation found."""

    x: npt.NDArray[Any]
    """The model."""
    result: dict[str, Any]
    """What the server says of it: reason, rounds, objective, certificate, method, sites."""
    restarts: int = 0
    """How often the run had to be taken up again."""
    times: Times | None = None
    """How long FLARE and the run took, where this call submitted it."""


def model_bytes(
    x: npt.NDArray[Any], parameters: Parameters | None, said: Mapping[str, Any]
) -> bytes:
    """A model as a file of safetensors: the tensor x, or a state_dict where a module is trained.

    Args:
        x: the model.
        parameters: names and shapes of a module's parameters; None where x is no module's.
        said: of how it came about.
    """
    tensors = {"x": x} if parameters is None else state_dict(x, parameters)
    names = None if parameters is None else [name for name, _ in parameters]
    told = json.dumps({**said, PARAMETERS: names})
    return save(tensors, metadata={"format": "pdmm model", "result": told})


def state_dict(x: npt.NDArray[Any], parameters: Parameters) -> dict[str, npt.NDArray[np.float32]]:
    """The parts of x, under their names and in their shapes."""
    found = {}
    at = 0
    for name, shape in parameters:
        end = at + math.prod(shape)
        found[name] = x[at:end].reshape(shape).astype(np.float32)
        at = end
    return found


def read_model(path: Path, restarts: int = 0) -> Model:
    """A model that was written by a run of a federation."""
    with safe_open(path, framework="numpy") as file:
        said = json.loads((file.metadata() or {}).get("result", "{}"))
        names = said.get(PARAMETERS) or ["x"]
        x = np.concatenate([np.ravel(file.get_tensor(name)) for name in names])
        return Model(x, said, restarts)


def history_path(out: Path) -> Path:
    """Where the history of a model goes."""
    return out.with_suffix(".history.csv")


def check_out(out: Path, force: bool = False) -> None:
    """Refuse a file for the model that cannot be written, or that is there already."""
    for path in (out, history_path(out)):
        _check_free(out, path, force)
    _check_folder(out)


def check_place(out: Path, force: bool = False) -> None:
    """Refuse a single file that cannot be written, or that is there already."""
    _check_free(out, out, force)
    _check_folder(out)


def _check_free(out: Path, path: Path, force: bool) -> None:
    if path.is_dir():
        raise ValueError(f"out={str(out)!r}: {path} is a folder, and must be a file")
    if os.path.lexists(path) and not force:
        raise ValueError(_there(out, path))


def _check_folder(out: Path) -> None:
    folder = next(place for place in out.absolute().parents if place.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"out={str(out)!r}: nothing can be written to {folder}")


def write_model(out: Path, model: bytes, history: bytes, force: bool = False) -> None:
    """Write a model and its history, or neither; over what is there only where that is forced."""
    check_out(out, force)
    beside = history_path(out)
    try:
        write_together({beside: history, out: model}, replace=force)
    except FileExistsError as error:  # it has come since the check
        place = beside if os.path.lexists(beside) else out
        raise ValueError(_there(out, place)) from error


def _there(out: Path, path: Path) -> str:
    return (
        f"out={str(out)!r}: {path} is there already. Give another name, or say by --force "
        "(force=True) that it may be written over"
    )
