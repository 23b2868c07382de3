"""Vectors of nodes and edges: as users give them, and as results have them."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import pdmm
from builders.networks import CASES, follow, sequences
from twins.networks import Pdmm


@pytest.mark.parametrize("form", ["dict", "array", "nested list", "mapping", "one for all"])
@pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
def test_x0_in_every_form(form: str, schedule: str) -> None:
    case = CASES["vectors"]
    rng = np.random.default_rng(0)
    x0 = case.start(rng)
    rows = np.stack([x0[node] for node in case.nodes])
    forms: dict[str, Any] = {
        "dict": {node: x0[node].tolist() for node in reversed(case.nodes)},
        "array": rows,
        "nested list": rows.tolist(),
        "mapping": pdmm.solve_network(case.network, iterations=3).x,
        "one for all": rows[0],
    }
    if form == "mapping":
        x0 = dict(forms[form])
    if form == "one for all":
        x0 = dict.fromkeys(case.nodes, rows[0])
    twin, turns = Pdmm(case.twin, 1.0, x0), sequences(case, None, 0)
    step = twin.synchronous if schedule == "synchronous" else lambda: twin.asynchronous(next(turns))
    follow(case, twin, step, 8, x0=forms[form], schedule=schedule)


def test_x0_as_a_number() -> None:
    case = CASES["numbers"]
    twin = Pdmm(case.twin, 1.0, {node: np.array([2.5]) for node in case.nodes})
    follow(case, twin, twin.synchronous, 5, x0=2.5)


def test_the_caller_s_x0_is_left_alone() -> None:
    rows = np.ones((7, 3))
    result = pdmm.solve_network(CASES["vectors"].network, iterations=3, x0=rows)
    assert (rows == 1).all()
    assert not np.shares_memory(np.asarray(result.x), rows)


@pytest.mark.parametrize(
    "x0",
    [
        {0: [1.0]},
        np.ones((3, 2)),
        [1.0, 2.0],
        "a",
        [np.nan] * 3,
        np.full((7, 3), 1e160),
        sparse.coo_matrix(np.ones((7, 3))),
        {node: sparse.coo_matrix(np.ones((1, 3))) for node in range(7)},
        [[1.0], [1.0, 2.0]],
    ],
)
def test_x0_is_checked(x0: Any) -> None:
    with pytest.raises(ValueError, match="x0"):
        pdmm.solve_network(CASES["vectors"].network, x0=x0)


def test_x0_of_different_lengths_needs_a_dict() -> None:
    case = CASES["constraints"]
    with pytest.raises(ValueError, match="x0 must be a dict"):
        pdmm.solve_network(case.network, x0=[0.0])
    wrong = {**case.twin.zeros(), case.nodes[2]: np.zeros(9)}
    with pytest.raises(ValueError, match="x0") as caught:
        pdmm.solve_network(case.network, x0=wrong)
    assert repr(case.nodes[2]) in str(caught.value)
    with pytest.raises(ValueError, match="x0 has 'nobody'"):
        pdmm.solve_network(case.network, x0={**case.twin.zeros(), "nobody": [0.0]})


def test_the_result_s_mappings() -> None:
    case = CASES["constraints"]
    result = pdmm.solve_network(case.network, 0.7, 5, optimum=False)
    assert list(result.x) == case.nodes
    assert len(result.x) == len(case.nodes)
    assert case.nodes[0] in result.x
    assert "nobody" not in result.x
    assert result.x.get("nobody") is None
    with pytest.raises(KeyError, match="no node 'nobody'"):
        result.x["nobody"]
    with pytest.raises(KeyError, match="no node"):
        result.x[[1]]
    with pytest.raises(ValueError, match="different lengths"):
        np.asarray(result.x)
    ends = {(i, j) for i, j in case.twin.B}
    assert set(result.dual) == ends
    assert len(result.dual) == len(ends) == 2 * len(case.twin.edges)
    for i, j in ends:
        assert result.dual[i, j].shape == (len(case.twin.B[i, j]),)
    missing: Any
    for missing in ((case.nodes[0], "nobody"), (case.nodes[0],) * 2, "ab", 3, (1, 2, 3), ([1], 2)):
        with pytest.raises(KeyError, match="no edge"):
            result.dual[missing]
    apart = [pair for pair in itertools.combinations(case.nodes, 2) if pair not in ends]
    with pytest.raises(KeyError, match="no edge"):
        result.dual[apart[0]]


def test_x_as_an_array() -> None:
    case = CASES["quadratics"]
    result = pdmm.solve_network(case.network, 0.7, 5)
    rows = np.asarray(result.x)
    assert rows.shape == (len(case.nodes), 2)
    for row, node in zip(rows, case.nodes, strict=True):
        assert (row == result.x[node]).all()
    assert np.asarray(result.x, dtype=np.float32).dtype == np.float32
    copy = np.array(result.x)
    copy[:] = 0
    assert np.asarray(result.x).any()
    numbers = pdmm.solve_network(CASES["numbers"].network, 0.7, 5)
    assert np.asarray(numbers.x).shape == (8, 1)
    assert all(numbers.x[node].shape == (1,) for node in numbers.x)
    assert all(numbers.dual[ends].shape == (1,) for ends in numbers.dual)
