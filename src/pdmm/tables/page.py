"""The report: one HTML page about a fit that opens offline."""

from pathlib import Path
from typing import TYPE_CHECKING

from pdmm.common.whole_files import write_whole

if TYPE_CHECKING:
    from pdmm.tables.fitted import Fit


def write_report(fit: "Fit", path: Path) -> Path:
    """Write the page, whole or not at all."""
    write_whole(path, f"<pre>{fit.summary()}</pre>".encode())
    return path
