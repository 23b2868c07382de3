"""What users get wrong: every error names the argument, and the client where there is one."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pdmm
from pdmm.problems.minimise import minimise

Array = npt.NDArray[Any]
nan, inf = float("nan"), float("inf")

A = [np.eye(3), 2 * np.eye(3), np.ones((4, 3))]
B = [np.ones(3), np.zeros(3), np.ones(4)]
X = [np.eye(3), 2 * np.eye(3), np.ones((4, 3))]
Y = [np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([2, 1, 0, 1])]


def with_client(arrays: list[Array], i: int, new: Any) -> list[Any]:
    return [*arrays[:i], new, *arrays[i + 1 :]]


def with_entry(arrays: list[Array], i: int, where: Any, entry: float) -> list[Array]:
    changed = arrays[i].copy()
    changed[where] = entry
    return with_client(arrays, i, changed)


def least_squares() -> pdmm.LeastSquares:
    return pdmm.LeastSquares(A, B)


def quadratics(
    m: int = 3, gradient: dict[int, Any] | None = None, value: dict[int, Any] | None = None
) -> pdmm.Functions:
    """f_i(x) = 1/2 ‖x - i‖² in two dimensions, some functions replaced."""
    values = [lambda x, i=i: 0.5 * float(((x - i) ** 2).sum()) for i in range(m)]
    gradients = [lambda x, i=i: x - i for i in range(m)]
    for functions, new in ((values, value), (gradients, gradient)):
        for i, function in (new or {}).items():
            functions[i] = function
    return pdmm.Functions(values, gradients, dimension=2)


# --- data -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pdmm.LeastSquares([], []), "A is empty"),
        (lambda: pdmm.LeastSquares(with_client(A, 1, np.ones((0, 3))), B), r"A\[1\] \(client 1\)"),
        (lambda: pdmm.LeastSquares(A, with_client(B, 2, np.ones(0))), r"b\[2\] \(client 2\)"),
        (lambda: pdmm.LeastSquares(np.ones((3, 0, 2)), np.ones((3, 0))), r"A has shape"),
        (lambda: pdmm.LeastSquares(A, B[:2]), "A has 3 clients and b has 2"),
        (lambda: pdmm.LeastSquares(with_client(A, 1, np.eye(4)), B), r"A\[1\] \(client 1\).*4"),
        (lambda: pdmm.LeastSquares(A, with_client(B, 2, np.ones(3))), r"A\[2\] \(client 2\).*b\[2"),
        (lambda: pdmm.LeastSquares(np.ones((2, 4, 3)), np.ones((2, 5))), r"A\[0\].*4.*b\[0\].*5"),
        (
            lambda: pdmm.LeastSquares(with_client(A, 1, np.ones(3)), B),
            r"A\[1\] \(client 1\).*2 dim",
        ),
        (lambda: pdmm.LeastSquares(A, with_client(B, 0, np.eye(3))), r"b\[0\] \(client 0\).*1 dim"),
        (lambda: pdmm.LeastSquares(np.eye(3), np.ones(3)), "A as one array must have 3 dim"),
        (lambda: pdmm.LeastSquares("AAA", B), "A must be a list"),
        (lambda: pdmm.LeastSquares(3, B), "A must be a list.*int"),
        (lambda: pdmm.LeastSquares(A, None), "b must be a list"),
        (
            lambda: pdmm.LeastSquares(with_client(A, 2, A[2].astype(np.float32)), B),
            r"A\[2\] \(client 2\) is float32.*float64",
        ),
        (
            lambda: pdmm.LeastSquares(A, with_client(B, 1, B[1].astype(np.float32))),
            r"b\[1\] \(client 1\) is float32.*float64",
        ),
        (lambda: pdmm.LeastSquares(with_client(A, 0, 1j * A[0]), B), r"A\[0\].*complex"),
        (lambda: pdmm.LeastSquares(with_client(A, 0, A[0].astype("f2")), B), r"A\[0\].*float16"),
        (lambda: pdmm.LeastSquares(with_client(A, 1, [["a"] * 3] * 3), B), r"A\[1\] \(client 1\)"),
        (lambda: pdmm.LeastSquares(with_client(A, 1, [[1.0], [1.0, 2.0]]), B), r"A\[1\].*client 1"),
        (
            lambda: pdmm.LeastSquares(with_entry(A, 1, (2, 0), nan), B),
            r"A\[1\] \(client 1\) has nan at position \(2, 0\)",
        ),
        (
            lambda: pdmm.LeastSquares(A, with_entry(B, 2, 3, -inf)),
            r"b\[2\] \(client 2\) has -inf at position \(3,\)",
        ),
        (
            lambda: pdmm.LeastSquares(np.stack(with_entry(A[:2], 1, (0, 1), inf)), np.ones((2, 3))),
            r"A\[1\] \(client 1\) has inf at position \(0, 1\)",
        ),
        (
            lambda: pdmm.LeastSquares(np.ones((2, 2, 3)), np.array([[1.0, 1.0], [nan, 1.0]])),
            r"b\[1\] \(client 1\) has nan",
        ),
    ],
)
def test_least_squares_data(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_infinities_that_cancel_are_found() -> None:
    bad = A[0].copy()
    bad[0, 0], bad[1, 1] = inf, -inf
    with pytest.raises(ValueError, match=r"A\[0\] \(client 0\) has inf at position \(0, 0\)"):
        pdmm.LeastSquares(with_client(A, 0, bad), B)


def test_large_finite_data_are_accepted() -> None:
    # Their sum overflows, they do not.
    assert pdmm.LeastSquares([np.full((2, 2), 1e308)], [np.ones(2)]).clients == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clients": 0}, "clients must be at least 1"),
        ({"samples": 0}, "samples must be at least 1"),
        ({"features": 1.5}, "features must be a whole number"),
        ({"noise": -0.1}, "noise must not be negative"),
        ({"noise": nan}, "noise must be finite"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"dtype": np.int64}, "dtype must be float32 or float64"),
    ],
)
def test_random_least_squares(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.LeastSquares.random(**({"clients": 2, "samples": 5, "features": 2} | arguments))


@pytest.mark.parametrize(
    ("X_", "Y_", "arguments", "message"),
    [
        ([], [], {}, "X is empty"),
        (with_client(X, 1, np.ones((0, 3))), Y, {}, r"X\[1\] \(client 1\) is empty"),
        (X, Y[:2], {}, "X has 3 clients and y has 2"),
        (X, None, {}, "y must be a list"),
        (with_client(X, 2, np.ones((4, 2))), Y, {}, r"X\[2\] \(client 2\) has 2 columns.*3"),
        (X, with_client(Y, 1, Y[1][:2]), {}, r"y\[1\] \(client 1\) has shape \(2,\).*3 rows"),
        (X, with_client(Y, 1, np.eye(3, dtype=int)), {}, r"y\[1\] \(client 1\) has shape"),
        (with_client(X, 1, X[1].astype("f4")), Y, {}, r"X\[1\] \(client 1\) is float32"),
        (with_entry(X, 2, (3, 1), nan), Y, {}, r"X\[2\] \(client 2\) has nan"),
        (with_entry(X, 0, (1, 1), inf), Y, {}, r"X\[0\] \(client 0\) has inf"),
        (X, with_client(Y, 1, np.array([0, 3, 1])), {}, r"y\[1\] \(client 1\).*label 3.*0 .. 2"),
        (X, with_client(Y, 0, np.array([0, -1, 1])), {}, r"y\[0\] \(client 0\).*label -1"),
        (X, with_client(Y, 2, np.ones(4)), {}, r"y\[2\] \(client 2\).*whole numbers.*float64"),
        (X, with_client(Y, 2, np.array([0, nan, 1, 1])), {}, r"y\[2\] \(client 2\)"),
        (X, Y, {"classes": 1}, "classes must be at least 2"),
        (X, Y, {"classes": 3.0}, "classes must be a whole number"),
        (X, Y, {"l2": -1.0}, "l2 must not be negative"),
        (X, Y, {"l2": nan}, "l2 must be finite"),
        (X, Y, {"batch_size": 0}, "batch_size must be at least 1"),
        (X, Y, {"batch_size": 2.0}, "batch_size must be a whole number"),
        (X[::-1], Y[::-1], {"batch_size": 4}, "batch_size is 4, but client 1 has only 3 samples"),
    ],
)
def test_softmax_data(X_: Any, Y_: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pdmm.SoftmaxRegression(X_, Y_, **({"classes": 3} | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"value": []}, "gradient has 2 functions and value has 0|value is empty"),
        ({"value": [], "gradient": []}, "value is empty"),
        ({"gradient": [np.negative]}, "gradient has 1 functions and value has 2"),
        ({"prox": [np.maximum]}, "prox has 1 functions and value has 2"),
        ({"value": np.sum}, "value must be a list of functions"),
        ({"gradient": [np.negative, 3]}, r"gradient\[1\] \(client 1\) is not callable"),
        ({"prox": [None, np.maximum]}, r"prox\[0\] \(client 0\) is not callable"),
        ({"dimension": 0}, "dimension must be at least 1"),
        ({"dimension": 2.0}, "dimension must be a whole number"),
    ],
)
def test_own_functions(arguments: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {
        "value": [np.sum, np.sum],
        "gradient": [np.ones_like, np.ones_like],
        "dimension": 2,
    }
    with pytest.raises(ValueError, match=message):
        pdmm.Functions(**(usual | arguments))


# --- methods --------------------------------------------------------------------------------

GRADIENT_METHODS: list[Callable[..., pdmm.Method]] = [
    pdmm.GPDMM,
    pdmm.AGPDMM,
    pdmm.Scaffold,
    pdmm.FedAvg,
    lambda **given: pdmm.InexactFedSplit(gamma=1.0, **given),
]
NOT_POSITIVE = [0, 0.0, -1.0, nan, inf, "1", None, True, 1j]
NOT_COUNTS = [0, -1, 1.0, nan, "1", None, True]
FAMILY: list[Callable[..., pdmm.Method]] = [
    lambda **given: pdmm.PDMM(1.0, **given),
    lambda **given: pdmm.FedSplit(1.0, **given),
    lambda **given: pdmm.InexactFedSplit(1.0, 0.1, 2, **given),
    lambda **given: pdmm.GPDMM(0.1, 2, **given),
    lambda **given: pdmm.AGPDMM(0.1, 2, **given),
]


@pytest.mark.parametrize("make", GRADIENT_METHODS)
def test_step_size_and_local_steps(make: Callable[..., pdmm.Method]) -> None:
    for bad in NOT_POSITIVE:
        with pytest.raises(ValueError, match=r"step_size must be .*got " + re.escape(repr(bad))):
            make(step_size=bad, local_steps=2)
    for bad in NOT_COUNTS:
        with pytest.raises(ValueError, match=r"local_steps must be .*got " + re.escape(repr(bad))):
            make(step_size=0.1, local_steps=bad)


@pytest.mark.parametrize("bad", NOT_POSITIVE)
def test_penalties_and_other_steps(bad: Any) -> None:
    makers: list[tuple[str, Callable[[Any], Any]]] = [
        ("rho", pdmm.PDMM),
        ("gamma", pdmm.FedSplit),
        ("gamma", lambda gamma: pdmm.InexactFedSplit(gamma, 0.1, 2)),
        ("step_size", pdmm.GradientDescent),
        ("server_step", lambda step: pdmm.Scaffold(0.1, 2, server_step=step)),
    ]
    if bad is not None:
        makers += [
            ("rho", lambda rho: pdmm.GPDMM(0.1, 2, rho=rho)),
            ("rho", lambda rho: pdmm.AGPDMM(0.1, 2, rho=rho)),
        ]
    for name, make in makers:
        with pytest.raises(ValueError, match=f"{name} must be"):
            make(bad)


@pytest.mark.parametrize("make", FAMILY)
@pytest.mark.parametrize("bad", [0, -0.5, 1.0001, nan, "half", True])
def test_relaxation(make: Callable[..., pdmm.Method], bad: Any) -> None:
    with pytest.raises(ValueError, match="relaxation must be"):
        make(relaxation=bad)


def test_words_among_the_arguments() -> None:
    with pytest.raises(ValueError, match="iterate must be 'mean' or 'last', got 'best'"):
        pdmm.GPDMM(0.1, 2, iterate="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="start must be 'anchor' or 'server', got 'zero'"):
        pdmm.InexactFedSplit(1.0, 0.1, 2, start="zero")  # type: ignore[arg-type]


# --- solve ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"rounds": 2.5}, "rounds must be a whole number"),
        ({"record_every": 0}, "record_every must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"weights": [1.0, 2.0]}, r"weights must have shape \(3,\), got shape \(2,\)"),
        ({"weights": 2.0}, r"weights must have shape \(3,\)"),
        ({"weights": [1.0, 0.0, 1.0]}, r"weights\[1\] \(client 1\) is 0"),
        ({"weights": [1.0, 1.0, -2.0]}, r"weights\[2\] \(client 2\) is -2"),
        ({"weights": [1.0, nan, 1.0]}, "weights has nan"),
        ({"weights": ["a", "b", "c"]}, "weights must be numbers"),
        ({"x0": np.zeros(4)}, r"x0 must have shape \(3,\), got shape \(4,\)"),
        ({"x0": np.zeros((3, 1))}, r"x0 must have shape \(3,\)"),
        ({"x0": 0.0}, r"x0 must have shape \(3,\)"),
        ({"x0": [0.0, inf, 0.0]}, "x0 has inf"),
        ({"x0": [None] * 3}, "x0"),
        ({"x0": "abc"}, "x0 must be numbers"),
        ({"optimum": np.zeros(2)}, r"optimum must have shape \(3,\)"),
        ({"optimum": nan}, "optimum has nan"),
        ({"optimum": "low"}, "optimum must be numbers"),
        ({"regulariser": 0.1}, "regulariser must be"),
        ({"regulariser": pdmm.L1}, "regulariser must be"),
        ({"regulariser": pdmm.Box(np.zeros(2), 1.0)}, r"lo must be .*\(3,\), got shape \(2,\)"),
        ({"regulariser": pdmm.Box(0.0, np.ones(4))}, r"hi must be .*\(3,\), got shape \(4,\)"),
    ],
)
def test_solve_arguments(arguments: dict[str, Any], message: str) -> None:
    called: list[int] = []
    usual: dict[str, Any] = {"rounds": 3, "callback": lambda r, x: called.append(r)}
    with pytest.raises(ValueError, match=message):
        pdmm.solve(
            least_squares(),
            pdmm.AGPDMM(0.1, 2),
            **usual | arguments,
        )
    assert called == []


def test_solve_needs_a_problem_and_a_method() -> None:
    method: Any = pdmm.AGPDMM
    with pytest.raises(ValueError, match="method must be a pdmm method"):
        pdmm.solve(least_squares(), method)
    problem: Any = (A, B)
    with pytest.raises(ValueError, match="problem must be a pdmm problem"):
        pdmm.solve(problem, pdmm.PDMM(1.0))
    swapped: Any = pdmm.PDMM(1.0)
    with pytest.raises(ValueError, match="problem must be a pdmm problem"):
        pdmm.solve(swapped, swapped)


@pytest.mark.parametrize("method", [pdmm.FedAvg(0.1, 2), pdmm.Scaffold(0.1, 2)])
@pytest.mark.parametrize("h", [pdmm.L1(0.1), pdmm.SquaredL2(0.1), pdmm.Box(0, 1)])
def test_methods_without_a_regulariser_say_why(method: pdmm.Method, h: Any) -> None:
    name = type(method).__name__
    with pytest.raises(ValueError, match=f"{name} takes no regulariser: .*AGPDMM"):
        pdmm.solve(least_squares(), method, regulariser=h)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pdmm.Box(1.0, 0.0), "lo must not be above hi"),
        (lambda: pdmm.Box([0.0, 2.0], [1.0, 1.0]), "lo must not be above hi"),
        (lambda: pdmm.Box(inf, inf), "lo must not be above hi"),
        (lambda: pdmm.Box([0.0, 0.0], [1.0] * 3), "lo and hi have different shapes"),
        (lambda: pdmm.Box(nan, 1.0), "Box's lo"),
        (lambda: pdmm.Box(0.0, np.zeros((2, 2))), "Box's hi"),
        (lambda: pdmm.Box(0.0, "one"), "Box's hi"),
        (lambda: pdmm.L1(-1.0), "L1's c must not be negative"),
        (lambda: pdmm.L1(nan), "L1's c must be finite"),
        (lambda: pdmm.SquaredL2(-1.0), "SquaredL2's c must not be negative"),
        (lambda: pdmm.SquaredL2("1"), "SquaredL2's c must be a number"),  # type: ignore[arg-type]
    ],
)
def test_regularisers(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# --- a user's functions that fail -----------------------------------------------------------


class OwnError(Exception):
    """An error that only the user's code knows."""


