"""Runs between organisations: what a researcher calls. NVIDIA FLARE carries the messages."""

from pdmm.flare.model_files import Model, read_model
from pdmm.flare.runs import (
    Overview,
    RunError,
    complete,
    named_method,
    overview,
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
