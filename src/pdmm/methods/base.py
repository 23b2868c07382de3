"""What a server-client method is, and what it asks of a client.

A method is a few pure functions and two pieces of state. It never sees how many clients
there are, where they run or what a link does to a message: that is an engine's business.
It only adds, scales and calls the client's oracle, so the same code runs on one client's
vector of shape ``(d,)``, on a block of clients of shape ``(b, d)``, and on any array
library whose arrays add and scale.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
)

from pdmm.common.caller import warn_caller
from pdmm.common.checks import is_auto, moderate, whole
from pdmm.methods.automatic import Automatic, Reasons
from pdmm.methods.known import Known
from pdmm.methods.schedule import Schedule

if TYPE_CHECKING:
    # A type variable can have a default only from Python 3.13 on, but type checkers know it
    # already: a method that states no types, and a plain ``Method``, stand for any.
    from typing_extensions import TypeVar

    Server = TypeVar("Server", bound=tuple[Any, ...], default=Any)
    Memory = TypeVar("Memory", bound=tuple[Any, ...], default=Any)
    Message = TypeVar("Message", bound=tuple[Any, ...], default=Any)
    Upload = TypeVar("Upload", bound=tuple[Any, ...], default=Any)
    Draft = TypeVar("Draft", bound=tuple[Any, ...], default=Any)
else:
    from typing import TypeVar

    Server = TypeVar("Server")
    Memory = TypeVar("Memory")
    Message = TypeVar("Message")
    Upload = TypeVar("Upload")
    Draft = TypeVar("Draft")

Array: TypeAlias = Any  # NumPy, PyTorch or JAX: methods only add and scale
Prox: TypeAlias = Callable[[Array, float], Array]  # prox(v, t): prox of t h / (total weight) at v
Auto: TypeAlias = Literal["auto"]  # a parameter that pdmm.solve chooses
StepSize: TypeAlias = float | Auto | Schedule


class Oracle(Protocol):
    """What a method may ask of a client, or of a block of clients at once."""

    def gradient(self, x: Array) -> Array:
        """Gradient of f_i at x."""

    def value_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """f_i and its gradient at x."""

    def steps(
        self,
        start: Array,
        *,
        step: float,
        count: int,
        shift: Array | None = None,
        anchor: Array | None = None,
        rho: float = 0.0,
        average: bool = False,
    ) -> tuple[Array, Array]:
        """Take ``count`` gradient steps on f_i(x) + shift·x + rho/2 ‖x - anchor‖².

        Returns:
            The last iterate, and the mean of the ``count`` iterates after the start
            (the last iterate again unless ``average`` is asked for).
        """

    def prox(self, anchor: Array, rho: Any, start: Array, slack: Array | None = None) -> Array:
        """Minimise f_i(x) + rho/2 ‖x - anchor‖², warm-started at ``start``.

        Where the clients know their Hessians, ``rho`` may be a matrix P_i for each client, (b, d,
        d), and the second term is then (x - anchor)'P_i(x - anchor)/2.

        ``slack``, one number per client, allows a gradient of that norm to remain; without
        it, or where there is a closed form, the step is exact to rounding.
        """


class CurvedOracle(Oracle, Protocol):
    """What a method may ask of clients that know their functions to second order."""

    def hessian(self, x: Array) -> Array:
        """Hessian of f_i at x."""

    def majorant(self, x: Array) -> Array:
        """The same for a metric, which must not be 0 where f_i bends a little further on."""

    def curvature(self, x: Array, T: Array | None = None) -> Any:
        """Value, gradient and Hessian at x in the coordinates of T; see ``problems.Curvature``."""

    def working(self, T: Array | None = None) -> Any:
        """The same of the quadratic that stands for f_i before anything is known of x, at 0."""

    def along(self, x: Array, direction: Array, t: Array) -> Array:
        """Values f_i(x + t direction), for some numbers t."""


class Evidence(NamedTuple):
    """What the clients said of F at the result: weighted means, for a certificate."""

    x: Array
    """The result."""
    T: Array
    """The upper triangular matrix of the coordinates y of x + T y, in which the others are."""
    value: Array
    gradient: Array
    doubt: Array
    hessian: Array
    reach: Array
    unsettled: Array


class Nothing(NamedTuple):
    """The empty state: nothing to remember, or nothing to keep from a draft."""


class Method(Automatic, ABC, Generic[Server, Memory, Message, Upload, Draft]):
    """A federated method: pure functions from state and messages to state and messages.

    Server, Memory, Message, Upload and Draft are NamedTuples of arrays. Memory, Upload and
    Draft have one row per client; Server and Message have none.

    A method of your own may state its five types, ``class Mine(Method[Server, Memory, Message,
    Upload, Draft])``, and have them checked against each other, or none of them. The methods
    that users put into one list state theirs in their signatures alone, because mypy finds no
    common type for ``[AGPDMM(...), Scaffold(...)]`` if these have different type arguments.
    """

    paper_vectors: ClassVar[tuple[int, int]]
    """Vectors per client and round as the paper counts them: (down, up)."""

    vectors_up: ClassVar[int] = 1
    """Vectors per client and round that go up as this library sends them."""

    vectors_down: ClassVar[int] = 1
    """Vectors per client and round that go down as this library sends them."""

    memory_vectors: ClassVar[int] = 0
    """Vectors of a client's memory, which travel too where the server keeps it: down."""

    draft_vectors: ClassVar[int] = 0
    """The same of a draft, as far as the server cannot make it itself: up."""

    tells: ClassVar[int] = 1
    """Vectors of a client's answer that do not follow from each other, nor from what the server
    knows: each is as good as one gradient of f_i. A site's policy counts them."""

    def told(self, message: Message) -> int:
        """The same, in this message's round."""
        return self.tells

    no_regulariser: ClassVar[str] = ""
    """Why this method has no exact form with a regulariser, where it has none."""

    exact: ClassVar[bool] = False
    """Whether a client minimises exactly instead of taking gradient steps."""

    knows_its_end: ClassVar[bool] = False
    """Whether it knows how good its result is, so that a run can stop without being asked to."""

    @property
    def curvature(self) -> Literal["none", "diagonal", "full"]:
        """What clients reveal of their Hessians to this method."""
        return "none"

    def settle(self, **values: float) -> None:
        """Store checked parameters as plain Python numbers, in a frozen dataclass."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    scalars: ClassVar[tuple[int, int]] = (0, 0)
    """Scalars per client and round that travel beside the vectors: (down, up)."""

    def exact_numbers(self, message: Message) -> tuple[int, int]:
        """Numbers for each client, beside vectors and scalars, in this message's round: (down, up).

        A message or an upload names fields that links must never round in its class attribute
        ``EXACT``.
        """
        return 0, 0

    def shape_key(self, message: Message) -> Hashable:
        """What the shapes of this message's uploads depend on, where they are not always alike."""
        return None

    def spread(self, upload: Upload) -> Array | None:
        """x_i - x_s as it follows from the upload; None for a method without an x_i."""
        return None

    def disagreement(self, upload: Upload) -> Array | None:
        """‖x_i - x_s‖² of every client, where there is an x_i."""
        apart = self.spread(upload)
        return None if apart is None else (apart * apart).sum(-1)

    def imbalance(self, server: Server, mean: Upload) -> Array | None:
        """(sum_i w_i lam_{i|s} + v)/(sum_i w_i), v a subgradient of h: 0 at the optimum.

        None for a method without duals.
        """
        return None

    def telemetry(self, server: Server) -> dict[str, float]:
        """Numbers of the server's state that belong in the history."""
        return {}

    def step_limit(self, one_over_l: float) -> tuple[str, float]:
        """The largest safe step size, in words and as a number, where every f_i has this 1/L."""
        return "1/L", one_over_l

    # --- the result ---------------------------------------------------------------------------

    def solution(self, server: Server) -> Array:
        """The result so far."""
        message: Any = self.broadcast(server)
        return message.x

    def evidence(self, server: Server) -> Evidence | None:
        """What is known of F at the result, to second order; None where that is not enough."""
        return None

    def verdict(self, server: Server) -> str:
        """Why it makes no sense to go on, in a sentence; empty as long as it does."""
        return ""

    # --- what a run asks beyond the mathematics ---------------------------------------------

    @property
    def as_named(self) -> "Method":
        """The method as the user knows it, where another one wraps it."""
        return self

    def ended(self, server: Server) -> "Method":
        """The method as the user knows it, with the numbers that it ended with."""
        return self.as_named

    def adapting(self, chosen: tuple[str, ...], precision: float, flat: bool = False) -> "Method":
        """The method to run where every client takes part in every round.

        Args:
            chosen: the parameters that were "auto".
            precision: the rounding unit of the clients' numbers.
            flat: whether no client's function is known to bend in every direction.
        """
        return self

    def adapting_patiently(self, chosen: tuple[str, ...], precision: float) -> "Method":
        """The method to run where clients may be missing, and mu of F is not known.

        Args:
            chosen: the parameters that were "auto".
            precision: the rounding unit of the clients' numbers.
        """
        return self

    def running(self) -> "Method":
        """The method that runs, where the one that users name stands for another."""
        return self

    def check_partial(self) -> None:
        """Refuse to run where some clients or messages are missing, or messages are rounded."""

    def for_own_steps(self) -> tuple["Method", Reasons]:
        """The method for clients that take different numbers of steps, and what had to change."""
        raise ValueError(
            f"local_steps is for methods with local gradient steps: {type(self).__name__} takes "
            "none"
        )

    def for_rounding(self) -> tuple["Method", Reasons]:
        """The method for messages that are rounded, and what had to change."""
        return self, ()

    def for_changing_steps(self) -> tuple["Method", Reasons]:
        """The method for step sizes that change while uploads are on their way."""
        return self, ()

    def with_step(self, step_size: float) -> Self:
        """The method with another step size, and all else as it is."""
        return self.with_parameters(step_size=step_size)

    def with_smaller_steps(self, largest: float) -> Self:
        """The method with a step size for a larger L, which was met during the run."""
        if largest * getattr(self, "step_size", 0.0) <= 1:
            return self
        return self.with_parameters(step_size=1 / largest)

    # --- the mathematics ----------------------------------------------------------------------

    @property
    @abstractmethod
    def steps(self) -> int:
        """Gradient steps that a client takes in a round (0: it minimises exactly)."""

    @abstractmethod
    def server_start(self, x0: Array, prox: Prox) -> Server:
        """The server's first state."""

    @abstractmethod
    def client_start(self, x0: Array) -> Memory:
        """A client's first memory: x0 is (d,) for one client, (b, d) for a block."""

    @abstractmethod
    def broadcast(self, server: Server) -> Message:
        """What the server sends, the same to every client; its field ``x`` is the result."""

    def receive(self, message: Message, memory: Memory) -> Memory:
        """What a client's memory becomes when the message has arrived."""
        return memory

    @abstractmethod
    def client(
        self, message: Message, memory: Memory, f: Oracle, steps: int
    ) -> tuple[Upload, Draft]:
        """A client's work in one round: (Upload, Draft). Commits nothing."""

    def accept(self, memory: Memory, draft: Draft, delivered: Upload) -> Memory:
        """What a client's memory becomes once its upload is known to have arrived.

        Args:
            memory: the memory that ``client`` was given.
            draft: what ``client`` returned beside the upload.
            delivered: the upload as it arrived (rounded, if the link rounds).
        """
        return memory

    @abstractmethod
    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server:
        """The server's next state.

        Args:
            server: its state.
            mean: the weighted mean of the uploads that arrived.
            share: weight of those that arrived / weight of all clients.
            prox: the regulariser's prox, or the identity.
        """


