"""A real table with sites, for examples and for trying things out."""

from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent


def load_rand_health() -> pd.DataFrame:
    """The RAND Health Insurance Experiment: 5,638 participants at six sites, in their first year.

    ``rand_health.txt`` beside this file has its source, and what the columns are. It is in the
    public domain.

    Example:
        >>> from pdmm.tables import load_rand_health
        >>> table = load_rand_health()
        >>> list(table)[:5]
        ['site', 'visits', 'visited', 'coinsurance', 'age']
        >>> len(table), table["site"].nunique()
        (5638, 6)
    """
    return pd.read_csv(FOLDER / "rand_health.csv.gz")