def fails(x: Array) -> Any:
    raise OwnError("no data today")


ANY_METHOD: list[pdmm.Method] = [pdmm.AGPDMM(0.1, 2), pdmm.PDMM(1.0), pdmm.GradientDescent(0.1)]


@pytest.mark.parametrize("method", ANY_METHOD)
@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize("name", ["value", "gradient"])
def test_a_function_that_raises(method: pdmm.Method, threads: int | None, name: str) -> None:
    problem = (
        quadratics(gradient={1: fails}) if name == "gradient" else quadratics(value={1: fails})
    )
    called: list[int] = []
    with pytest.raises(
        pdmm.ClientError, match=rf"{name}\[1\] \(client 1\) raised OwnError: no data today"
    ) as caught:
        pdmm.solve(problem, method, threads=threads, callback=lambda r, x: called.append(r))
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value.__cause__, OwnError)
    assert called == []


@pytest.mark.parametrize("method", ANY_METHOD)
@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (quadratics(gradient={2: lambda x: x[:1]}), r"gradient\[2\] \(client 2\).*\(2,\).*\(1,\)"),
        (quadratics(gradient={0: lambda x: x[None]}), r"gradient\[0\] \(client 0\).*\(1, 2\)"),
        (quadratics(gradient={0: lambda x: None}), r"gradient\[0\] \(client 0\) must return"),
        (quadratics(gradient={0: lambda x: "up"}), r"gradient\[0\] \(client 0\) must return"),
        (quadratics(value={1: lambda x: x}), r"value\[1\] \(client 1\) must return a number"),
        (quadratics(value={1: lambda x: None}), r"value\[1\] \(client 1\)"),
        (quadratics(value={1: lambda x: nan}), r"value\[1\] \(client 1\) is nan at the start"),
    ],
)
def test_a_function_that_returns_what_it_must_not(
    method: pdmm.Method, problem: pdmm.Functions, message: str
) -> None:
    called: list[int] = []
    with pytest.raises(ValueError, match=message):
        pdmm.solve(problem, method, callback=lambda r, x: called.append(r))
    assert called == []


