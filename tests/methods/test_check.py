"""pdmm.methods.check: the library's methods pass, and each broken one is caught by one check."""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import pdmm
from pdmm.methods import Method, check
from pdmm.methods.base import GradientSteps, Nothing
from pdmm.methods.family import Memory, Upload

GOOD: list[Method] = [
    pdmm.PDMM(),
    pdmm.PDMM(0.5, 0.8),
    pdmm.PDMM(acceleration="anderson"),
    pdmm.FedSplit(),
    pdmm.InexactFedSplit(),
    pdmm.InexactFedSplit(start="server"),
    pdmm.GPDMM(),
    pdmm.GPDMM(0.01, 5),
    pdmm.GPDMM(rho="auto", iterate="last"),
    pdmm.AGPDMM(),
    pdmm.AGPDMM(0.2, 5, rho=1.0, relaxation=0.5),
    pdmm.Scaffold(),
    pdmm.Scaffold(0.1, 5, send_control=True),
    pdmm.FedAvg(),
    pdmm.FedAvg(0.3, 5),
    pdmm.FedProx(),
    pdmm.FedProx(0.2, 5, mu=0.0),
    pdmm.FedDyn(),
    pdmm.FedDyn(0.2, 5, alpha=0.5),
    pdmm.GradientDescent(),
    pdmm.GradientDescent(3.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("method", GOOD, ids=repr)
def test_the_librarys_methods_pass(method: Method) -> None:
    report = check(method, strict=True)
    assert report.ok
    assert len(report.findings) == 9


# --- methods that are broken, each in one way -----------------------------------------------


class Server(NamedTuple):
    x: Any


class Change(NamedTuple):
    dx: Any


@dataclass(frozen=True)
class Plain(GradientSteps):
    """FedAvg, written as a user would: nothing is broken."""

    step_size: float | Any = "auto"
    local_steps: int | Any = 2

    paper_vectors = (1, 1)

    def server_start(self, x0: Any, prox: Any) -> Any:
        return Server(x=x0)

    def client_start(self, x0: Any) -> Any:
        return Nothing()

    def broadcast(self, server: Any) -> Any:
        return server

    def client(self, message: Any, memory: Any, f: Any, steps: int) -> Any:
        x, _ = f.steps(message.x, step=self.step_size, count=steps)
        return Change(dx=x - message.x), Nothing()

    def server(self, server: Any, mean: Any, share: float, prox: Any) -> Any:
        return Server(x=server.x + mean.dx)


class Point(NamedTuple):
    point: Any


class NoX(Plain):
    def broadcast(self, server: Any) -> Any:
        return Point(point=server.x)

    def client(self, message: Any, memory: Any, f: Any, steps: int) -> Any:
        return super().client(Server(x=message.point), memory, f, steps)


class Lists(Plain):
    def client(self, message: Any, memory: Any, f: Any, steps: int) -> Any:
        upload, _ = super().client(message, memory, f, steps)
        return upload, []


class WholeNorm(Plain):
    """Clips what it sends, by the norm of all clients together."""

    def client(self, message: Any, memory: Any, f: Any, steps: int) -> Any:
        upload, draft = super().client(message, memory, f, steps)
        size = float(np.sqrt((upload.dx**2).sum()))
        return Change(dx=upload.dx / max(1.0, size)), draft


class InPlace(pdmm.AGPDMM):
    def client(self, message: Any, memory: Any, f: Any, steps: int) -> Any:
        upload, draft = super().client(message, memory, f, steps)
        memory.z[...] += upload.dz
        return upload, draft


class Counting(Plain):
    """Its steps get smaller, by a counter that all clients share."""

    def client(self, message: Any, memory: Any, f: Any, steps: int) -> Any:
        done = getattr(self, "done", 0)
        object.__setattr__(self, "done", done + 1)
        upload, draft = super().client(message, memory, f, steps)
        return Change(dx=upload.dx * (1 + 1e-9 * done)), draft


class InPlaceServer(pdmm.GradientDescent):
    def server(self, server: Any, mean: Any, share: float, prox: Any) -> Any:
        mean.gradient[...] *= 0.5
        return super().server(server, mean, share, prox)


class TwoOfOne(pdmm.GPDMM):
    def client_start(self, x0: Any) -> Any:
        return super().client_start(x0)._replace(x=x0)


class Wide(Plain):
    def client(self, message: Any, memory: Any, f: Any, steps: int) -> Any:
        upload, draft = super().client(message, memory, f, steps)
        return Change(dx=np.float64(0.5) * upload.dx), draft


class Kept(NamedTuple):
    z: Any


class OwnDraft(pdmm.AGPDMM):
    """Remembers what it meant to send, not what arrived."""

    def client(self, message: Any, memory: Any, f: Any, steps: int) -> Any:
        upload, _ = super().client(message, memory, f, steps)
        return upload, Kept(z=memory.z + upload.dz)

    def accept(self, memory: Any, draft: Any, delivered: Upload) -> Any:
        return Memory(z=draft.z)


class NoShare(pdmm.PDMM):
    """Its server adds the mean as if everybody had sent something."""

    def server(self, server: Any, mean: Any, share: float, prox: Any) -> Any:
        return super().server(server, mean, 1.0, prox)


class Uncounted(pdmm.GPDMM):
    memory_vectors = 1


class TooMany(Plain):
    vectors_up = 2


class HiddenNumber(Plain):
    def client(self, message: Any, memory: Any, f: Any, steps: int) -> Any:
        upload, draft = super().client(message, memory, f, steps)
        return Sized(dx=upload.dx, size=(upload.dx**2).sum(-1, keepdims=True)), draft


class Sized(NamedTuple):
    dx: Any
    size: Any


BROKEN: list[tuple[Method, str, str]] = [
    (NoX(), "named tuples", "only point; its field x is what"),
    (Lists(), "named tuples", "a draft is a list; make it"),
    (WholeNorm(), "blocks of clients", "along the last axis alone"),
    (InPlace(), "in place", r"client\(\) changes z of the Memory"),
    (Counting(), "in place", r"client\(\) gives another dx when it is called again"),
    (InPlaceServer(), "in place", r"server\(\) changes gradient of the Upload"),
    (TwoOfOne(), "two fields", r"z and x of a memory are one array.*x=1 \* z"),
    (Wide(), "float32", "dx of an upload is float64"),
    (OwnDraft(), "what arrived", "from `delivered`, not from"),
    (NoShare(), "a lost upload", r"let server\(\) add share \* mean"),
    (Uncounted(), "what travels", "a memory has 2 vectors, but memory_vectors is 1"),
    (TooMany(), "what travels", "an upload has 1 vectors, but vectors_up is 2"),
    (HiddenNumber(), "what travels", r"0 numbers go down and 1 up, but scalars is \(0, 0\)"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "name", "says"), BROKEN, ids=lambda v: type(v).__name__)
def test_a_broken_method_is_caught_by_the_right_check(method: Method, name: str, says: str) -> None:
    report = check(method)
    assert not report.ok
    (finding,) = report.broken
    assert name in finding.name
    assert re.search(says, finding.problem)


def test_the_method_that_the_broken_ones_are_made_of_passes() -> None:
    assert check(Plain(), strict=True).ok
    assert check(Plain(0.05, 1), strict=True).ok


class Raises(Plain):
    def server(self, server: Any, mean: Any, share: float, prox: Any) -> Any:
        raise RuntimeError("out of order")


class Runaway(Plain):
    def server(self, server: Any, mean: Any, share: float, prox: Any) -> Any:
        return Server(x=server.x + 9.0 * mean.dx)


def test_what_a_method_raises_is_told() -> None:
    report = check(Raises())
    assert not report.ok
    assert "raised RuntimeError: out of order" in str(report)
    assert str(report).startswith("Raises: 8 checks, ")
    with pytest.raises(ValueError, match="raised RuntimeError: out of order"):
        check(Raises(), strict=True)


def test_a_method_that_diverges_is_told_so() -> None:
    report = check(Runaway())
    assert "the run diverges" in str(report)


def test_only_methods_are_tried() -> None:
    with pytest.raises(ValueError, match="method must be a pdmm method"):
        check("agpdmm")  # type: ignore[arg-type]


def test_a_memory_of_drafts_ends_at_a_wrong_point() -> None:
    problem = pdmm.LeastSquares.random(clients=8, samples=40, features=6, seed=0)
    step = 1 / float(problem.smoothness().clients.max())
    exact = pdmm.solve(problem, pdmm.PDMM(), 100).x

    def error(method: Method) -> float:
        x = pdmm.solve(problem, method, 300, bits=4).x
        return float(np.linalg.norm(x - exact) / np.linalg.norm(exact))

    assert error(pdmm.AGPDMM(step, 5)) < 1e-10
    assert error(OwnDraft(step, 5)) > 1e-2
