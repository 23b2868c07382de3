"""The ends of the spectrum of every A_i'A_i: a least-squares problem's L_i and mu_i."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.threads import Threads
from pdmm.problems.eigenvalues import ends, ends_of_rows, largest
from pdmm.problems.least_squares.forms import LARGEST_MATRIX, Forms
from pdmm.problems.quadratic import Gram

Vector = npt.NDArray[np.float64]


class Spectra(NamedTuple):
    """The smallest and the largest eigenvalue of every A_i'A_i."""

    mu: Vector
    L: Vector
    complete: bool
    """Whether mu is the smallest eigenvalue, and not only a bound of it."""


def spectra(forms: Forms, threads: Threads) -> Spectra:
    """The ends of all spectra, in float64."""
    if forms.sparse and forms.dimension > LARGEST_MATRIX:
        return _tops(forms, threads)
    mu = np.zeros(forms.clients)
    L = np.zeros(forms.clients)

    def fill_tall(clients: slice) -> None:
        H = forms.moments(clients).H
        mu[clients], L[clients] = ends(H.astype(np.float64, copy=False))

    def fill_wide(clients: slice) -> None:
        for i in range(clients.start, clients.stop):
            A, _ = forms.rows.wide(i)
            mu[i], L[i] = ends_of_rows(A)

    # In float64 a run works on the same matrices, or makes its own from them.
    if forms.tall and forms.small and forms.dtype == np.float64:
        forms.hold(Gram, threads)
    list(threads.map(fill_tall if forms.tall else fill_wide, forms.few()))
    return Spectra(mu, L, complete=True)


def _tops(forms: Forms, threads: Threads) -> Spectra:
    """The largest eigenvalues, from products alone; the smallest are no less than 0."""

    def top(i: int) -> float:
        A, _ = forms.rows.wide(i)
        value, error = largest(lambda v: (A @ v) @ A, forms.dimension)
        return value + error

    L = np.array(list(threads.map(top, range(forms.clients))))
    return Spectra(np.zeros(forms.clients), L, complete=False)
