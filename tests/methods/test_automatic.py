"""What a method says of its own "auto", and the other questions that a run asks it."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import pdmm
from pdmm.methods import Method
from pdmm.methods.adaptive import Adaptive
from pdmm.methods.automatic import Chosen
from pdmm.methods.base import GradientSteps, Nothing
from pdmm.methods.known import Known


class Constant(NamedTuple):
    clients: Any
    overall: float
    kind: str
    overall_kind: str = "bound"


def known(L: Any, mu: Any, kind: str = "exact") -> Known:
    steep = np.asarray(L, dtype=np.float64)
    flat = np.asarray(mu, dtype=np.float64)
    return Known(
        Constant(steep, float(steep.sum()), kind),
        Constant(flat, float(flat.sum()), kind),
        float(len(steep)),
    )


class Server(NamedTuple):
    x: Any


@dataclass(frozen=True)
class Own(GradientSteps):
    """A user's own method, of which the library knows nothing."""

    step_size: float | str = "auto"  # type: ignore[assignment]
    local_steps: int | str = "auto"  # type: ignore[assignment]
    mixing: float | str = "auto"

    paper_vectors = (1, 1)

    def auto_mixing(self, known: Known, adaptive: bool) -> Chosen:
        return 0.5, f"mixing 0.5: half of a step of {self.eta:.3g}"

    def server_start(self, x0: Any, prox: Any) -> Any:
        return Server(x=x0)

    def client_start(self, x0: Any) -> Any:
        return Nothing()

    def broadcast(self, server: Any) -> Any:
        return server

    def client(self, message: Any, memory: Any, f: Any, steps: int) -> Any:
        x, _ = f.steps(message.x, step=self.eta, count=steps)
        return Server(x=x - message.x), Nothing()

    def server(self, server: Any, mean: Any, share: float, prox: Any) -> Any:
        return Server(x=server.x + self.mixing * mean.x)


@dataclass(frozen=True)
class OwnRho(Own):
    rho: float | str = "auto"


def test_a_users_own_method_is_settled_and_told_nothing_of_the_papers_rho() -> None:
    method, why = Own().auto(known([4.0, 2.0], [1.0, 1.0]), adaptive=True)
    assert (method.step_size, method.local_steps, method.mixing) == (0.25, 2, 0.5)
    assert why == (
        "step_size 0.25, 1/L: L = 4 (exact), mu = 1 (exact)",
        "local_steps 2: 1/(step_size sqrt(L mu)), at most 100",
        "mixing 0.5: half of a step of 0.25",
    )
    assert method.unsettled == ()


def test_a_users_own_rho_is_not_said_to_adapt() -> None:
    method, why = OwnRho(0.1, 2, 1.0).auto(known([4.0, 4.0], [1.0, 1.0]), adaptive=True)
    assert method.rho == 2.0
    assert why == ("rho is 2, from sqrt(L mu) of the mean client: L = 4 (exact), mu = 1 (exact)",)


def test_solve_settles_a_users_own_method() -> None:
    problem = pdmm.LeastSquares.random(clients=4, samples=40, features=3, seed=0)
    result = pdmm.solve(problem, Own(), 3)
    assert [sentence.split()[0] for sentence in result.choices] == [
        "step_size",
        "local_steps",
        "mixing",
    ]
    assert not any("paper" in sentence for sentence in result.choices)


def test_a_word_without_a_rule_is_left_alone() -> None:
    @dataclass(frozen=True)
    class Worded(Own):
        device: str = "auto"

    assert Worded().unsettled == ("step_size", "local_steps", "mixing")


def test_an_estimate_halves_the_step() -> None:
    method, why = pdmm.FedAvg().auto(known([4.0], [1.0], "estimate"), adaptive=True)
    assert method.step_size == 0.125
    assert "halved because L is an estimate" in why[0]


def test_constants_of_constant_functions() -> None:
    flat = known([0.0, 0.0], [0.0, 0.0])
    assert flat.L == 1.0
    assert flat.first_rho() == 1.0
    assert flat.step_of_mean() == 1.0


# --- other questions --------------------------------------------------------------------------


@pytest.mark.parametrize("method", [pdmm.PDMM(1.0), pdmm.FedSplit(1.0), pdmm.GradientDescent(0.1)])
def test_methods_without_local_steps_say_so(method: Method) -> None:
    name = type(method).__name__
    with pytest.raises(ValueError, match=f"local gradient steps: {name} takes none"):
        method.for_own_steps()


def test_scaffold_sends_both_vectors_where_it_must() -> None:
    method, why = pdmm.Scaffold(0.1, 2).for_own_steps()
    assert method == pdmm.Scaffold(0.1, 2, send_control=True)
    assert "numbers of steps differ" in why[0]
    assert method.for_rounding() == (method, ())
    assert pdmm.AGPDMM(0.1, 2).for_rounding() == (pdmm.AGPDMM(0.1, 2), ())


def test_smaller_steps_leave_rho_as_it_was() -> None:
    method = pdmm.AGPDMM(0.1, 5)
    assert method.with_smaller_steps(10.0) is method
    smaller = method.with_smaller_steps(20.0)
    assert smaller.step_size == 0.05
    assert smaller.penalty == method.penalty
    assert pdmm.PDMM(1.0).with_smaller_steps(1e9) == pdmm.PDMM(1.0)
    wrapped = Adaptive(method, True, False, 1e-16)
    assert wrapped.with_smaller_steps(20.0).inner == smaller


def test_a_wrapped_method_is_known_by_its_own_name() -> None:
    method = pdmm.PDMM(3.0)
    wrapped = method.adapting(("rho",), 2.2e-16)
    assert isinstance(wrapped, Adaptive)
    assert wrapped.as_named == method
    server = wrapped.server_start(np.zeros(3), lambda v, t: v)
    assert wrapped.ended(server) == method
    assert wrapped.with_parameters(rho=5.0).as_named == pdmm.PDMM(5.0)
    assert method.adapting((), 2.2e-16) is method
    assert method.ended(method.server_start(np.zeros(3), lambda v, t: v)) is method


def test_acceleration_needs_everybody() -> None:
    pdmm.PDMM(1.0).check_partial()
    pdmm.FedAvg(0.1, 2).check_partial()
    with pytest.raises(ValueError, match="acceleration needs every client"):
        pdmm.PDMM(1.0, acceleration="anderson").check_partial()
