"""The constants L and mu of functions: what is known of them, and estimates from gradients."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import linalg

from pdmm.common.checks import ClientError, Floats, client_weights
from pdmm.common.team import ALONE, Team
from pdmm.common.threads import Threads
from pdmm.problems.eigenvalues import krylov

Vector = npt.NDArray[np.float64]
Kind: TypeAlias = Literal["exact", "bound", "estimate", "given"]
Which: TypeAlias = Literal["L", "mu"]
KINDS: tuple[Kind, ...] = ("estimate", "given", "bound", "exact")  # the weakest first

NOISE = 1e-6  # of a gradient, relative: it may have been computed in float32
LOCAL_STEPS = 16  # gradient calls that look for the curvature at one point


@dataclass(frozen=True, eq=False, repr=False)
class Constants:
    """A constant (L or mu) of every f_i, and of F = sum_i w_i f_i.

    Kinds: "exact" is exact to rounding; a "bound" is proven, an upper one of L or a lower
    one of mu; an "estimate" comes from differences of gradients and proves nothing; "given"
    is what the user said. ``float()`` of it is ``overall``.

    Example:
        >>> import numpy as np, pdmm
        >>> problem = pdmm.LeastSquares([np.diag([1.0, 2.0]), np.diag([3.0, 1.0])], np.ones((2, 2)))
        >>> problem.smoothness().clients.round(9).tolist()
        [4.0, 9.0]
        >>> round(float(problem.smoothness()), 9)   # of F: less than their sum
        10.0
        >>> round(float(problem.strong_convexity(weights=[1.0, 3.0])), 9)
        7.0
    """

    clients: Vector
    """That of every f_i, shape (m,)."""
    overall: float
    """That of F = sum_i w_i f_i (not the largest of the clients)."""
    kind: Kind
    """What ``clients`` are."""
    overall_kind: Kind
    """What ``overall`` is."""
    seconds: float
    """What it took to compute."""

    def __float__(self) -> float:
        return self.overall

    def __repr__(self) -> str:
        low, high = np.fmin.reduce(self.clients), np.fmax.reduce(self.clients)
        return (
            f"Constants(F {self.overall:.3g} {self.overall_kind}, "
            f"clients {low:.3g} .. {high:.3g} {self.kind}, {self.seconds:.2g} s)"
        )


# --- secants ------------------------------------------------------------------------------


def secant(x: Vector, g: Vector, y: Vector, h: Vector) -> tuple[float, float, float] | None:
    """‖dg‖/‖dx‖, dg·dx/‖dx‖² and the doubt about the latter, of points x, y and gradients g, h.

    None if the secant tells nothing: the points or the gradients are too close for their
    precision, or a number is not finite.
    """
    dx, dg = x - y, g - h
    length, change = float(np.sqrt(dx @ dx)), float(np.sqrt(dg @ dg))
    noise = NOISE * float(np.sqrt(g @ g) + np.sqrt(h @ h))
    if not (1e-9 * (1 + float(np.sqrt(x @ x))) < length < np.inf and noise < change < np.inf):
        return None
    return change / length, float(dg @ dx) / length / length, noise / length


class Shown:
    """What gradients have shown of the L_i and mu_i of some clients; NaN where nothing."""

    def __init__(self, steepest: Vector, least: Vector, bent: Vector) -> None:
        self.steepest, self.least = steepest, least
        self.bent = bent  # the least beyond doubt: below 0, the function is not convex

    @classmethod
    def nothing(cls, clients: int) -> "Shown":
        """Of clients whose gradients have not been seen yet."""
        return cls(*(np.full(clients, np.nan) for _ in range(3)))

    @property
    def arrays(self) -> list[Vector]:
        """All of it, a number a client."""
        return [self.steepest, self.least, self.bent]

    def join(self, clients: slice, others: Sequence[Vector]) -> None:
        """What has been shown elsewhere of some of the clients."""
        for mine, theirs, worse in zip(
            self.arrays, others, (np.fmax, np.fmin, np.fmin), strict=True
        ):
            mine[clients] = worse(mine[clients], theirs)

    def constants(self, weights: Any) -> tuple[Constants, Constants] | None:
        """L and mu as far as they have been shown; None if for no client."""
        w = client_weights(weights, len(self.steepest))
        if np.isnan(self.steepest).all():
            return None
        L, mu = self.steepest.copy(), np.minimum(self.least.clip(min=0), self.steepest)
        return (
            Constants(L, float(w @ L), "estimate", "estimate", 0.0),
            Constants(mu, float(w @ mu), "estimate", "estimate", 0.0),
        )

    def not_convex(self) -> tuple[int, float] | None:
        """The client that bends down most, and how far, beyond rounding (be it in float32)."""
        down = self.bent < -1e-6 * self.steepest
        if not down.any():
            return None
        i = int(np.where(down, self.bent, 0.0).argmin())
        return i, float(self.bent[i])


class Secants(Shown):
    """What the secants between a client's successive gradients say of its L_i and mu_i.

    Different clients may be added by different threads.
    """

    def __init__(self, clients: int) -> None:
        super().__init__(*Shown.nothing(clients).arrays)
        self._last: list[tuple[Vector, Vector] | None] = [None] * clients

    def add(self, i: int, x: Floats, g: Vector) -> None:
        """Client i's gradient at x; g must not be changed afterwards."""
        last, here = self._last[i], x.astype(np.float64)
        self._last[i] = (here, g)
        with np.errstate(all="ignore"):  # a diverging run is seen by its x_s
            found = None if last is None else secant(here, g, *last)
        if found is not None:
            steep, bend, doubt = found
            self.steepest[i] = np.fmax(self.steepest[i], steep)
            self.least[i] = np.fmin(self.least[i], bend)
            self.bent[i] = np.fmin(self.bent[i], bend + doubt)

    def state(self, dimension: int) -> list[Vector]:
        """All that was learnt, as arrays with a row a client."""
        points = np.full((2, len(self._last), dimension), np.nan)
        for i, last in enumerate(self._last):
            if last is not None:
                points[:, i] = last
        return [*self.arrays, *points]

    def load(self, state: list[Vector]) -> None:
        """Take that over."""
        self.steepest, self.least, self.bent, x, g = state
        self._last = [
            None if np.isnan(x[i]).all() else (x[i], g[i]) for i in range(len(self._last))
        ]


