"""Networks: the accuracy of seven methods against rounds and bytes, and which rho is best."""
from pathlib import Path
from pdmm.paper.findings.verdicts import Runs
from pdmm.report.document import Section


def section(runs: Runs, out: Path, quick: bool) -> Section:
    return Section("Networks")
