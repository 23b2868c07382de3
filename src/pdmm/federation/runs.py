"""The names of :mod:`pdmm.federation`, where scripts of version 0.1 look for them."""

from pdmm.flare.model_files import Model, history_path, read_model
from pdmm.flare.overview import Overview, overview
from pdmm.flare.runs import (
    RunError,
    checked_name,
    complete,
    named_method,
    new_name,
    resumption,
    settings,
)

__all__ = [
    "Model",
    "Overview",
    "RunError",
    "checked_name",
    "complete",
    "history_path",
    "named_method",
    "new_name",
    "overview",
    "read_model",
    "resumption",
    "settings",
]