class GradientSteps(Method[Server, Memory, Message, Upload, Draft]):
    """A method whose clients take ``local_steps`` gradient steps of ``step_size`` a round."""

    step_size: StepSize
    local_steps: int | Auto

    @property
    def eta(self) -> float:
        """The step size, a number."""
        return settled("step_size", self.step_size)

    @property
    def steps(self) -> int:
        return int(settled("local_steps", self.local_steps))

    def for_own_steps(self) -> tuple[Method, Reasons]:
        return self, ()

    def auto(self, known: Known, adaptive: bool) -> tuple[Self, Reasons]:
        """Put numbers in the place of "auto", and warn of a given step size that is too large."""
        method, why = super().auto(known, adaptive)
        if not is_auto(self.step_size) and self.eta * known.L > 2:
            warn_caller(
                f"step_size={self.eta:g} is above 2/L = {2 / known.L:.3g} "
                f"({known.smoothness.kind}): the run may diverge; step_size='auto' takes 1/L"
            )
        return method, why

    def check_steps(self) -> None:
        """Refuse a step size that is not positive or is absurd, and fewer than one local step."""
        if not is_auto(self.step_size) and not callable(self.step_size):
            self.settle(step_size=moderate("step_size", self.step_size))
        if not is_auto(self.local_steps):
            self.settle(local_steps=whole("local_steps", self.local_steps, at_least=1))


def settled(name: str, value: StepSize | None) -> float:
    """A parameter that is a number by now."""
    if callable(value):
        raise ValueError(f"{name} is a callable of the round: only pdmm.solve knows the round")
    if value is None or isinstance(value, str):
        raise ValueError(
            f"{name} is {value!r}: only pdmm.solve can choose it; the numbers that it took are in "
            "its result's method"
        )
    return value
