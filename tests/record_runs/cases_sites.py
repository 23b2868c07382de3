"""Clients at sites, all in this process, with connections that fail when they are told to."""

import copy
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import pdmm
from record_runs import problems as p
from record_runs.cases_links import AG, EXACT, GP, SCAFFOLD
from record_runs.cases_methods import SOFTMAX, SQUARES, W
from record_runs.registry import Case, M, Make, add, caught, run

try:
    from pdmm.engines import Site, Sites  # type: ignore[attr-defined, unused-ignore]
except ImportError:
    from pdmm.engines.federated import (  # type: ignore[no-redef, import-not-found, unused-ignore]
        Federated as Sites,
    )
    from pdmm.engines.site import (  # type: ignore[no-redef, import-not-found, unused-ignore]
        Site,
    )

Payload = dict[str, Any]
Fault = Callable[[str, str, Payload], Any]
SHARES = {"ana": range(0, 5), "ben": range(5, 6), "cyd": range(6, M)}
SILENT = "no answer within 1 seconds"


class Connection:
    """What asks the sites, each with its own clients.

    Args:
        make: of some clients' problem.
        fault: called as fault(site, verb, payload) before a site is asked: None to ask it, a text
            to fail with that, or a function of the site's answer that gives another.
    """

    def __init__(self, make: Make, fault: Fault | None = None) -> None:
        self.names = sorted(SHARES, reverse=True)  # in no useful order
        self.make, self.fault = make, fault
        self.sites: dict[str, Any] = {}
        for name in SHARES:
            self.restart(name)
        self.lock = threading.Lock()

    def restart(self, name: str) -> None:
        """The site forgets all that it had in memory."""
        self.sites[name] = Site(lambda: self.make(SHARES[name]))

    def ask(
        self, verb: str, payloads: Mapping[str, Payload], timeout: float
    ) -> tuple[dict[str, Payload], dict[str, str]]:
        """The answers, and what went wrong, each by site."""
        answers, failures = {}, {}
        for name, payload in payloads.items():
            fault = None if self.fault is None else self.fault(name, verb, payload)
            if isinstance(fault, str):
                failures[name] = fault
                continue
            try:
                answer = self.answer(name, verb, payload)
            except Exception as error:
                failures[name] = f"raised {type(error).__name__}: {error}"
                continue
            answers[name] = answer if fault is None else fault(answer)
        return answers, failures

    def answer(self, name: str, verb: str, payload: Payload) -> Payload:
        """A site's answer; copies travel, as over a network."""
        with self.lock:
            answer: Payload = self.sites[name].answer(verb, copy.deepcopy(dict(payload)))
            return copy.deepcopy(answer)


def problem(connection: Connection, absent: Any = "wait") -> Any:
    """The sites as a problem; ``absent`` may be wrong, to see what is said about it."""
    return Sites(connection, timeout=60.0, patience=120.0, absent=absent)


class Away:
    """Site ben does not answer from one round on, and is back after a later one.

    The library asks an absent site in a thread of its own whether it is back. That question waits
    here for the callback of the later round, and this for that thread: so the site is back in the
    same round every time.

    Args:
        leaves: the first round in which it does not answer.
        returns: the round after which it is back.
        verb: the only question that it does not answer meanwhile; all of them if not given.
    """

    def __init__(self, leaves: int, returns: int, verb: str | None = None) -> None:
        self.leaves, self.returns, self.verb = leaves, returns, verb
        self.now, self.gone = 0, False
        self.back, self.asked = threading.Event(), threading.Event()
        self.asking: list[threading.Thread] = []

    def fault(self, site: str, verb: str, payload: Payload) -> str | None:
        """Whether the question fails."""
        self.now = payload.get("round", self.now)
        if site != "ben" or self.back.is_set():
            return None
        if self.gone and verb == "hello":
            self.asking.append(threading.current_thread())
            self.asked.set()
            self.back.wait(60)
            return None
        if self.gone or (self.now >= self.leaves and self.verb in (None, verb)):
            self.gone = True
            return SILENT
        return None

    def callback(self, r: int, x: Any) -> None:
        """After the round in which it returns, let it."""
        if r != self.returns or not self.gone:
            return
        self.asked.wait(60)
        self.back.set()
        for thread in self.asking:
            thread.join(60)