@pytest.mark.parametrize("method", ANY_METHOD)
@pytest.mark.parametrize("threads", [None, 2])
@pytest.mark.parametrize("how", ["shape", "raises"])
def test_a_function_that_fails_later(method: pdmm.Method, threads: int | None, how: str) -> None:
    rounds: list[int] = []

    def gradient(x: Array) -> Any:
        if len(rounds) < 3:
            return x - 1
        return fails(x) if how == "raises" else np.zeros(5)

    expected = r"raised OwnError" if how == "raises" else r"must return shape \(2,\), got .*\(5,\)"
    with pytest.raises(pdmm.ClientError, match=r"gradient\[1\] \(client 1\) " + expected) as caught:
        pdmm.solve(
            quadratics(gradient={1: gradient}),
            method,
            threads=threads,
            callback=lambda r, x: rounds.append(r),
        )
    assert rounds == [1, 2, 3]
    assert any("in round 4" in note for note in caught.value.__notes__)


def test_no_failure_inside_the_exact_step_is_swallowed() -> None:
    weights = np.linspace(1, 3, 4)

    def solve_failing_at(call: int) -> int:
        calls = 0

        def f(x: Array) -> tuple[float, Array]:
            nonlocal calls
            calls += 1
            if calls == call:
                raise pdmm.ClientError("gradient[0] (client 0) raised")
            t = weights * (x - 1)
            # A large constant hides the last decreases: Newton-Krylov has to take over.
            return 1e6 + float(np.logaddexp(t, -t).sum()), weights * np.tanh(t)

        solution = minimise(f, np.zeros(4), 1.0, np.zeros(4), 1e-10)
        assert call or solution.error <= 1e-10
        return solution.calls

    total = solve_failing_at(0)
    for call in range(1, total + 1):
        with pytest.raises(pdmm.ClientError):
            solve_failing_at(call)


