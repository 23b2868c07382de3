"""Questions about tables come before a run, and are no run themselves."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import pdmm.study
from builders.sites import Payload
from builders.study import FakeTables
from pdmm.engines import Refused
from pdmm.tables.silos import Options

LOGISTIC = Options(family="binomial")


def table(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((200, 2))
    y = (rng.random(200) < 1 / (1 + np.exp(-rows[:, 0]))).astype(int)
    return pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "y": y})


@pytest.mark.parametrize("verb", ["value", "gradient", "constants", "round"])
def test_no_point_is_answered_before_the_run_is_agreed_upon(verb: str) -> None:
    """Whatever a policy asks of runs, such as that the sites compute x, it would not hold there."""
    asked: list[str] = []

    def fault(site: str, word: str, payload: Payload) -> Any:
        table_site = fake.sites[site]
        if word != "join" or not table_site.consent.subject or site in asked:
            return
        asked.append(site)
        with pytest.raises(Refused):
            table_site.answer(verb, {"x": np.zeros(3), "which": "L"})
        said = [entry.reason for entry in table_site.audit.kept][-1]
        assert said == "a run's question is asked, and no run has begun since the survey"

    fake = FakeTables({name: table(k) for k, name in enumerate(("ana", "ben", "cyd"))}, fault=fault)
    fit = pdmm.study.fit(fake, "y ~ a + b", LOGISTIC)
    assert sorted(asked) == ["ana", "ben", "cyd"]
    assert np.isfinite(fit.params).all()
