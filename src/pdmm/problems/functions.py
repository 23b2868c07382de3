"""A user's own functions: value, gradient and, if there is one, the proximal step."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pdmm.common.arrays import refuse_masked
from pdmm.common.checks import ClientError, moderate, moderate_or_zero, whole
from pdmm.common.matrices import largest_entry
from pdmm.common.sizes import check_start
from pdmm.common.threads import Threads
from pdmm.problems.base import Problem
from pdmm.problems.block import Block, ClientRows, Floats, Source
from pdmm.problems.constants import Kind, Which
from pdmm.problems.doubt import measured_doubt
from pdmm.problems.secants import Secants, Shown

Vector = npt.NDArray[np.float64]


class Functions(Problem):
    """The sum of a user's own convex functions, one for each client.

    Args:
        value: a list of functions x -> f_i(x), a number.
        gradient: a list of functions x -> gradient of f_i at x, an array of shape (d,).
        dimension: d, the length of x.
        prox: a list of functions (v, t) -> argmin_x f_i(x) + ‖x - v‖²/(2 t), if they are
            known; PDMM and FedSplit use them for their exact steps. Without them, a SciPy
            solver finds the exact step from values and gradients.
        smoothness: L_i, if it is known: ‖grad f_i(x) - grad f_i(y)‖ <= L_i ‖x - y‖. A number
            for all clients, or one for each. Without it, it is estimated where it is needed.
        strong_convexity: mu_i, if it is known: f_i(x) - mu_i/2 ‖x‖² is convex. Likewise.

    The functions are called in one thread, unless ``solve`` is given ``threads=``.

    Example:
        >>> import numpy as np, pdmm
        >>> centres = [np.array([0.0, 1.0]), np.array([2.0, 3.0])]
        >>> problem = pdmm.Functions(
        ...     value=[lambda x, c=c: 0.5 * np.sum((x - c) ** 2) for c in centres],
        ...     gradient=[lambda x, c=c: x - c for c in centres],
        ...     dimension=2,
        ... )
        >>> pdmm.solve(problem, pdmm.AGPDMM(step_size=0.5, local_steps=3), rounds=60).x.round(6)
        array([1., 2.])
    """

    parallel = False
    accurate = False

    def __init__(
        self,
        value: Sequence[Callable[[Vector], float]],
        gradient: Sequence[Callable[[Vector], Any]],
        dimension: int,
        prox: Sequence[Callable[[Vector, float], Any]] | None = None,
        smoothness: Any = None,
        strong_convexity: Any = None,
    ) -> None:
        self.dimension = whole("dimension", dimension, at_least=1)
        self.dtype = np.dtype(np.float64)
        self._tried: set[int] = set()
        self.functions: dict[str, Sequence[Callable[..., Any]]] = {
            "value": value,
            "gradient": gradient,
        }
        if prox is not None:
            self.functions["prox"] = prox
        for name, given in self.functions.items():
            _check_functions(name, given, value)
        self.clients = len(value)
        if self.clients == 0:
            raise ValueError("value is empty: at least one client is needed")
        self._given = self._given_constants(smoothness, strong_convexity)
        self.proven = "mu" in self._given  # by the user
        self._secants = Secants(self.clients)
        self._probed = Secants(self.clients)  # by gradients before a run: at x0, and for estimates

    def _given_constants(self, smoothness: Any, strong_convexity: Any) -> dict[Which, Vector]:
        """What the user knows of L and mu."""
        given: dict[Which, Vector] = {}
        if smoothness is not None:
            given["L"] = self._one_each("smoothness", smoothness, moderate)
        if strong_convexity is not None:
            given["mu"] = self._one_each("strong_convexity", strong_convexity, moderate_or_zero)
        if len(given) < 2:
            return given
        over = given["mu"] > given["L"]
        if over.any():
            i = int(over.argmax())
            raise ValueError(
                f"strong_convexity of client {i} is {given['mu'][i]:g}, above its smoothness "
                f"{given['L'][i]:g}: no function has mu_i > L_i"
            )
        return given

    def _one_each(self, name: str, value: Any, check: Callable[[str, Any], float]) -> Vector:
        """A number for all clients, or one for each."""
        refuse_masked(name, value)
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, Sequence) or isinstance(value, str):
            return np.full(self.clients, check(name, value))
        if len(value) != self.clients:
            raise ValueError(
                f"{name} must be one number, or one for each of the {self.clients} clients, "
                f"got {len(value)}"
            )
        return np.array([check(f"{name}[{i}] (client {i})", v) for i, v in enumerate(value)])

    def __repr__(self) -> str:
        return f"Functions({self.clients} clients, dimension {self.dimension})"

    def blocks(self) -> list[slice]:
        return [slice(i, i + 1) for i in range(self.clients)]

    def at(
        self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None
    ) -> "FunctionBlock":
        return FunctionBlock(self, np.arange(self.clients)[clients])

    def prepare(self, rounds: int, steps: int, exact: bool, threads: Threads) -> "FunctionRun":
        self._secants = Secants(self.clients)
        return FunctionRun(self, self._secants)

    def _source_of_values(self, threads: Threads) -> Source:
        return self  # not a run: what the last one learnt is kept

    def check(self, x0: Floats, exact: bool) -> None:
        check_start("it", largest_entry(x0), self.dtype)
        for i in range(self.clients):
            self.check_client(i, x0, exact)
        self.begin_at(x0)

    def check_client(self, i: int, x0: Floats, exact: bool) -> None:
        """Try out one client's functions at the start."""
        if exact and "prox" in self.functions:  # then f_i may be infinite at x0, and have no slope
            return
        value = self.value(i, x0)
        if not np.isfinite(value):
            raise ClientError(f"value[{i}] (client {i}) is {value} at the start x0")
        if not np.isfinite(self._gradient_of(i)(x0)).all():
            raise ClientError(f"gradient[{i}] (client {i}) is not finite at the start x0")

    @property
    def shown(self) -> Shown:
        return self._secants

    def least_curvature(self) -> Vector:
        return np.fmin(self._secants.bent, self._probed.bent)

    def _gradient_of(self, i: int) -> Callable[[Floats], Vector]:
        def gradient(x: Floats) -> Vector:
            g = self.gradient(i, x)
            self._probed.add(i, x, g)
            return g

        return gradient

    def run_state(self) -> list[npt.NDArray[Any]]:
        return self._secants.state(self.dimension)

    def load_run_state(self, state: list[npt.NDArray[Any]]) -> None:
        self._secants.load(state)

    def _client_constants(self, which: Which, threads: Threads) -> dict[Which, tuple[Vector, Kind]]:
        if which in self._given:
            return {which: (self._given[which], "given")}
        found = super()._client_constants(which, threads)
        if "L" in self._given:
            mu, _ = found["mu"]
            return {"mu": (np.minimum(mu, self._given["L"]), "estimate")}
        if "mu" in self._given:
            del found["mu"]
            for name in ("L", "valley L"):
                L, _ = found[name]
                found[name] = np.maximum(L, self._given["mu"]), "estimate"
        return found

    def value(self, i: int, x: Floats) -> float:
        """f_i(x)."""
        result = self._call("value", i, x.copy())
        try:
            return float(np.asarray(result, dtype=np.float64).reshape(()))
        except (TypeError, ValueError):
            raise ClientError(
                f"value[{i}] (client {i}) must return a number, got {result!r}"
            ) from None

    def gradient(self, i: int, x: Floats) -> Vector:
        """Gradient of f_i at x."""
        return self._vector("gradient", i, x.copy())

    def prox(self, i: int, v: Floats, t: float) -> Vector:
        """argmin_x f_i(x) + ‖x - v‖²/(2 t)."""
        x = self._vector("prox", i, v.copy(), t)
        if not np.isfinite(x).all():
            raise ClientError(f"prox[{i}] (client {i}) returned {x}, which is not finite")
        if i not in self._tried and (x != v).any():  # where x = v every t looks right
            self._try_prox(i, x, v, t)
            self._tried.add(i)
        return x

    def _try_prox(self, i: int, x: Vector, v: Floats, t: float) -> None:
        """Refuse a prox that does not minimise: a little further along must not be lower."""

        def h(step: float) -> float:
            point = x + step * (v - x)
            return self.value(i, point) + float((point - v) @ (point - v)) / (2 * t)

        try:
            lowest = h(0.0)
            around = min(h(0.1), h(-0.1))
        except ClientError:  # outside the domain of f_i there is nothing to compare with
            return
        if around < lowest - 1e-9 * (1 + abs(lowest)):
            raise ClientError(
                f"prox[{i}] (client {i}) does not minimise f_i(x) + ‖x - v‖²/(2 t) at t = {t:g}. "
                "It is called as prox(v, t), where t = 1/rho"
            )

    def _vector(self, name: str, i: int, *arguments: Any) -> Vector:
        result = self._call(name, i, *arguments)
        try:
            vector = np.array(result, dtype=np.float64)
        except (TypeError, ValueError):
            raise ClientError(
                f"{name}[{i}] (client {i}) must return an array of shape ({self.dimension},), "
                f"got {result!r}"
            ) from None
        if vector.shape != (self.dimension,):
            raise ClientError(
                f"{name}[{i}] (client {i}) must return shape ({self.dimension},), "
                f"got shape {vector.shape}"
            )
        return vector

    def _call(self, name: str, i: int, *arguments: Any) -> Any:
        label = f"{name}[{i}] (client {i})"
        try:
            result = self.functions[name][i](*arguments)
        except Exception as error:
            raise ClientError(f"{label} raised {type(error).__name__}: {error}") from error
        if np.ma.is_masked(result):
            raise ClientError(f"{label} returned masked entries: it must fill them")
        return result