def proximal(convention: Callable[[float], float]) -> pdmm.Functions:
    centres = [np.array([3.0, 4.0]), np.array([-1.0, 2.0])]

    def prox(c: Array) -> Callable[[Array, float], Array]:
        def step(v: Array, t: float) -> Array:
            s = convention(t)
            return np.asarray((v + s * c) / (1 + s))

        return step

    def value(c: Array) -> Callable[[Array], float]:
        return lambda x: 0.5 * float(((x - c) ** 2).sum())

    def gradient(c: Array) -> Callable[[Array], Array]:
        return lambda x: x - c

    return pdmm.Functions(
        [value(c) for c in centres],
        [gradient(c) for c in centres],
        dimension=2,
        prox=[prox(c) for c in centres],
    )


@pytest.mark.parametrize("rho", [0.2, 3.0, 50.0])
def test_a_prox_of_the_wrong_convention(rho: float) -> None:
    right = pdmm.solve(proximal(lambda t: t), pdmm.PDMM(rho), rounds=3)
    assert right.rounds == 3
    problem = proximal(lambda t: 1 / t)
    # Every time: a second try must not get past the check.
    for _ in range(3):
        with pytest.raises(pdmm.ClientError, match=r"prox\[0\] \(client 0\).*t = 1/rho"):
            pdmm.solve(problem, pdmm.PDMM(rho), rounds=3)


