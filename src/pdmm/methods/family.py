"""The PDMM family: one core for PDMM, FedSplit, Inexact FedSplit, GPDMM and AGPDMM.

With z_i what client i last uploaded, every member of the family is::

    a_i  = 2 x_s - z_i                           the anchor, x_s - lam_{s|i}/rho
    x_i  ~ argmin f_i(x) + rho/2 ‖x - a_i‖²      exactly, or by gradient steps
    z_i' = z_i + relaxation (2 x_i - a_i - z_i)  at relaxation 1: x_i - lam_{i|s}/rho
    x_s  = prox of h/(rho sum_i w_i) at the weighted mean of the z_i'

and the members differ only in how x_i is found, in :meth:`Family.local`.

The client uploads the change dz_i = z_i' - z_i = 2 relaxation (x_i - x_s) and the server
keeps the running mean of the z_i: one vector each way, O(d) memory at the server, and a
client that is absent or whose upload is lost contributes exactly nothing.
"""

from abc import abstractmethod
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from pdmm.common.checks import is_auto, moderate, number, one_of
from pdmm.methods.adaptive import Adaptive
from pdmm.methods.automatic import Chosen, Reasons, steps_of_nearly_exact, steps_to_cross
from pdmm.methods.base import (
    Array,
    Auto,
    GradientSteps,
    Method,
    Nothing,
    Oracle,
    Prox,
    settled,
)
from pdmm.methods.known import Known
from pdmm.methods.own_metric import auto_relaxation
from pdmm.methods.patient import Patient

Acceleration: TypeAlias = Literal["anderson"] | None
Metric: TypeAlias = Literal["diagonal", "full", "own"] | None
METRICS = ("diagonal", "full", "own")


class Server(NamedTuple):
    """The server's state: the weighted mean of the z_i, and x_s."""

    z: Array
    x: Array


class Message(NamedTuple):
    """What the server broadcasts: x_s."""

    x: Array


class Memory(NamedTuple):
    """What a client remembers: z_i, the sum of all that it uploaded."""

    z: Array


class Upload(NamedTuple):
    """What a client sends: the change of z_i."""

    dz: Array


Held: TypeAlias = Any  # a Memory, or what else has a z: members differ in what they remember
Kept: TypeAlias = Any  # a member's draft


class Family(Method):
    """The common core; a member of the family adds :meth:`local` and :attr:`penalty`."""

    relaxation: float
    acceleration: Acceleration
    metric: Metric = None
    """In which variables the rounds are, of the members that take one."""
    memory_vectors = 1

    @property
    def curvature(self) -> Literal["none", "diagonal", "full"]:
        if self.metric is None:
            return "none"
        return "diagonal" if self.metric == "diagonal" else "full"

    @property
    @abstractmethod
    def penalty(self) -> float:
        """The rho in use."""

    @abstractmethod
    def with_penalty(self, rho: float) -> Self:
        """The same method with another rho."""

    @abstractmethod
    def local(
        self, f: Oracle, x_s: Array, anchor: Array, memory: Held, steps: int
    ) -> tuple[Array, Kept]:
        """What stands for x_i, and the draft to keep once the upload has arrived."""

    def check_family(self) -> None:
        """Refuse a relaxation outside (0, 1], and an acceleration that is none."""
        if self.acceleration not in (None, "anderson"):
            raise ValueError(f"acceleration must be None or 'anderson', got {self.acceleration!r}")
        if self.metric is not None:
            one_of("metric", self.metric, METRICS)
        self.settle(relaxation=number("relaxation", self.relaxation))
        if not 0 < self.relaxation <= 1:
            raise ValueError(
                f"relaxation must be in (0, 1], got {self.relaxation!r}: 1 is PDMM, 0.5 is ADMM"
            )

    def auto_rho(self, known: Known, adaptive: bool) -> Chosen:
        if self.metric is not None:
            return in_metric(adaptive)
        return _first("rho", known, adaptive)

    def auto_gamma(self, known: Known, adaptive: bool) -> Chosen:
        return _first("gamma", known, adaptive)

    def auto_in_metric(self, adaptive: bool) -> tuple[Self, Reasons]:
        """Put numbers in the place of rho="auto" where the rounds are in a metric."""
        relaxation = self.relaxation
        why: Reasons = ()
        if self.exact:
            relaxation, why = auto_relaxation(self.relaxation, self.metric == "own")
        if self.metric == "own":
            return self.with_parameters(rho=1.0, relaxation=relaxation), (
                "rho is 1: each client's metric is its own Hessian, nearly",
                *why,
            )
        rho, told = in_metric(adaptive)
        return self.with_parameters(rho=rho, relaxation=relaxation), (told, *why)

    def adapting(self, chosen: tuple[str, ...], precision: float, flat: bool = False) -> Method:
        adapt = "rho" in chosen or "gamma" in chosen
        accelerate = self.acceleration == "anderson"
        if not (adapt or accelerate):
            return self
        return Adaptive(self, adapt, accelerate, precision, flat)

    def adapting_patiently(self, chosen: tuple[str, ...], precision: float) -> Method:
        if "rho" in chosen or "gamma" in chosen:
            return Patient(self, precision)
        return self

    def check_partial(self) -> None:
        if self.acceleration:
            raise ValueError(
                "acceleration needs every client in every round, all messages, and full precision"
            )

    def server_start(self, x0: Array, prox: Prox) -> Server:
        return Server(z=x0, x=prox(1 * x0, 1 / self.penalty))  # no array is shared by two fields

    def client_start(self, x0: Array) -> Held:
        return Memory(z=x0)  # a member that remembers more overrides this

    def broadcast(self, server: Server) -> Message:
        return Message(x=server.x)

    def client(self, message: Message, memory: Held, f: Oracle, steps: int) -> tuple[Upload, Kept]:
        x_s = message.x
        anchor = 2 * x_s - memory.z  # = x_s - lam_{s|i}/rho, eq. server_update
        x, draft = self.local(f, x_s, anchor, memory, steps)
        dz = 2 * self.relaxation * (x - x_s)
        # The client can move z only to a number that its precision holds. Sending just that
        # change keeps the server's mean equal to the mean of the z_i, in float32 too.
        return Upload(dz=(memory.z + dz) - memory.z), draft

    def accept(self, memory: Held, draft: Kept, delivered: Upload) -> Held:
        return Memory(z=memory.z + delivered.dz)

    def spread(self, upload: Upload) -> Array:
        return upload.dz / (2 * self.relaxation)

    def imbalance(self, server: Server, mean: Upload) -> Array:
        # lam_{i|s} = rho (x_s - x_i) - lam_{s|i}, and the lam_{s|i} add up to v.
        return -self.penalty * self.spread(mean)

    def server(self, server: Server, mean: Upload, share: float, prox: Prox) -> Server:
        z = server.z + share * mean.dz
        return Server(z=z, x=prox(1 * z, 1 / self.penalty))  # eq. server_update