def estimate(
    gradient: Callable[[Vector], Vector | None], dimension: int, precision: float
) -> tuple[float, float] | None:
    """Estimates (mu, L) of one function from about 20 gradients.

    Lanczos on differences of gradients about 0 finds the two ends of the curvature there
    from inside; a few long secants follow, because it may not be the same everywhere.

    Args:
        gradient: x -> gradient, None where there is none.
        dimension: length of x.
        precision: the rounding unit of the gradients.

    Returns:
        None if no two points had a gradient.
    """
    rng = np.random.default_rng(0)
    seen = Secants(1)
    low, high = np.inf, -np.inf
    base: tuple[Vector, Vector] | None = None
    for scale, side in ((0, 0), (1, 0), (1, 1), (10, 0), (10, 1)):
        v = rng.standard_normal(dimension)
        # All entries positive, every other time: functions of logarithms are at home there.
        x = (scale / np.linalg.norm(v)) * (np.abs(v) if side else v)
        g = gradient(x)
        if g is not None:
            seen.add(0, x, g)
            base = base or (x, g)
    if base is None:
        return None
    x, g = base
    step = precision**0.25 * (1 + float(np.linalg.norm(x)))

    def product(v: Vector) -> Vector | None:
        moved = gradient(x + step * v)
        return None if moved is None else (moved - g) / step

    for diagonal, beside in krylov(product, dimension, LOCAL_STEPS):
        values = linalg.eigvalsh_tridiagonal(diagonal, beside[:-1])
        low, high = float(values[0]), float(np.abs(values[[0, -1]]).max())
    high = float(np.fmax(high, seen.steepest[0]))
    low = float(np.fmin(low, seen.least[0]))
    return None if high < 0 else (min(max(low, 0.0), high), high)


# --- of a problem -------------------------------------------------------------------------