def test_a_prox_of_the_wrong_shape_or_that_raises() -> None:
    usual = proximal(lambda t: t)
    value, gradient = usual.functions["value"], usual.functions["gradient"]
    good = usual.functions["prox"][0]
    for bad, message in (
        (lambda v, t: v[:1], r"prox\[1\] \(client 1\) must return shape \(2,\)"),
        (lambda v, t: fails(v), r"prox\[1\] \(client 1\) raised OwnError"),
        (lambda v: v, r"prox\[1\] \(client 1\) raised TypeError"),
    ):
        problem = pdmm.Functions(value, gradient, 2, prox=[good, bad])  # type: ignore[list-item]
        with pytest.raises(pdmm.ClientError, match=message):
            pdmm.solve(problem, pdmm.FedSplit(2.0), rounds=2)


def test_a_prox_of_a_function_without_gradient_is_accepted() -> None:
    def distance(c: float) -> tuple[Callable[..., Any], ...]:
        return (
            lambda x: float(np.abs(x - c).sum()),
            lambda x: np.sign(x - c),
            lambda v, t: c + np.sign(v - c) * np.maximum(np.abs(v - c) - t, 0),
        )

    value, gradient, prox = zip(*map(distance, [-1.0, 0.5, 4.0]), strict=True)
    problem = pdmm.Functions(value, gradient, dimension=1, prox=prox)
    result = pdmm.solve(problem, pdmm.PDMM(1.0, relaxation=0.5), rounds=200)
    np.testing.assert_allclose(result.x, 0.5, atol=1e-9)