def _check_functions(name: str, given: Any, value: Sequence[Any]) -> None:
    """Refuse what is not a list of functions, one for each that ``value`` has."""
    if not isinstance(given, Sequence):
        raise ValueError(f"{name} must be a list of functions, one a client, got {given!r}")
    for i, function in enumerate(given):
        if not callable(function):
            raise ValueError(f"{name}[{i}] (client {i}) is not callable: {function!r}")
    if len(given) != len(value):
        raise ValueError(f"{name} has {len(given)} functions and value has {len(value)}")


class FunctionRun:
    """A user's functions in a run, in which their gradients are compared as they come."""

    def __init__(self, problem: Functions, secants: Secants) -> None:
        self.problem = problem
        self.secants = secants

    def at(
        self, clients: ClientRows, cursor: npt.NDArray[np.int64] | None = None
    ) -> "FunctionBlock":
        return FunctionBlock(self.problem, np.arange(self.problem.clients)[clients], self.secants)


class FunctionBlock(Block):
    """A user's functions of a few clients."""

    def __init__(
        self, problem: Functions, clients: npt.NDArray[np.int64], secants: Secants | None = None
    ) -> None:
        super().__init__(len(clients))
        self.problem = problem
        self.clients = clients
        self.secants = secants

    def _gradient_at(self, i: int, x: Floats) -> Vector:
        g = self.problem.gradient(i, x)
        if self.secants is not None:
            self.secants.add(i, x, g)
        return g

    def _rows(self, x: Floats) -> Floats:
        return np.broadcast_to(x, (self.size, self.problem.dimension))

    def _gradient(self, x: Floats) -> Floats:
        rows = zip(self.clients, self._rows(x), strict=True)
        return np.stack([self._gradient_at(i, row) for i, row in rows])

    def certain_gradient(self, x: Floats) -> tuple[Vector, Vector]:
        g = self.accurate_gradient(x)
        # The points beside x are no part of the run: their secants would tell nothing.
        unwatched = FunctionBlock(self.problem, self.clients)
        doubt = measured_doubt(unwatched.accurate_gradient, x, g)
        self.tally.add(unwatched.tally)
        return g, doubt

    def value(self, x: Floats) -> Floats:
        rows = zip(self.clients, self._rows(x), strict=True)
        return np.array([self.problem.value(i, row) for i, row in rows])

    def prox(
        self, anchor: Floats, rho: float, start: Floats, slack: Floats | None = None
    ) -> Floats:
        if "prox" not in self.problem.functions:
            return super().prox(anchor, rho, start, slack)
        self.tally.exact += self.size
        rows = zip(self.clients, anchor, strict=True)
        return np.stack([self.problem.prox(i, row, 1 / rho) for i, row in rows])

    def name(self, i: int) -> str:
        return f"the function of client {self.clients[i]}"

    def smooth(self, i: int) -> Callable[[Vector], tuple[float, Floats]]:
        client = int(self.clients[i])
        return lambda x: (self.problem.value(client, x), self._gradient_at(client, x))
