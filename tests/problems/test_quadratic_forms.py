"""All forms of quadratics against steps that are written out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pdmm
from builders.formulas import literal_steps
from builders.samples import DTYPES, SHAPES, rows_of
from pdmm.common.threads import Threads
from pdmm.problems.quadratic import Gram, Quadratics, Rows, Spectral

Array = npt.NDArray[Any]


def forms_of(A: Sequence[Array], b: Sequence[Array]) -> dict[str, Quadratics]:
    """The same quadratics in every form: data as a list, matrices, eigenbases thin and full."""
    d = A[0].shape[1]
    dtype = A[0].dtype
    wide = [(a.astype(np.float64), v.astype(np.float64)) for a, v in zip(A, b, strict=True)]
    g = np.array([a.T @ v for a, v in wide]).astype(dtype)
    c = np.array([0.5 * v @ v for _, v in wide])
    H = np.array([a.T @ a for a, _ in wide])
    e, V = np.linalg.eigh(H)
    forms: dict[str, Quadratics] = {
        "rows": Rows(list(A), g, c),
        "gram": Gram(H.astype(dtype), g, c),
        "full": Spectral(
            np.ascontiguousarray(V.swapaxes(1, 2)).astype(dtype),
            e.clip(min=0).astype(dtype),
            g,
            c,
            full=True,
        ),
    }
    # As few rows as the largest client needs, and more rows than any needs: the rest is zero.
    for name, rank in (("thin", min(d, max(len(a) for a in A))), ("padded", d + 1)):
        W, thin = np.zeros((len(A), rank, d), dtype), np.zeros((len(A), rank), dtype)
        for i, (a, _) in enumerate(wide):
            _, s, vectors = np.linalg.svd(a, full_matrices=False)
            W[i, : len(s)], thin[i, : len(s)] = vectors, s * s
        forms[name] = Spectral(W, thin, g, c, full=False)
    if len({len(a) for a in A}) == 1:
        forms["stacked rows"] = Rows(np.stack(list(A)), g, c)
    return forms


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    samples=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    d=st.integers(1, 6),
    count=st.integers(1, 6),
    rho=st.sampled_from([0.0, 0.7, 30.0]),
    shifted=st.booleans(),
    anchored=st.booleans(),
    average=st.booleans(),
    deficient=st.booleans(),
    common=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 1000),
)
def test_steps_of_every_form_follow_the_loop(
    samples: list[int],
    d: int,
    count: int,
    rho: float,
    shifted: bool,
    anchored: bool,
    average: bool,
    deficient: bool,
    common: bool,
    dtype: Any,
    seed: int,
) -> None:
    rng, m = np.random.default_rng(seed), len(samples)
    A, b = rows_of(samples, d, dtype, seed)
    if deficient:
        for a in A:
            a[:, -1] = a[:, 0]
            a[-1] = a[0]
    start = rng.standard_normal(d if common else (m, d)).astype(dtype)
    shift = rng.standard_normal((m, d)).astype(dtype) if shifted else None
    anchor = rng.standard_normal((m, d)).astype(dtype) if anchored else None
    if anchor is None:
        rho = 0.0
    largest = max(float(np.linalg.norm(a.astype(np.float64), 2)) ** 2 for a in A)
    step = 0.7 / (largest + rho + 1)
    expected = []
    for i, (a, v) in enumerate(zip(A, b, strict=True)):
        a, v = a.astype(np.float64), v.astype(np.float64)
        expected.append(
            literal_steps(
                lambda x, _, a=a, v=v: a.T @ (a @ x - v),  # type: ignore[misc]
                start if common else start[i],
                step,
                count,
                None if shift is None else shift[i],
                None if anchor is None else anchor[i],
                rho,
            )
        )
    tight = 1e-12 if dtype is np.float64 else 2e-5
    for name, form in forms_of(A, b).items():
        f = form.at(slice(0, m))
        last, mean = f.steps(
            start, step=step, count=count, shift=shift, anchor=anchor, rho=rho, average=average
        )
        size = 1 + max(float(np.abs(x).max()) for pair in expected for x in pair)
        wanted = np.array([x for x, _ in expected])
        np.testing.assert_allclose(last, wanted, atol=tight * size, err_msg=name)
        averages = np.array([x for _, x in expected]) if average else wanted
        np.testing.assert_allclose(mean, averages, atol=tight * size, err_msg=name)
        assert last.dtype == mean.dtype == dtype
        assert f.tally.gradients == count * m


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_form_for_graphs_has_the_matrices_of_the_data(shape: str, dtype: Any) -> None:
    A, b = rows_of(SHAPES[shape], dtype=dtype)
    with Threads(1) as threads:
        form = pdmm.LeastSquares(A, b).quadratics(threads)
    for i, (a, v) in enumerate(zip(A, b, strict=True)):
        wide = a.astype(np.float64)
        f = form.at(slice(i, i + 1))
        H = np.stack([form.product(slice(i, i + 1), e)[0] for e in np.eye(6, dtype=dtype)])
        tight = 1e-12 if dtype is np.float64 else 1e-5
        np.testing.assert_allclose(H, wide.T @ wide, atol=tight * (1 + np.abs(wide.T @ wide).max()))
        assert f.value(np.zeros(6, dtype))[0] == pytest.approx(0.5 * float(v @ v), rel=1e-6)
