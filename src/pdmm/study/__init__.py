"""Models from tables that stay at the sites of a federation: what a site answers, and who asks."""

from pdmm.study.asked import describe, evaluate, fit
from pdmm.study.description import Description
from pdmm.study.evaluation import Evaluation
from pdmm.study.held_table import HeldTable
from pdmm.study.table_outlook import TableOutlook, table_outlook
from pdmm.study.table_site import TableSite

__all__ = [
    "Description",
    "Evaluation",
    "HeldTable",
    "TableOutlook",
    "TableSite",
    "describe",
    "evaluate",
    "fit",
    "table_outlook",
]
