"""What is accepted: NumPy's numbers, whole numbers, ragged arrays."""

from typing import Any

import numpy as np
import pytest

import pdmm
from builders.inputs import A, B, least_squares, scaled, softmax


@pytest.mark.parametrize(
    "method",
    [
        pdmm.PDMM(np.float64(2.0), relaxation=np.float64(0.9)),
        pdmm.FedSplit(np.float64(0.5)),
        pdmm.InexactFedSplit(np.float64(0.5), np.float64(0.01), np.int64(2)),  # type: ignore[arg-type]
        pdmm.GPDMM(np.float64(0.01), np.int64(3), rho=np.float64(2.0)),  # type: ignore[arg-type]
        pdmm.AGPDMM(np.float32(0.01), np.int32(3)),  # type: ignore[arg-type]
        pdmm.Scaffold(np.float64(0.01), np.int64(3), np.float64(1.0)),  # type: ignore[arg-type]
        pdmm.FedAvg(np.float64(0.01), np.uint8(3)),  # type: ignore[arg-type]
        pdmm.GradientDescent(np.float64(0.01)),
    ],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.parametrize("kind", ["least squares", "softmax"])
def test_numpy_scalars_do_not_widen_a_float32_run(method: pdmm.Method, kind: str) -> None:
    problem = scaled(np.float32, 1.0) if kind == "least squares" else softmax(np.float32)
    parameters = vars(method)
    assert all(type(v) in (float, int, bool, str, type(None)) for v in parameters.values())
    plain = pdmm.solve(
        problem, type(method)(**parameters), rounds=3, weights=[1.0, 2.0, 1.0, 1.0, 3.0]
    )
    seen: list[Any] = []
    result = pdmm.solve(
        problem,
        method,
        rounds=np.int64(3),  # type: ignore[arg-type]
        record_every=np.int32(1),  # type: ignore[arg-type]
        seed=np.int64(0),  # type: ignore[arg-type]
        weights=np.array([1, 2, 1, 1, 3]),
        callback=lambda r, x: seen.append(x.dtype),
    )
    assert result.x.dtype == np.float32
    assert set(seen) == {np.dtype(np.float32)}
    np.testing.assert_array_equal(result.x, plain.x)


def test_clients_of_a_float32_run_see_float32_alone() -> None:
    problem = scaled(np.float32, 1.0)
    f = problem.at(slice(0, 5))
    x = np.ones((5, 4), np.float32)
    for method in (pdmm.GPDMM(np.float64(0.01), 2), pdmm.AGPDMM(np.float64(0.01), 2)):
        memory = method.client_start(x)
        message = method.broadcast(method.server_start(x[0], lambda v, t: v))
        upload, draft = method.client(message, memory, f, 2)
        fields = [*upload, *draft, *method.accept(memory, draft, upload)]
        assert {field.dtype for field in fields} == {np.dtype(np.float32)}


def test_whole_numbers_are_accepted_as_data() -> None:
    ints = pdmm.LeastSquares([[[1, 2], [3, 5]], [[1, 0], [0, 1]]], [[1, 2], [0, 1]])
    stacked = pdmm.LeastSquares(np.array([[[1, 2], [3, 5]], [[1, 0], [0, 1]]]), [[1, 2], [0, 1]])
    floats = pdmm.LeastSquares(
        [np.array([[1.0, 2], [3, 5]]), np.eye(2)], [np.array([1.0, 2]), np.array([0.0, 1])]
    )
    runs = [pdmm.solve(p, pdmm.PDMM(2), rounds=5, x0=[1, 2]) for p in (ints, stacked, floats)]
    for run in runs:
        assert run.x.dtype == np.float64
        np.testing.assert_allclose(run.x, runs[2].x, atol=1e-14)
    pixels = [np.arange(12, dtype=np.uint8).reshape(4, 3)] * 2
    labels = [np.array([0, 1, 1, 0], dtype=np.uint8)] * 2
    problem = pdmm.SoftmaxRegression(pixels, labels, classes=np.int64(2))
    same = pdmm.SoftmaxRegression([p.astype(float) for p in pixels], labels, classes=2)
    x, same_x = (pdmm.solve(p, pdmm.AGPDMM(0.01, 2), rounds=3).x for p in (problem, same))
    np.testing.assert_array_equal(x, same_x)


def test_a_ragged_object_array_is_a_list_of_clients() -> None:
    ragged = np.empty(3, dtype=object)
    ragged[:] = A
    result = pdmm.solve(pdmm.LeastSquares(ragged, B), pdmm.PDMM(1.0), rounds=3)
    np.testing.assert_array_equal(result.x, pdmm.solve(least_squares(), pdmm.PDMM(1.0), rounds=3).x)
