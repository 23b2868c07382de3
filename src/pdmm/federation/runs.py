"""The same names as :mod:`pdmm.federation`, where scripts of version 0.1 look for them."""

from pdmm.federation import Model, RunError, complete, overview, read_model, resumption, settings

__all__ = ["Model", "RunError", "complete", "overview", "read_model", "resumption", "settings"]
