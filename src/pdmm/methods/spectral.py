"""Spectral rho: the weight of the quadratic term, from how far the clients' points and duals move.

The next rho is ‖change of lam‖/‖change of x‖, stacked over clients: for a quadratic with the one
curvature c it is c. It changes at most ``CHANGES`` times, in rounds that lie further and further
apart. Only where it goes the same way again and again, as on functions like exp, whose curvature
may change by any factor along the way, it goes on in every round, and that does not count. A run
of changes one way costs two that count and is bounded itself, so every run ends with one rho.

Where a client's function does not bend in every direction, most of the change of x may lie where
f_i is flat and lam_i cannot change. The quotient is then far too small, and the two changes are
nearly perpendicular, which shows it: such a rho is not taken. A regulariser holds x_s where the
clients' functions are flat, so that without this rule rho would fall for ever.

References:
    Xu, Figueiredo, Goldstein, "Adaptive ADMM with spectral penalty parameter selection",
    AISTATS 2017.
"""

import math
from typing import NamedTuple, Self

import numpy as np

CHANGES = 8  # of rho, at rounds 2, 3, 5, 9, 17, ...: then it stays
LARGEST = 10.0  # factor by which rho changes at a time
SMALLEST = 2.0  # a smaller change is not worth a fresh start
LARGE = 3.0  # factor from which on a change counts as one more of the same way
COUNTED = 2  # changes one way that count; those that follow the same way do not
PERPENDICULAR = 0.3  # a cosine below it says that x moves where the functions are flat
CERTAINLY = 0.03  # the same where they are thought to bend: curvatures 1 : 4000 are above it
FOLLOWED = 40  # changes one way, at most, that are not counted but for the first


class Moves(NamedTuple):
    """Squared norms and a product over all clients, as the server averages them."""

    residual: float  # ‖f‖²
    dx: float  # ‖change of x‖²
    dlam: float  # ‖change of lam‖²
    x: float  # ‖x‖²
    product: float  # change of x · change of lam

    def beyond_rounding(self, precision: float) -> bool:
        """Whether x has moved by more than its last digits."""
        return not self.dx <= (1e5 * precision) ** 2 * self.x

    def perpendicular(self, cosine: float) -> bool:
        """Whether x moves mostly where lam does not change."""
        return self.product < cosine * math.sqrt(self.dx * self.dlam)


class Penalty(NamedTuple):
    """The rho in use, and when it may change next."""

    rho: float
    scale: float  # old rho / new rho, where it changes with the next message; else 1
    due: int  # the round in which rho may change next
    left: int  # changes that are left
    way: int  # how many large changes went the same way in a row: up; down, if negative
    comparable: bool  # whether the next changes of x and lam will refer to a good round

    @classmethod
    def start(cls, rho: float, adapts: bool) -> Self:
        """The first rho, which changes or stays."""
        left = CHANGES if adapts else 0
        return cls(rho=in_24_bits(rho), scale=1.0, due=2, left=left, way=0, comparable=False)

    def proposed(self, rounds: int, moves: Moves, precision: float, flat: bool = False) -> float:
        """The next rho; the same again where there is no reason to change it.

        Args:
            rounds: how many there have been.
            moves: what the clients said in the last one.
            precision: the rounding unit of their numbers.
            flat: whether no client's function is known to bend in every direction.
        """
        if not self.left or rounds < self.due or not self.comparable:
            return self.rho
        if not moves.beyond_rounding(precision):
            return self.rho
        rho = spectral_rho(moves, self.rho / LARGEST, self.rho * LARGEST)
        if rho < self.rho and moves.perpendicular(PERPENDICULAR if flat else CERTAINLY):
            return self.rho
        factor = max(rho / self.rho, self.rho / rho)
        return rho if factor > SMALLEST else self.rho

    def after_good_round(self, rounds: int) -> Self:
        """The next round can be compared with this one; if rho was due, it is due later."""
        due = self.due
        if rounds >= due:
            due = 2 * rounds - 1
        return self._replace(due=due, comparable=True)

    def changed(self, rho: float) -> Self:
        """Another rho, from the next message on."""
        rho = in_24_bits(rho)
        scale = in_24_bits(self.rho / rho)
        way = self._way_to(rho)
        if COUNTED < abs(way) <= FOLLOWED:
            return self._replace(rho=rho, scale=scale, way=way, due=0)
        return self._replace(rho=rho, scale=scale, way=way, left=self.left - 1)

    def _way_to(self, rho: float) -> int:
        """How many large changes will have gone the same way in a row."""
        if rho >= LARGE * self.rho:
            return max(self.way, 0) + 1
        if rho * LARGE <= self.rho:
            return min(self.way, 0) - 1
        return 0


def spectral_rho(moves: Moves, least: float, most: float) -> float:
    """‖change of lam‖/‖change of x‖, within bounds."""
    return float(np.clip(np.sqrt(moves.dlam / moves.dx), least, most))


def in_24_bits(value: float) -> float:
    """A number of 24 bits, which float32 holds too: the same at the server and at all clients."""
    part, power = math.frexp(value)
    return math.ldexp(round(part * 2**24) / 2**24, power)