FULL: dict[str, Case] = {
    "agpdmm": (p.squares, AG, {"rounds": 15, "record_every": 2}),
    "gpdmm weights": (p.squares, GP, {"rounds": 15, "weights": W}),
    "gpdmm last relaxed": (p.squares, pdmm.GPDMM(2e-3, 4, 40.0, "last", 0.7), {"rounds": 15}),
    "pdmm": (p.squares, EXACT, {"rounds": 15}),
    "fedsplit": (p.squares, SQUARES["fedsplit"], {"rounds": 15}),
    "inexact server": (p.squares, SQUARES["inexact server"], {"rounds": 15}),
    "scaffold": (p.squares, SCAFFOLD, {"rounds": 15, "weights": W}),
    "fedavg": (p.squares, SQUARES["fedavg"], {"rounds": 15}),
    "descent": (p.squares, SQUARES["descent"], {"rounds": 15}),
    "float32": (p.squares32, AG, {"rounds": 15}),
    "lasso": (p.squares, EXACT, {"rounds": 30, "regulariser": pdmm.L1(300.0), "tolerance": 1e-9}),
    "box": (p.squares, EXACT, {"rounds": 15, "regulariser": pdmm.Box(-0.5, 1.0)}),
    "softmax": (p.softmax, SOFTMAX["agpdmm"], {"rounds": 12, "optimum": np.zeros(10)}),
    "batches": (p.batches, SOFTMAX["agpdmm"], {"rounds": 12, "record_every": 3}),
    "functions": (p.functions, pdmm.AGPDMM(0.3, 3), {"rounds": 12, "optimum": 20.0}),
    "steepening": (p.steepening, pdmm.AGPDMM(step_size="auto", local_steps=4), {"rounds": 15}),
    "prox": (p.with_prox, pdmm.PDMM(rho=0.7, relaxation=0.8), {"rounds": 20}),
    "diagonals": (p.diagonals, pdmm.PDMM(rho="auto"), {"rounds": 20, "tolerance": 1e-14}),
    "own rho": (p.softmax, pdmm.GPDMM(rho="auto"), {"rounds": 15}),
    "anderson": (p.softmax, pdmm.GPDMM(rho="auto", acceleration="anderson"), {"rounds": 15}),
    "automatic": (p.squares, None, {}),
    "automatic softmax": (p.softmax, None, {"rounds": 40}),
    "automatic functions": (p.functions, None, {"tolerance": 1e-10}),
    "automatic absolute": (p.absolute, None, {"rounds": 30}),
    "tolerance": (p.squares, EXACT, {"rounds": 100, "tolerance": 1e-8, "check_every": 3}),
    "x0": (p.squares, AG, {"rounds": 8, "x0": np.arange(p.D) * 1.0}),
    "stopped": (p.softmax, SOFTMAX["agpdmm"], {"rounds": 20, "callback": lambda r, x: r == 7}),
    "diverges": (p.squares, pdmm.FedAvg(1.0, 9), {"rounds": 60}),
    "not convex": (
        lambda c: p.not_convex(c, strong_convexity=1.0, smoothness=3.0),
        pdmm.GradientDescent(0.3),
        {"rounds": 25, "x0": np.full(2, 9.0)},
    ),
    "refused bits": (p.squares, AG, {"bits": 4}),
}
SKIP = ("agpdmm", "pdmm", "own rho", "automatic", "tolerance", "steepening", "anderson", "stopped")


def solve_at(
    folder: Path, case: Case, absent: str, connection: Connection | None = None, **more: Any
) -> Any:
    """A case with its clients at the sites."""
    make, method, arguments = case
    connection = connection or Connection(make)
    return pdmm.solve(problem(connection, absent), method, **{**arguments, **more})


for name, case in FULL.items():
    for absent in ("wait", "skip") if name in SKIP else ("wait",):
        add(f"sites {absent}/{name}", solve_at, case, absent)