# --- divergence -----------------------------------------------------------------------------


def softmax(dtype: Any) -> pdmm.SoftmaxRegression:
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((9, 3)).astype(dtype) for _ in range(5)]
    return pdmm.SoftmaxRegression(rows, [rng.integers(0, 3, 9) for _ in rows], classes=3, l2=1.0)


def scaled(dtype: Any, scale: float) -> pdmm.LeastSquares:
    rng = np.random.default_rng(1)
    rows = (scale * rng.standard_normal((5, 30, 4))).astype(dtype)
    return pdmm.LeastSquares(rows, rng.standard_normal((5, 30)).astype(dtype))


DIVERGING: list[Callable[[float], pdmm.Method]] = [
    lambda step: pdmm.AGPDMM(step, 3),
    lambda step: pdmm.GPDMM(step, 3, rho=0.01),
    lambda step: pdmm.Scaffold(step, 2),
    lambda step: pdmm.FedAvg(step, 3),
    pdmm.GradientDescent,
    lambda step: pdmm.InexactFedSplit(1.0, step, 2),
]


@pytest.mark.parametrize("make", DIVERGING)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["softmax", "least squares", "large least squares"])
@pytest.mark.parametrize("optimum", [None, False])
def test_a_run_that_diverges_says_when_how_far_and_what_is_safe(
    make: Callable[[float], pdmm.Method], dtype: Any, kind: str, optimum: bool | None
) -> None:
    problem: pdmm.Problem
    if kind == "softmax":
        problem = softmax(dtype)
    else:
        problem = scaled(dtype, 1.0 if kind == "least squares" else 1e4)
    safe = 1 / float(problem.smoothness().clients.max())
    method = make((30 if kind == "softmax" else 4) * safe)
    result = pdmm.solve(problem, method, rounds=400, threads=2, optimum=optimum)
    assert result.diverged
    assert result.rounds < 400
    assert f"diverged in round {result.rounds}:" in result.reason
    size = re.search(r"‖x_s‖ = (\S+)[,.] ", result.reason)
    assert size is not None
    assert not float(size.group(1)) < 1e30
    name, limit = method.step_limit(safe)
    assert f"at most {name} = {limit:.3g} is safe" in result.reason
    assert np.isfinite(result.x).all()
    assert result.x.dtype == dtype
    # Every round but the diverged one is kept, and the start.
    np.testing.assert_array_equal(result.history["round"], np.arange(result.rounds))
    assert result.history["objective"][-1] > 1e3 * result.history["objective"][0]


