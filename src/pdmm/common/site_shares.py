"""A row of the table that says how much of a run each site of a federation made."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SiteShare:
    """One site's part in a run, and whether it stands out.

    Shares are numbers from 0 to 1, which add up to 1 over all sites.
    """

    site: str
    clients: int
    weight: float
    """Its share of the weights."""
    uploads: float
    """Its share of the uploads: of their norms, times the weights, added up over the rounds."""
    smoothness: float | None
    """Its share of sum_i w_i L_i; None where the run did not need to know L."""
    flagged: bool
    """Whether it is an outlier: its data may be in other units, or wrong."""
    words: str
    """All of it in one sentence."""
