"""Runs between organisations: what a researcher calls. NVIDIA FLARE carries the messages."""

from pdmm.flare.runs import (
    Model,
    Overview,
    RunError,
    complete,
    named_method,
    overview,
    read_model,
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
