"""The rho at which x and the duals are equally slow, where clients may be missing.

If rho is large, x_s is slow: in the direction in which the mean client bends least, by mu, its
error shrinks by a part of mu/(mu + rho) while every client is heard once. If rho is small, the
duals are slow: where a client bends most, by L, their error shrinks by a part of rho/(rho + L).
Both are equally slow at rho = sqrt(mu L).

Where mu is known, :func:`balanced_rho` takes two more things into account. A client that is much
steeper than the others pulls x_s no more than any other does, however much it adds to mu. And its
dual cannot change alone, as the duals add up to 0.

Where mu is not known, long moves tell, in which all that is not slow has come to rest. A client
compares with a round of long ago: x_s and its gradient there, and its own x_i and dual. Over all
clients,

    mu  is about  dx_s · dgrad f_i(x_s) / ‖dx_s‖²,        and seldom less,
    L   is about  ‖dlam_i‖² / (dlam_i · dx_i),            and seldom more.

The looks lie further and further apart. There are at most ``LOOKS`` of them, so every run ends with
one rho. It changes by powers of two, by which numbers of any precision are multiplied exactly.
"""

import math
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from pdmm.methods.spectral import in_24_bits

Vector = npt.NDArray[np.float64]

FIRST = 2.0  # uploads for each client, on average, before the first look
LOOKS = 10  # at 2, 4, 8, 16, ... uploads for each client
ENOUGH = 0.8  # of the clients, by weight, that a look must have heard
LATEST = 3.0  # uploads for each client in which those who are there have been heard
LARGEST = 3  # the power of two by which rho changes at a time
ROUNDING = 1e5  # times the precision: a smaller move of x_s is mostly rounding
REACH = 0.1  # over the root of the precision: the part of the first rho below which none goes


def balanced_rho(L: Vector, weights: Vector, mu: float) -> float:
    """The rho at which x_s and the duals are equally slow.

    Client i is taken to bend least by mu_i = mu L_i / (mean of the L_j), so that the mean of these
    is mu. x_s then loses the mean of the mu_i/(mu_i + rho) while every client is heard once.

    Args:
        L: of each client.
        weights: of each client.
        mu: of the weighted mean of their functions.
    """
    parts = weights / weights.sum()
    bends = mu * L / float(parts @ L)
    steepest = dual_steepness(L, parts)
    low = math.log(mu) - 30
    high = math.log(steepest) + 30
    for _ in range(100):
        middle = (low + high) / 2
        rho = math.exp(middle)
        if float(parts @ (bends / (bends + rho))) > rho / (rho + steepest):
            low = middle
        else:
            high = middle
    return math.exp(low)


def dual_steepness(L: Vector, parts: Vector) -> float:
    """The largest L that a change of the duals meets, which is not that of one client alone.

    With lam_i = 1, the others make up for it best by lam_j = -w_i L_j/S, S the sum of their w_j
    L_j. The L of all these together is the sum of the w lam² over that of the w lam²/L. Of many
    clients that are alike it is their L; of one that is far steeper than m - 1 others, it is about
    m times theirs.

    Args:
        L: of each client.
        parts: their weights, which add up to 1.
    """
    mean = float(parts @ L)
    others = mean - parts * L
    some = others > 1e-12 * mean
    if not some.any():
        return float(L.max())  # there is but one
    squares = float(parts @ L**2) - parts * L**2
    own = L[some] * others[some] / mean
    most = float((own * (1 + parts[some] * squares[some] / others[some] ** 2)).max())
    return most if most > 0 else float(L.max())  # the others are flat


class Moves(NamedTuple):
    """Sums over clients of what has changed since the look before, by weight."""

    fresh: float = 0.0  # the clients that have been heard, of 1
    x_s: float = 0.0  # ‖dx_s‖²
    slope: float = 0.0  # dx_s · dgrad f_i(x_s)
    lam: float = 0.0  # ‖dlam_i‖²
    product: float = 0.0  # dlam_i · dx_i

    def plus(self, share: float, mean: "Moves") -> "Moves":
        """Count the clients of another round too."""
        return Moves(*(old + share * new for old, new in zip(self, mean, strict=True)))

    def balanced(self) -> float | None:
        """sqrt(mu L); None where one of them does not show."""
        if not (self.slope > 0 and self.product > 0):
            return None
        rho = math.sqrt(self.slope / self.x_s) * math.sqrt(self.lam / self.product)
        return rho if 0 < rho < math.inf else None


class Balance(NamedTuple):
    """The rho in use, and what the clients of the present look have said."""

    first: float  # the rho that the run began with
    rho: float
    look: int  # the number of the present look; in number 0, clients note where they are
    begun: float  # uploads for each client, on average, when it began
    heard: float  # the same by now
    closed: bool  # whether its clients have been enough
    moves: Moves

    @classmethod
    def start(cls, rho: float) -> Self:
        """The first rho."""
        rho = in_24_bits(rho)
        return cls(first=rho, rho=rho, look=0, begun=0.0, heard=0.0, closed=True, moves=Moves())

    @property
    def scale(self) -> float:
        """The first rho over the present one: a power of two."""
        return self.first / self.rho

    @property
    def over(self) -> bool:
        """Whether rho stays from now on, and clients need not look."""
        return self.closed and self.look == LOOKS

    def after(self, share: float, mean: Moves) -> Self:
        """A round in which these clients were heard."""
        heard = self.heard + share
        if self.closed:
            return self._replace(heard=heard)
        return self._replace(heard=heard, moves=self.moves.plus(share, mean))

    def complete(self) -> bool:
        """Whether the clients of this look are enough to decide."""
        if self.closed:
            return False
        return self.moves.fresh >= ENOUGH or self.heard >= self.begun + LATEST

    def decided(self, size: float, precision: float) -> Self:
        """Close the look, with the rho that it leads to.

        Args:
            size: ‖x_s‖².
            precision: the rounding unit of the clients' numbers.
        """
        closed = self._replace(closed=True)
        least = (ROUNDING * precision) ** 2 * self.moves.fresh * size
        if not self.moves.x_s > least:
            return closed
        rho = self.moves.balanced()
        if rho is None:
            return closed
        power = max(-LARGEST, min(LARGEST, round(math.log2(rho / self.rho))))
        rho = self.rho * 2.0**power
        # z_i is added up from numbers that are larger by this factor, and so is their rounding.
        if self.first / rho > max(self.scale, REACH / math.sqrt(precision)):
            return closed
        return closed._replace(rho=rho)

    def next(self) -> Self:
        """Begin the next look, if it is time."""
        due = max(FIRST, 2 * self.begun)
        if not self.closed or self.over or self.heard < due:
            return self
        return self._replace(look=self.look + 1, begun=self.heard, closed=False, moves=Moves())