class WithConstants:
    """The part of a problem that knows its L and mu: computed once, and kept."""

    clients: int
    dimension: int
    dtype: np.dtype[Any]
    parallel: bool

    def _gradient_of(self, i: int) -> Callable[[Floats], Floats]:
        """Client i's gradient, a function of x."""
        raise NotImplementedError

    def smoothness(self, weights: Any = None) -> Constants:
        """The L of every f_i and of F = sum_i w_i f_i: how fast their gradients can change.

        ``1 / problem.smoothness().clients.max()`` is a step size that is safe at every
        client. What was computed is kept.

        Args:
            weights: w_i > 0, one a client; ones if not given.
        """
        return self._constants("L", weights)

    def strong_convexity(self, weights: Any = None) -> Constants:
        """The mu of every f_i and of F = sum_i w_i f_i: how fast their gradients must change.

        Args:
            weights: w_i > 0, one a client; ones if not given.
        """
        return self._constants("mu", weights)

    @property
    def shown(self) -> Shown | None:
        """What the gradients of the last run have shown, if these were watched."""
        return None

    def secants(self, weights: Any = None) -> tuple[Constants, Constants] | None:
        """Estimates of L and mu from the gradients of the last run, None if there were none.

        They come from each client's successive gradients: L_i is at least the largest
        ‖dg‖/‖dx‖, and mu_i at most the least dg·dx/‖dx‖². NaN for a client that was not
        asked for two gradients.

        Args:
            weights: w_i > 0, one a client; ones if not given.
        """
        shown = self.shown
        return None if shown is None else shown.constants(weights)

    def negative_curvature(self) -> tuple[int, float] | None:
        """A client that the last run showed not to be convex, and how far it bends down.

        Returns:
            The client and the most negative dg·dx/‖dx‖² between successive gradients of it,
            or None if no client had one that is more than rounding, be it in float32.
        """
        shown = self.shown
        return None if shown is None else shown.not_convex()

    def _constants(self, which: Which, weights: Any) -> Constants:
        w = client_weights(weights, self.clients)
        last, known = self._known.get(f"{which} of F", (None, None))
        if isinstance(known, Constants) and last == w.tobytes():
            return known
        with Threads(None if self.parallel else 1) as threads:
            values, kind, seconds = self._constants_of_clients(which, threads)
            begun = perf_counter()
            overall, overall_kind = self._overall_constant(which, w, threads)
        seconds += perf_counter() - begun
        found = Constants(values, overall, kind, overall_kind, seconds)
        self._known[f"{which} of F"] = w.tobytes(), found
        return found

    @property
    def _known(self) -> dict[str, Any]:
        """What was found so far; of F, for the weights last asked for."""
        known: dict[str, Any] = self.__dict__.setdefault("_known_constants", {})
        return known

    def _constants_of_clients(self, which: Which, threads: Threads) -> tuple[Vector, Kind, float]:
        """The clients' constants, their kind, and the seconds it took to find them."""
        if which not in self._known:
            begun = perf_counter()
            found = self._client_constants(which, threads)
            seconds = perf_counter() - begun
            for name, (values, kind) in found.items():
                values.setflags(write=False)  # it is handed out to everyone who asks
                self._known[name] = values, kind, seconds
        values, kind, seconds = self._known[which]
        return values, kind, seconds

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        """L or mu of every client, as asked for; both, if they are found together."""
        precision = float(np.finfo(self.dtype).eps)

        def ends(i: int) -> tuple[float, float]:
            call = self._gradient_of(i)
            error: ClientError | None = None

            def gradient(x: Vector) -> Vector | None:
                nonlocal error
                try:
                    with np.errstate(all="ignore"):
                        g = call(x.astype(self.dtype)).astype(np.float64)
                except ClientError as raised:  # as good as NaN: outside of its domain
                    error = raised
                    return None
                return g if np.isfinite(g).all() else None

            found = estimate(gradient, self.dimension, precision)
            if found is None:
                raise ClientError(
                    f"client {i} has no finite gradient at any point tried about 0, so that L "
                    "and mu cannot be estimated: pdmm.Functions takes them as smoothness= and "
                    "strong_convexity="
                ) from error
            return found

        mu, L = np.array(list(threads.map(ends, range(self.clients)))).T.copy()
        return {"L": (L, "estimate"), "mu": (mu, "estimate")}

    def _overall_constant(
        self, which: Which, weights: Vector, threads: Threads, team: Team = ALONE
    ) -> tuple[float, Kind]:
        """L or mu of F = sum_i w_i f_i, and what kind of number that is: here the weighted sum.

        F is the sum over the clients of all members of the team, who all make this call.
        """
        values, kind, _ = self._constants_of_clients(which, threads)
        overall = float(team.total(lambda: weights @ values))
        return overall, "estimate" if kind == "estimate" else "bound"