@pytest.mark.parametrize("threads", [None, 2])
def test_own_functions_that_diverge(threads: int | None) -> None:
    problem = quadratics()
    result = pdmm.solve(problem, pdmm.AGPDMM(50.0, 3, rho=1e-3), rounds=500, threads=threads)
    assert result.diverged
    assert f"diverged in round {result.rounds}: ‖x_s‖ = " in result.reason
    assert "step_size=50 may be too large: at most 1/L, about 1, is safe" in result.reason
    assert np.isfinite(result.x).all()
    assert len(result.history["objective"]) == result.rounds


@pytest.mark.parametrize("threads", [None, 2])
def test_own_functions_that_turn_to_nan_name_the_client(threads: int | None) -> None:
    rounds: list[int] = []
    problem = quadratics(gradient={1: lambda x: x if len(rounds) < 2 else x + nan})
    method = pdmm.AGPDMM(0.1, 2)
    result = pdmm.solve(
        problem, method, rounds=9, threads=threads, callback=lambda r, x: rounds.append(r)
    )
    assert result.diverged
    assert "diverged in round 3" in result.reason
    assert "client 1 is not finite" in result.reason
    np.testing.assert_array_equal(result.history["round"], [0, 1, 2])


@pytest.mark.parametrize("bad", [nan, inf])
def test_an_exact_step_on_a_slope_that_is_not_finite_does_not_pass(bad: float) -> None:
    rounds: list[int] = []
    problem = quadratics(gradient={1: lambda x: x if len(rounds) < 2 else np.full(2, bad)})
    try:
        result = pdmm.solve(
            problem, pdmm.PDMM(1.0), rounds=5, callback=lambda r, x: rounds.append(r)
        )
    except pdmm.ClientError as error:
        message = str(error)
    else:
        assert result.diverged
        message = result.reason
    assert "client 1" in message
    assert rounds == [1, 2]


def test_functions_that_overflow_late_keep_the_history() -> None:
    problem = pdmm.Functions(
        [lambda x: float((x**4).sum())] * 2, [lambda x: 4 * x**3] * 2, dimension=1
    )
    result = pdmm.solve(problem, pdmm.GradientDescent(0.5), rounds=100, x0=[1.1])
    assert result.diverged
    assert len(result.history["round"]) == result.rounds >= 2
    assert np.isfinite(result.x).all()


def test_a_run_that_grows_without_blowing_up_says_so() -> None:
    problem = scaled(np.float64, 1.0)
    safe = 1 / float(problem.smoothness().clients.max())
    result = pdmm.solve(problem, pdmm.FedAvg(4 * safe, 1), rounds=20)
    assert not result.diverged
    assert result.history["objective"][-1] > 10 * result.history["objective"][0]
    assert "the objective grew" in result.reason
    assert f"at most 1/L = {safe:.3g} is safe" in result.reason


def test_an_exact_step_that_misses_its_tolerance_warns() -> None:
    rng = np.random.default_rng(0)
    problem = quadratics(gradient={1: lambda x: x - 1 + 1e-4 * rng.standard_normal(2)})
    with pytest.warns(RuntimeWarning, match="an exact step of PDMM stopped at a relative residual"):
        result = pdmm.solve(problem, pdmm.PDMM(1.0), rounds=3)
    assert result.history["exact_error"].max() > 1e-10


