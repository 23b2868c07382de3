"""Finished runs on disk: each is written as it finishes, whole or not at all.

A run is known by its parameters. One that exists is not computed again; one whose parameters
changed is another run.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pdmm.common.whole_files import write_whole

log = logging.getLogger(__name__)

VERSION = 1  # of what a run means: raise it when the same parameters give other numbers

Parameters: TypeAlias = Mapping[str, Any]
Columns: TypeAlias = dict[str, npt.NDArray[Any]]


class Store:
    """A folder of finished runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, parameters: Parameters) -> Path:
        """Where a run with these parameters is kept."""
        digest = hashlib.sha256(self._text(parameters).encode()).hexdigest()[:16]
        return self.folder / f"{parameters['experiment']}-{digest}.safetensors"

    @staticmethod
    def _text(parameters: Parameters) -> str:
        return json.dumps({"version": VERSION, **parameters}, sort_keys=True)

    def get(self, parameters: Parameters) -> Columns | None:
        """The run's columns, or None if it is not there (or not whole)."""
        path = self.path(parameters)
        if not path.is_file():
            return None
        try:
            with safe_open(path, framework="numpy") as file:
                if (file.metadata() or {}).get("parameters") != self._text(parameters):
                    return None
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            log.info("%s is not a whole run, and is made again: %s", path, error)
            return None

    def put(self, parameters: Parameters, columns: Columns) -> None:
        """Write a run, so that it is there whole or not at all."""
        contents = save(
            {name: np.ascontiguousarray(column) for name, column in columns.items()},
            metadata={"parameters": self._text(parameters)},
        )
        path = self.path(parameters)
        write_whole(path, contents)
        log.debug("stored a finished run in %s", path)
