"""Loading and splitting of data."""

from pdmm.data.images import Images, by_class, load
from pdmm.data.sources import NAMES, DataError, fetch
from pdmm.data.splits import split

__all__ = ["NAMES", "DataError", "Images", "by_class", "fetch", "load", "split"]