# --- what is accepted -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [
        pdmm.PDMM(np.float64(2.0), relaxation=np.float64(0.9)),
        pdmm.FedSplit(np.float64(0.5)),
        pdmm.InexactFedSplit(np.float64(0.5), np.float64(0.01), np.int64(2)),  # type: ignore[arg-type]
        pdmm.GPDMM(np.float64(0.01), np.int64(3), rho=np.float64(2.0)),  # type: ignore[arg-type]
        pdmm.AGPDMM(np.float32(0.01), np.int32(3)),  # type: ignore[arg-type]
        pdmm.Scaffold(np.float64(0.01), np.int64(3), np.float64(1.0)),  # type: ignore[arg-type]
        pdmm.FedAvg(np.float64(0.01), np.uint8(3)),  # type: ignore[arg-type]
        pdmm.GradientDescent(np.float64(0.01)),
    ],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.parametrize("kind", ["least squares", "softmax"])
def test_numpy_scalars_do_not_widen_a_float32_run(method: pdmm.Method, kind: str) -> None:
    problem = scaled(np.float32, 1.0) if kind == "least squares" else softmax(np.float32)
    parameters = vars(method)
    assert all(type(v) in (float, int, bool, str, type(None)) for v in parameters.values())
    plain = pdmm.solve(
        problem, type(method)(**parameters), rounds=3, weights=[1.0, 2.0, 1.0, 1.0, 3.0]
    )
    seen: list[Any] = []
    result = pdmm.solve(
        problem,
        method,
        rounds=np.int64(3),  # type: ignore[arg-type]
        record_every=np.int32(1),  # type: ignore[arg-type]
        seed=np.int64(0),  # type: ignore[arg-type]
        weights=np.array([1, 2, 1, 1, 3]),
        callback=lambda r, x: seen.append(x.dtype),
    )
    assert result.x.dtype == np.float32
    assert set(seen) == {np.dtype(np.float32)}
    np.testing.assert_array_equal(result.x, plain.x)


def test_clients_of_a_float32_run_see_float32_alone() -> None:
    problem = scaled(np.float32, 1.0)
    f = problem.at(slice(0, 5))
    x = np.ones((5, 4), np.float32)
    for method in (pdmm.GPDMM(np.float64(0.01), 2), pdmm.AGPDMM(np.float64(0.01), 2)):
        memory = method.client_start(x)
        message = method.broadcast(method.server_start(x[0], lambda v, t: v))
        upload, draft = method.client(message, memory, f, 2)
        fields = [*upload, *draft, *method.accept(memory, draft, upload)]
        assert {field.dtype for field in fields} == {np.dtype(np.float32)}


def test_whole_numbers_are_accepted_as_data() -> None:
    ints = pdmm.LeastSquares([[[1, 2], [3, 5]], [[1, 0], [0, 1]]], [[1, 2], [0, 1]])
    stacked = pdmm.LeastSquares(np.array([[[1, 2], [3, 5]], [[1, 0], [0, 1]]]), [[1, 2], [0, 1]])
    floats = pdmm.LeastSquares(
        [np.array([[1.0, 2], [3, 5]]), np.eye(2)], [np.array([1.0, 2]), np.array([0.0, 1])]
    )
    runs = [pdmm.solve(p, pdmm.PDMM(2), rounds=5, x0=[1, 2]) for p in (ints, stacked, floats)]
    for run in runs:
        assert run.x.dtype == np.float64
        np.testing.assert_allclose(run.x, runs[2].x, atol=1e-14)
    pixels = [np.arange(12, dtype=np.uint8).reshape(4, 3)] * 2
    labels = [np.array([0, 1, 1, 0], dtype=np.uint8)] * 2
    problem = pdmm.SoftmaxRegression(pixels, labels, classes=np.int64(2))  # type: ignore[arg-type]
    same = pdmm.SoftmaxRegression([p.astype(float) for p in pixels], labels, classes=2)
    x, same_x = (pdmm.solve(p, pdmm.AGPDMM(0.01, 2), rounds=3).x for p in (problem, same))
    np.testing.assert_array_equal(x, same_x)


def test_a_ragged_object_array_is_a_list_of_clients() -> None:
    ragged = np.empty(3, dtype=object)
    ragged[:] = A
    result = pdmm.solve(pdmm.LeastSquares(ragged, B), pdmm.PDMM(1.0), rounds=3)
    np.testing.assert_array_equal(result.x, pdmm.solve(least_squares(), pdmm.PDMM(1.0), rounds=3).x)
