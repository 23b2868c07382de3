"""PDMM whose rho changes while clients are missing, every client's z_i in the server's hands."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


@dataclass
class Look:
    """What a client saw when it last looked."""

    number: int
    x_s: Vector
    slope: Vector
    x: Vector
    lam: Vector


@dataclass
class Twin:
    """Everything literally: a change of rho rescales the z_i of all clients, also of absent ones.

    Args:
        prox: (i, a, rho) -> argmin f_i(x) + rho/2 ‖x - a‖².
        gradient: (i, x) -> grad f_i(x).
        weights: of the clients.
        h: prox of h at (v, t), or the identity.
        x0: the start.
        rho: the first.
        relaxation: of the steps.
    """

    prox: Callable[[int, Vector, float], Vector]
    gradient: Callable[[int, Vector], Vector]
    weights: Vector
    h: Callable[[Vector, float], Vector]
    x0: Vector
    rho: float
    relaxation: float

    def __post_init__(self) -> None:
        m = len(self.weights)
        self.z = [self.x0.copy() for _ in range(m)]
        self.looks: list[Look | None] = [None] * m
        self.look = 0
        self.begun = 0.0
        self.heard = 0.0
        self.deciding = False
        self.said: list[tuple[float, ...]] = []
        self.place()

    def place(self) -> None:
        mean = np.average(self.z, axis=0, weights=self.weights)
        self.x = self.h(mean, 1 / (self.rho * self.weights.sum()))

    def duals(self) -> Vector:
        """lam_{s|i} of all clients."""
        return np.array([self.rho * (z - self.x) for z in self.z])

    def step(self, there: Any) -> None:
        """A round in which the uploads of these clients arrive."""
        x_s = self.x
        for i in there:
            a = 2 * x_s - self.z[i]
            x = self.prox(i, a, self.rho)
            now = Look(self.look, x_s, self.gradient(i, x_s), x, self.rho * (a - x))
            self.z[i] = self.z[i] + 2 * self.relaxation * (x - x_s)
            then = self.looks[i]
            if then is None:
                self.looks[i] = now
            elif then.number < now.number:
                self.looks[i] = now
                dx_s, dlam = now.x_s - then.x_s, now.lam - then.lam
                sizes = dx_s @ dx_s, dx_s @ (now.slope - then.slope)
                others = dlam @ dlam, dlam @ (now.x - then.x)
                self.said.append((self.weights[i], *sizes, *others))
        total = self.weights.sum()
        self.heard += self.weights[there].sum() / total
        self.place()
        fresh = sum(one[0] for one in self.said) / total
        if self.deciding and (fresh >= 0.8 or self.heard >= self.begun + 3):
            self.deciding = False
            self.decide()
        if not self.deciding and self.heard >= max(2.0, 2 * self.begun):
            self.look += 1
            self.begun = self.heard
            self.said = []
            self.deciding = True

    def decide(self) -> None:
        """Take the power of two times rho that is nearest to sqrt(mu L)."""
        w, x_s, slope, lam, product = np.array(self.said).T
        mu = (w @ slope) / (w @ x_s)
        L = (w @ lam) / (w @ product)
        power = float(np.clip(np.rint(np.log2(np.sqrt(mu * L) / self.rho)), -3, 3))
        new = self.rho * 2**power
        centre = self.x
        self.z = [centre + (z - centre) * self.rho / new for z in self.z]
        self.rho = new
        self.place()
