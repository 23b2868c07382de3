"""Sites whose columns, classes or l2 differ are refused, and tell the server no names."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pdmm
from builders.sites import SHARES, FakeSites
from pdmm.engines.sites.roster import SiteError
from pdmm.engines.sites.sites import Sites

Make = Callable[[Sequence[int]], pdmm.Problem]
ROWS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


def squares(names: str | None) -> pdmm.Problem:
    A: Any = ROWS if names is None else pd.DataFrame(ROWS, columns=list(names))
    return pdmm.LeastSquares([A], [np.ones(3)])


def softmax(names: str, labels: str, l2: float = 0.1, classes: Any = None) -> pdmm.Problem:
    table = pd.DataFrame(ROWS, columns=list(names))
    return pdmm.SoftmaxRegression([table], [list(labels)], classes, l2=l2)


def with_ben(others: Callable[[], pdmm.Problem], ben: Callable[[], pdmm.Problem]) -> FakeSites:
    return FakeSites(lambda clients: (ben if 5 in clients else others)(), SHARES)


def federated(sites: FakeSites) -> Sites:
    return Sites(sites, timeout=1.0, patience=20.0, absent="wait")


@pytest.mark.parametrize(
    ("ben", "what"),
    [
        (lambda: softmax("vu", "aba"), "columns"),
        (lambda: softmax("uw", "aba"), "columns"),
        (lambda: softmax("uv", "aca"), "classes"),
        (lambda: softmax("uv", "aba", classes=["b", "a"]), "classes"),
        (lambda: softmax("uv", "aba", l2=0.2), "l2"),
    ],
)
def test_sites_that_differ_are_refused(ben: Callable[[], pdmm.Problem], what: str) -> None:
    sites = with_ben(lambda: softmax("uv", "aba"), ben)
    with pytest.raises(SiteError, match=f"site ben has other {what} than site ana") as refusal:
        federated(sites)
    assert "'u'" not in str(refusal.value)


def test_a_site_without_names_goes_with_any() -> None:
    assert federated(with_ben(lambda: squares("uv"), lambda: squares(None))).clients == 3
    sites = FakeSites(lambda clients: squares({0: None, 5: "uv", 6: "vu"}[clients[0]]), SHARES)
    with pytest.raises(SiteError, match="site cyd has other columns than site ben"):
        federated(sites)


def test_names_do_not_travel() -> None:
    told = with_ben(lambda: softmax("uv", "aba"), lambda: softmax("uv", "bab"))
    answer = told.sites["ana"].answer("hello", {})
    assert set(answer["alike"]) == {"columns", "classes", "l2"}
    assert all(len(digest) == 64 for digest in answer["alike"].values())
