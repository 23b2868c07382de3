"""Studies and runs between organisations: what a researcher calls. NVIDIA FLARE carries them."""

from pdmm.flare.model_files import Model, read_model
from pdmm.flare.overview import Overview, overview
from pdmm.flare.researcher import Federation, connect
from pdmm.flare.runs import (
    RunError,
    complete,
    named_method,
    resumption,
    settings,
)

__all__ = [
    "Federation",
    "Model",
    "Overview",
    "RunError",
    "complete",
    "connect",
    "named_method",
    "overview",
    "read_model",
    "resumption",
    "settings",
]