def without_ben(
    folder: Path, case: Case, leaves: int, returns: int, verb: str | None = None
) -> Any:
    """A case without site ben for some rounds."""
    away = Away(leaves, returns, verb)
    connection = Connection(case[0], away.fault)
    return solve_at(folder, case, "skip", connection, callback=away.callback)


LONG: dict[str, Any] = {"rounds": 30}
AWAY: dict[str, tuple[Any, ...]] = {
    "agpdmm": ((p.squares, AG, LONG), 5, 14),
    "gpdmm weights": ((p.squares, GP, {**LONG, "weights": W}), 3, 4),
    "pdmm": ((p.squares, EXACT, {**LONG, "tolerance": 1e-8}), 5, 14),
    "scaffold": ((p.squares, SCAFFOLD, LONG), 5, 14),
    "softmax": ((p.softmax, pdmm.GPDMM(rho="auto"), LONG), 2, 9),
    "automatic": ((p.squares, None, {"rounds": 60}), 4, 12),
    "lasso": ((p.squares, EXACT, {**LONG, "regulariser": pdmm.L1(50.0)}), 5, 14),
    "until the end": ((p.squares, AG, {"rounds": 12}), 9, 10**9),
    "first certificate": ((p.squares, EXACT, {**LONG, "tolerance": 1e-6}), 0, 4, "gradient"),
    "a certificate": ((p.squares, EXACT, {**LONG, "tolerance": 1e-12}), 10, 13, "gradient"),
}
for name, how in AWAY.items():
    add(f"sites away/{name}", without_ben, *how)


@run("sites wait/three times silent")
def three_times_silent(folder: Path) -> Any:
    failed = 0

    def fault(site: str, verb: str, payload: Payload) -> str | None:
        nonlocal failed
        if site == "cyd" and verb == "round" and payload["round"] == 4 and failed < 3:
            failed += 1
            return SILENT
        return None

    case: Case = (p.squares, pdmm.AGPDMM(rho="auto", acceleration="anderson"), {"rounds": 12})
    return solve_at(folder, case, "wait", Connection(case[0], fault))


def forgetful(folder: Path, case: Case, verb: str, absent: str) -> Any:
    """A run in which every other site that is asked something has just lost its memory."""
    count = 0

    def fault(site: str, asked: str, payload: Payload) -> None:
        nonlocal count
        if asked == verb:
            count += 1
            if count % 2 == 0:
                connection.restart(site)

    connection = Connection(case[0], fault)
    return solve_at(folder, case, absent, connection)


OWN: Case = (p.softmax, pdmm.GPDMM(rho="auto"), {"rounds": 15, "tolerance": 1e-30})
add("sites forget/round", forgetful, OWN, "round", "wait")
add("sites forget/gradient", forgetful, OWN, "gradient", "wait")
add("sites forget/scaffold", forgetful, FULL["scaffold"], "round", "skip")
add("sites forget/batches", forgetful, FULL["batches"], "round", "skip")
add("sites forget/steepening", forgetful, FULL["steepening"], "round", "wait")


@run("sites wait/late answers")
def late_answers(folder: Path) -> Any:
    """Every third round an answer is held up, and comes in place of the next one's."""
    attempts: dict[int, int] = {}
    late: list[Any] = []

    def fault(site: str, verb: str, payload: Payload) -> Any:
        if verb != "round" or site != "ana" or payload["round"] % 3:
            return None
        attempt = attempts[payload["round"]] = attempts.get(payload["round"], 0) + 1
        if attempt == 1:  # the site works, and the server hears nothing
            late.append(connection.answer(site, verb, payload))
            return SILENT
        return (lambda answer: late.pop()) if attempt == 2 else None

    connection = Connection(p.squares, fault)
    case: Case = (p.squares, pdmm.PDMM(rho="auto"), {"rounds": 9})
    return solve_at(folder, case, "wait", connection)


