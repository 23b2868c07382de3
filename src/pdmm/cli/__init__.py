"""The command ``pdmm``: parse, call the API, show."""

from pdmm.cli.app import main

__all__ = ["main"]
