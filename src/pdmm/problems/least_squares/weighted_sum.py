"""F = sum_i w_i f_i of least squares as one function, whose minimum a direct solve finds."""

import numpy as np
import numpy.typing as npt

from pdmm.common.rounding import length
from pdmm.common.team import Team
from pdmm.common.threads import Threads
from pdmm.problems.least_squares.data import Moments, products_in_a_row
from pdmm.problems.least_squares.forms import LARGEST_MATRIX, Forms
from pdmm.problems.quadratic.total import DenseTotal, QuadraticTotal, WideTotal, stacked

Vector = npt.NDArray[np.float64]

DENSE_BYTES = 2**27  # sparse data that are smaller than this when they are dense may be made so


def weighted_sum(
    forms: Forms,
    counts: npt.NDArray[np.int64],
    weights: Vector,
    threads: Threads,
    team: Team,
) -> QuadraticTotal | None:
    """F of all members of a team; None where a matrix of sparse data would be too large.

    Args:
        forms: of the data, or of their moments.
        counts: how many samples each of these clients has.
        weights: of these clients.
        threads: for blocks of them.
        team: the processes that hold the other clients; all of them make this call.
    """
    data = forms.samples
    facts = [counts.sum(), data is None, forms.sparse]
    samples, without, sparse = team.sum(np.array(facts, dtype=np.float64))
    if sparse and not without and forms.dimension > LARGEST_MATRIX:
        return None
    if without:  # at one member at least
        data = None
    if data is not None and sparse:  # too many rows are left out: moments say nearly as much
        small = 8 * samples * forms.dimension <= DENSE_BYTES
        data = data.dense() if small else None
    if data is not None and samples < forms.dimension:
        A = team.gather(stacked(data.A, weights))
        b = team.gather(stacked(data.b, weights))
        return WideTotal(np.concatenate(A), np.concatenate(b))
    here = _weighted_moments(forms, weights, threads)
    H = team.sum(np.asarray(here.H, dtype=np.float64))
    g = team.sum(np.asarray(here.g, dtype=np.float64))
    c = team.sum(np.asarray(here.c))
    columns = np.sqrt(np.diagonal(H))
    return DenseTotal(
        H,
        g,
        float(c),
        operations=_operations(forms, int(counts.max())),
        linear=length(columns) * float(np.sqrt(2 * c)),  # |a_j|·|b| <= ‖a_j‖ ‖b‖
        data=data,
        weights=weights,
        team=team,
    )


def _operations(forms: Forms, samples: int) -> int:
    """How many operations stand one after the other in a number of a weighted sum."""
    blocks = forms.few()
    clients = max(len(range(block.start, block.stop)) for block in blocks)
    # SciPy adds up the products of sparse rows one after the other.
    products = samples if forms.sparse else products_in_a_row(samples)
    return products + clients + len(blocks) + 2


def _weighted_moments(forms: Forms, weights: Vector, threads: Threads) -> Moments:
    """The sums over clients of w_i H_i, w_i g_i and w_i c_i."""

    def weigh(clients: slice) -> Moments:
        w = weights[clients]
        part = forms.moments(clients)
        return Moments(np.tensordot(w, part.H, 1), w @ part.g, float(w @ part.c))

    H = np.zeros((forms.dimension, forms.dimension))
    g = np.zeros(forms.dimension)
    c = 0.0
    for part in threads.map(weigh, forms.few()):
        H += part.H
        g += part.g
        c += part.c
    return Moments(H, g, c)
