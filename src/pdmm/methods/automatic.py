"""How a method finds numbers for its parameters that are "auto", and says why it took them."""

import math
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeAlias, cast

from pdmm.common.checks import is_auto
from pdmm.methods.known import Known

INNER = 0.05  # what K gradient steps may leave of the distance to the exact step
MOST_STEPS = 100

Chosen: TypeAlias = tuple[float, str]
"""A number, and the sentence that says why."""

Reasons: TypeAlias = tuple[str, ...]
"""What was chosen and why, one sentence each."""


class Automatic:
    """The part of a method that settles what is "auto".

    Each parameter has a rule of its own, ``auto_NAME(known, adaptive)``, which gives its value
    and a sentence. A method overrides the rules in which it differs, and adds one for each
    further parameter that may be "auto". The parameters of :attr:`FIRST` are settled in that
    order and all others after them, so that a rule finds numbers in those before its own.
    """

    FIRST: ClassVar[tuple[str, ...]] = ("rho", "gamma", "step_size", "local_steps")

    def with_parameters(self, **values: Any) -> Self:
        """Return the same method with other values of some parameters."""
        changed: Self = replace(cast(Any, self), **values)
        return changed

    @property
    def unsettled(self) -> tuple[str, ...]:
        """The parameters that are "auto", for :func:`pdmm.solve` to choose."""
        own = getattr(self, "__dataclass_fields__", {})
        names = (*self.FIRST, *(name for name in own if name not in self.FIRST))
        return tuple(name for name in names if self._is_auto(name))

    def _is_auto(self, name: str) -> bool:
        value = getattr(self, name, None)
        return is_auto(value) and hasattr(self, f"auto_{name}")

    def auto(self, known: Known, adaptive: bool) -> tuple[Self, Reasons]:
        """Put numbers in the place of "auto".

        Args:
            known: L and mu of the clients.
            adaptive: whether all clients take part in every round.

        Returns:
            The method with numbers, and a sentence for each of them.
        """
        method = self
        why: list[str] = []
        for name in self.unsettled:
            value, sentence = getattr(method, f"auto_{name}")(known, adaptive)
            method = method.with_parameters(**{name: value})
            why.append(sentence)
        return method, tuple(why)

    def auto_without_gradients(self, adaptive: bool) -> tuple[Self, Reasons]:
        """Settle the weight of an exact step where clients have no gradients to judge by."""
        name = self.unsettled[0]
        goes_on = "starts at 1 and adapts" if adaptive else "is 1"
        why = f"{name} {goes_on}: there are no gradients to judge by"
        return self.with_parameters(**{name: 1.0}), (why,)

    # --- the rules of a method that has none of its own ------------------------------------

    def auto_rho(self, known: Known, adaptive: bool) -> Chosen:
        """Take sqrt(L mu), the best rho in the worst case."""
        rho = known.first_rho()
        return rho, f"rho is {rho:.3g}, from sqrt(L mu) of the mean client: {known}"

    def auto_gamma(self, known: Known, adaptive: bool) -> Chosen:
        """Take 1/sqrt(L mu), the best gamma in the worst case."""
        gamma = 1 / known.first_rho()
        return gamma, f"gamma is {gamma:.3g}, from sqrt(L mu) of the mean client: {known}"

    def auto_step_size(self, known: Known, adaptive: bool) -> Chosen:
        """Take 1/L, the largest step that is safe for every client."""
        step = 1 / known.safe_L
        return step, f"step_size {step:.3g}, 1/L{known.halved}: {known}"

    def auto_local_steps(self, known: Known, adaptive: bool) -> Chosen:
        """Take as many steps as bring a client a good part of the way to its own minimum."""
        count = steps_to_cross(known, getattr(self, "step_size", 1.0))
        return count, f"local_steps {count}: 1/(step_size sqrt(L mu)), at most {MOST_STEPS}"


def steps_to_cross(known: Known, step: float) -> int:
    """1/(step sqrt(L mu)) as a number of steps, from 1 to the most."""
    if known.mu <= 0:
        return MOST_STEPS
    count = round(1 / (step * math.sqrt(known.L * known.mu)))
    return min(max(count, 1), MOST_STEPS)


def steps_of_nearly_exact(known: Known, step: float, rho: float) -> Chosen:
    """How many gradient steps on f_i + rho/2 ‖x - a‖² are nearly an exact one, and why."""
    shrink = step * (known.mu + rho)
    count = 1
    if shrink < 1:
        count = math.ceil(math.log(INNER) / math.log1p(-shrink))
    if count > MOST_STEPS:
        reason = f"the most; {count} would leave {INNER:.0%} of the inner distance"
        return MOST_STEPS, f"local_steps {MOST_STEPS}: {reason}"
    count = max(count, 1)
    return count, f"local_steps {count}: they leave {INNER:.0%} of the distance to the exact step"
