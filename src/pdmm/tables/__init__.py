"""From tables in silos to a model that people can use: formulas, inference, files, reports."""

try:
    import formulaic as _formulaic  # noqa: F401
    import pandas as _pandas  # noqa: F401
except ImportError as error:
    raise ImportError(f"models from tables need {error.name}: pip install 'pdmm[tables]'") from None

from pdmm.tables.example import load_rand_health
from pdmm.tables.fitted import Fit, load
from pdmm.tables.fitting import fit

__all__ = ["Fit", "fit", "load", "load_rand_health"]