def stop_and_go_on(folder: Path, case: Case, restart: bool) -> Any:
    """A run that is stopped and taken up, with sites that remember or that do not."""
    path, connection = folder / "run", Connection(case[0])
    more: Any = {"checkpoint": path, "every": 4, "callback": lambda r, x: r == 10}
    stopped = solve_at(folder, case, "wait", connection, **more)
    if restart:
        for name in SHARES:
            connection.restart(name)
    resumed = pdmm.resume(path, problem(connection))
    return {"stopped": stopped, "resumed": resumed, "again": pdmm.resume(path, problem(connection))}


STOPPED: dict[str, Case] = {
    "softmax": (p.softmax, SOFTMAX["gpdmm mean"], {"rounds": 20}),
    "scaffold": (p.squares, SCAFFOLD, {"rounds": 20, "weights": W}),
    "own rho": (p.softmax, pdmm.GPDMM(rho="auto", acceleration="anderson"), {"rounds": 20}),
    "lasso": (p.squares, EXACT, {"rounds": 20, "regulariser": pdmm.L1(50.0), "tolerance": 1e-9}),
    "steepening": FULL["steepening"],
    "batches": (p.batches, SOFTMAX["agpdmm"], {"rounds": 20}),
}
for restart, (name, case) in enumerate(STOPPED.items()):
    add(f"sites checkpoints/{name}", stop_and_go_on, case, restart % 2 == 1)


@run("sites checkpoints/away meanwhile")
def away_meanwhile(folder: Path) -> Any:
    """A site leaves before the checkpoint, and is back when the run is taken up."""
    away, path = Away(6, 10**9), folder / "run"
    case: Case = (p.squares, GP, {"rounds": 25})
    more: Any = {"checkpoint": path, "every": 4, "callback": lambda r, x: r == 10}
    stopped = solve_at(folder, case, "skip", Connection(p.squares, away.fault), **more)
    away.back.set()
    resumed = pdmm.resume(path, problem(Connection(p.squares), "skip"))
    return {"stopped": stopped, "resumed": resumed}


def spoilt(folder: Path, change: Callable[[Payload], Payload], verb: str = "round") -> Any:
    """A run in which site ben's answer of round 7 is another than it gave."""
    now = 0

    def fault(site: str, asked: str, payload: Payload) -> Any:
        nonlocal now
        now = payload.get("round", now)
        return change if site == "ben" and asked == verb and now == 7 else None

    case: Case = (p.squares, GP, {"rounds": 12, "tolerance": 1e-30, "check_every": 1})
    return caught(lambda: solve_at(folder, case, "wait", Connection(p.squares, fault)))


@run("sites errors/spoilt answers")
def spoilt_answers(folder: Path) -> Any:
    """Each names the site and says what was wrong."""

    def upload(change: Callable[[Any], Any]) -> Callable[[Payload], Payload]:
        return lambda answer: {**answer, "upload": [change(part) for part in answer["upload"]]}

    return {
        "nan": spoilt(folder, upload(lambda v: v * np.nan)),
        "shape": spoilt(folder, upload(lambda v: v[:, :-1])),
        "dtype": spoilt(folder, upload(lambda v: v.astype(np.float32))),
        "gradient": spoilt(folder, lambda a: {**a, "gradient": a["gradient"][:-1]}, "gradient"),
    }


@run("sites errors/a client that fails")
def failing(folder: Path) -> Any:
    case: Case = (lambda clients: p.breaking(clients, 30), pdmm.AGPDMM(0.3, 3), {"rounds": 20})
    return caught(lambda: solve_at(folder, case, "wait"))


@run("sites errors/no problem")
def no_problem(folder: Path) -> Any:
    def broken(clients: Any) -> Any:
        if 5 in clients:
            raise OSError("no such disk")
        return p.squares(clients)

    def other(clients: Any) -> Any:
        return (p.diagonals if 5 in clients else p.squares)(clients)

    return [
        caught(lambda: problem(Connection(broken))),
        caught(lambda: problem(Connection(lambda clients: None))),
        caught(lambda: problem(Connection(p.lazy))),
        caught(lambda: problem(Connection(other))),
        caught(lambda: problem(Connection(p.squares), "dance")),
    ]
