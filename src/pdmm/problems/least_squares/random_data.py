"""The paper's random least-squares problem: A_i ~ N(0, 1), b_i = A_i y_0 + v_i."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import not_negative, whole
from pdmm.common.sizes import LARGEST
from pdmm.common.threads import Threads
from pdmm.problems.block import Floats
from pdmm.problems.least_squares.data import Moments, moments


@dataclass(frozen=True)
class RandomData:
    """How the data are drawn; each client has its own stream of random numbers."""

    clients: range
    """The clients' numbers, which say what their streams are."""
    samples: int
    features: int
    noise: float
    seed: int
    dtype: np.dtype[Any]

    @classmethod
    def checked(
        cls, clients: Any, samples: Any, features: Any, noise: Any, seed: Any, dtype: Any
    ) -> Self:
        """From what the user gave."""
        return cls(
            _numbers(clients),
            whole("samples", samples, at_least=1),
            whole("features", features, at_least=1),
            _noise(noise),
            whole("seed", seed, at_least=0),
            _float_dtype(dtype),
        )

    @cached_property
    def y0(self) -> npt.NDArray[np.float64]:
        """What the data are made of."""
        return np.random.default_rng([self.seed, 0]).standard_normal(self.features)

    @property
    def wide(self) -> bool:
        """Whether the data are smaller than their moments."""
        return 2 * self.samples < self.features

    def rows(self, threads: Threads) -> tuple[Floats, Floats]:
        """All A_i (clients, n, d) and b_i (clients, n)."""
        made = list(threads.map(self._client, self.clients))
        A = np.stack([A.astype(self.dtype) for A, _ in made])
        b = np.stack([b.astype(self.dtype) for _, b in made])
        return A, b

    def moments(self, threads: Threads) -> Moments:
        """The moments alone; the data are used and dropped."""
        m, d = len(self.clients), self.features
        H = np.empty((m, d, d), self.dtype)
        g = np.empty((m, d), self.dtype)
        c = np.empty(m)

        def fill(i: int) -> None:
            A, b = self._client(self.clients[i])
            found = moments(A, b)
            H[i] = found.H
            g[i] = found.g
            c[i] = found.c

        list(threads.map(fill, range(m)))
        return Moments(H, g, c)

    def _client(self, number: int) -> tuple[Floats, Floats]:
        """A_i and b_i of a client, in float64."""
        rng = np.random.default_rng([self.seed, 1, number])
        A = rng.standard_normal((self.samples, self.features))
        return A, A @ self.y0 + self.noise * rng.standard_normal(self.samples)


def _numbers(clients: Any) -> range:
    if not isinstance(clients, range):
        return range(whole("clients", clients, at_least=1))
    if not len(clients) or min(clients) < 0:
        raise ValueError(f"clients must be a range of client numbers, got {clients!r}")
    return clients


def _noise(noise: Any) -> float:
    size = not_negative("noise", noise)
    most = LARGEST[np.dtype(np.float32)]
    if size > most:
        raise ValueError(f"noise must be at most {most:g}, got {noise!r}")
    return size


def _float_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}") from None
    if kind not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {kind}")
    return kind
