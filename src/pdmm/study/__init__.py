"""Models from tables that stay at the sites of a federation: what a site answers, and who asks."""

from pdmm.study.asked import describe, evaluate, fit
from pdmm.study.description import Description
from pdmm.study.evaluation import Evaluation
from pdmm.study.table_site import TableSite

__all__ = ["Description", "Evaluation", "TableSite", "describe", "evaluate", "fit"]