class ExactFamily(Family):
    """The members whose clients minimise exactly: PDMM and FedSplit."""

    exact = True
    paper_vectors = (1, 1)

    @property
    def steps(self) -> int:
        return 0

    def local(
        self, f: Oracle, x_s: Array, anchor: Array, memory: Memory, steps: int
    ) -> tuple[Array, Nothing]:
        return f.prox(anchor, self.penalty, x_s), Nothing()  # eq. client_update


class GradientFamily(GradientSteps, Family):
    """GPDMM and AGPDMM: steps 1/(1/eta + rho), and rho = 1/(K eta) unless given."""

    rho: float | Auto | None

    def __post_init__(self) -> None:
        self.check_steps()
        if self.rho is not None and not is_auto(self.rho):
            self.settle(rho=moderate("rho", self.rho))
        if self.metric == "own":
            raise ValueError(
                f"metric='own' is for exact steps, which PDMM takes: {type(self).__name__} takes "
                "'diagonal' or 'full'"
            )
        self.check_family()

    @property
    def penalty(self) -> float:
        if self.rho is None:
            return 1 / (self.steps * self.eta)  # the paper's rho
        return settled("rho", self.rho)

    def with_penalty(self, rho: float) -> Self:
        return self.with_parameters(rho=rho)

    def with_step(self, step_size: float) -> Self:
        if self.rho is None and not callable(self.step_size):
            return self.with_penalty(self.penalty).with_step(step_size)  # rho is to stay
        return super().with_step(step_size)

    def with_smaller_steps(self, largest: float) -> Self:
        smaller = super().with_smaller_steps(largest)
        if smaller is self:
            return self
        return smaller.with_penalty(self.penalty)  # rho is not to follow the step size

    def auto_local_steps(self, known: Known, adaptive: bool) -> Chosen:
        if self.rho is None:
            count = steps_to_cross(known, self.eta)
            return count, (
                f"local_steps {count}: the paper's rho = 1/(K eta) is then nearest to sqrt(L mu)"
            )
        return steps_of_nearly_exact(known, self.inner_step, self.penalty)

    @property
    def inner_step(self) -> float:
        """The factor 1/(1/eta + rho) of Alg. 1 and 2, line 7."""
        return 1 / (1 / self.eta + self.penalty)


def in_metric(adaptive: bool) -> Chosen:
    """The first rho where the mean client's Hessian is the identity."""
    goes_on = "starts at 1, and adapts" if adaptive else "is 1"
    return 1.0, f"rho {goes_on}: in the metric the mean client bends by 1 in every direction"


def _first(name: str, known: Known, adaptive: bool) -> Chosen:
    """A first rho or gamma, and whether it changes."""
    valley = known.in_the_valley()
    rho = valley.first_rho()
    why = f"from sqrt(L mu) of the mean client, and adapts: {valley}"
    stays = "starts at"
    if not adaptive and known.mean_mu is not None:
        rho = known.balanced_rho(known.mean_mu)
        stays = "is"
        why = f"where x_s and the duals are equally slow: {known}, {known.mean_mu:.3g} of the mean"
    value = 1 / rho if name == "gamma" else rho
    return value, f"{name} {stays} {value:.3g}, {why}"
