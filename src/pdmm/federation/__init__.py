"""Runs between organisations: what a researcher calls. NVIDIA FLARE carries the messages."""

from pdmm.flare.model_files import Model, read_model
from pdmm.flare.overview import Overview, overview
from pdmm.flare.runs import (
    RunError,
    complete,
    named_method,
    resumption,
    settings,
)

__all__ = [
    "Model",
    "Overview",
    "RunError",
    "complete",
    "named_method",
    "overview",
    "read_model",
    "resumption",
    "settings",
]
