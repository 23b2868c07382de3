"""One site of a federation that lies, or is broken: its replies are changed at random.

What is asked: a run over ``pdmm.engines.Sites`` ends well, or with a SiteError or SiteLostError
that names the site whose replies were changed; it raises nothing else, and does not hang. And
nothing is called certified or proven but "if all sites are honest".
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import pdmm
from builders import cases
from builders.sites import SHARES, FakeSites, Payload
from fuzz.attempts import about, shorten
from fuzz.draws import Generator, chance, pick, whole
from pdmm.engines.sites.roster import UNREADABLE, SiteError, SiteLostError
from pdmm.engines.sites.sites import Sites

PROVISO = "if all sites are honest"
CLAIMS = ("certified", "proven", "optimal")
NAMES = sorted(SHARES)
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


def _poisson(clients: Any) -> pdmm.Problem:
    rng = [np.random.default_rng([8, i]) for i in clients]
    X = [r.standard_normal((12, 2)) for r in rng]
    y = [r.poisson(np.exp(x[:, 0] / 2)) for r, x in zip(rng, X, strict=True)]
    return pdmm.GLM(X, y, family="poisson")


class Asked(NamedTuple):
    """A run without lies."""

    make: Callable[..., pdmm.Problem]
    method: pdmm.Method | None
    more: dict[str, Any]


ANDERSON = pdmm.PDMM(rho="auto", acceleration="anderson")
RUNS = [
    Asked(cases.least_squares, None, {}),
    Asked(cases.least_squares, pdmm.PDMM(rho=40.0), {"tolerance": 1e-9}),
    Asked(cases.least_squares, ANDERSON, {}),
    Asked(cases.least_squares, pdmm.GPDMM(2e-3, 3), {"weights": cases.W}),
    Asked(cases.softmax, None, {}),
    Asked(cases.softmax, pdmm.AGPDMM(rho="auto"), {"tolerance": 1e-8}),
    Asked(cases.softmax, pdmm.Scaffold(0.2, 2), {"record_every": 3}),
    Asked(cases.softmax, pdmm.LBFGS(4), {"tolerance": 1e-8}),
    Asked(cases.functions, None, {}),
    Asked(cases.functions, pdmm.GradientDescent(0.05), {}),
    Asked(cases.absolute, None, {}),
    Asked(_poisson, None, {}),
    Asked(_poisson, pdmm.Newton(), {}),
    Asked(_poisson, pdmm.PDMM(metric="full"), {}),
    Asked(_poisson, pdmm.AGPDMM(metric="diagonal"), {}),
]


def case(seed: int) -> str:
    rng = np.random.default_rng(seed)
    asked = pick(rng, RUNS)
    liar = Liar(rng, pick(rng, NAMES))
    absent: Any = pick(rng, ["wait", "skip"])
    if isinstance(asked.method, pdmm.Newton | pdmm.LBFGS) or asked.method == ANDERSON:
        absent = "wait"  # they need every client in every round
    more = {"rounds": whole(rng, 3, 15), **asked.more}
    folder = chance(rng, 0.2)
    with (
        about(f"{asked.make.__name__}, {asked.method!r}, {more}, absent={absent!r}"),
        about(liar),
        tempfile.TemporaryDirectory(dir=MEMORY) as place,
        patch("pdmm.engines.sites.roster.PAUSE", 1e-3),
        patch("pdmm.engines.sites.asking.PAUSE", 1e-3),
    ):
        if folder:
            more["checkpoint"] = Path(place, "run")
        fakes = FakeSites(asked.make, SHARES, liar.fault)
        try:
            sites = Sites(fakes, timeout=1.0, patience=2.0, absent=absent)
            result = pdmm.solve(sites, asked.method, **more)
        except ValueError as error:
            refusal: Exception = error
        except SiteLostError as error:
            refusal = error
        else:
            _check(result)
            return "certified" if result.reason.startswith("certified") else "done"
        _check_refusal(refusal, liar)
        return "refused"


def _check_refusal(error: Exception, liar: "Liar") -> None:
    said = str(error)
    if isinstance(error, SiteError | SiteLostError):
        assert f"site {liar.site}" in said, f"it does not name site {liar.site}: {said}"
        assert len(said) < 600, f"too long a sentence: {said[:200]} ..."
        assert said.isprintable(), f"not in a line: {said!r}"
        return
    # Who does not know its Hessians cannot be asked for them, whoever it is.
    assert liar.field == "curved", f"no SiteError: {error!r}"
    assert "Hessians" in said, f"no SiteError: {error!r}"


def _check(result: pdmm.Result) -> None:
    certificate = result.certificate
    claims = any(word in result.reason for word in CLAIMS)
    if claims and "othing is certified" not in result.reason:
        assert PROVISO in result.reason, f"no proviso: {result.reason}"
    assert certificate.proviso == PROVISO
    assert PROVISO in repr(certificate)
    assert np.isfinite(result.x).all()
    for bound in (certificate.gap, certificate.distance):
        assert bound is None or np.isfinite(bound), f"certified is {certificate}"
    if result.reason.startswith("certified"):
        assert np.isfinite(certificate.size), f"certified is {certificate}"
    assert result.sites is not None
    assert [row.site for row in result.sites] == NAMES


VERBS = [
    *("hello", "hello", "constants", "constants", "round", "round", "round", "gradient", "any"),
    *("gradient", "curvature", "curvature", "diagonal", "value", "fingerprint", "check", "prepare"),
]


# --- lies ---------------------------------------------------------------------------------------


class Liar:
    """Changes replies of one site.

    Args:
        rng: draws what is changed, and how, before the run begins.
        site: whose they are.
    """

    def __init__(self, rng: Generator, site: str) -> None:
        self.site = site
        self.seed = whole(rng, 0, 2**31)
        self.verb = pick(rng, VERBS)
        self.first = whole(rng, 0, 6) if chance(rng, 0.5) else 0  # the answer where it begins
        self.times = pick(rng, [1, 2, 10**9])
        self.before: Payload = {}
        self.field = ""  # the last that was changed
        self.did = "nothing yet"
        self.seen = 0
        self.earlier: Payload = {}

    def __str__(self) -> str:
        return f"site {self.site} changes {self.verb} from {self.first}, {self.times}x: {self.did}"

    def fault(self, site: str, verb: str, payload: Payload) -> Any:
        """What :class:`FakeSites` wants to be told."""
        if site != self.site or self.verb not in (verb, "any"):
            return None
        self.seen += 1
        if not self.first < self.seen <= self.first + self.times:
            return self._remembered
        rng = np.random.default_rng([self.seed, self.seen])
        if chance(rng, 0.03):
            self.did = "an error"
            return pick(rng, ERRORS)
        return lambda answer: self._changed(rng, self._remembered(answer))

    def _remembered(self, answer: Payload) -> Payload:
        self.before, self.earlier = self.earlier, answer
        return answer

    def _changed(self, rng: Generator, answer: Payload) -> Any:
        kind = rng.random()
        if kind < 0.06:
            self.did = "another thing for a reply"
            return pick(rng, [None, [], {}, "text", 3, [answer], {"lacks": "memory"}])
        if kind < 0.12:
            self.did = "the answer of before"
            return self.before
        if not answer:
            return {pick(rng, ["value", "x"]): pick(rng, ODD)}
        self.field = pick(rng, sorted(answer))
        changed = dict(answer)
        if kind < 0.17:
            self.did = f"no {self.field}"
            del changed[self.field]
            return changed
        if kind < 0.2:
            self.field = pick(rng, ["lacks", "more", "next"])
        words, value = _other(rng, changed.get(self.field))
        self.did = f"{self.field} is {words}"
        return {**changed, self.field: value}


def _other(rng: Generator, value: Any) -> tuple[str, Any]:
    """Something else in the place of a value, or inside it."""
    if isinstance(value, np.ndarray) and chance(rng, 0.8):
        words, change = pick(rng, ARRAYS)
        with np.errstate(all="ignore"):
            return words, change(value)
    if isinstance(value, list) and value and chance(rng, 0.8):
        at = whole(rng, 0, len(value) - 1)
        words, inner = _other(rng, value[at])
        return f"[{at}] {words}", [*value[:at], inner, *value[at + 1 :]]
    if isinstance(value, dict) and value and chance(rng, 0.8):
        key = pick(rng, sorted(value))
        words, inner = _other(rng, value[key])
        return f"[{key}] {words}", {**value, key: inner}
    if isinstance(value, bool) and chance(rng, 0.5):
        return f"{not value}", not value
    if isinstance(value, int | float) and chance(rng, 0.5):
        factor = pick(rng, [-1, 0.5, 3, 1e3, 1e-3, 1e100, 1e300])
        return f"times {factor}", value * factor
    if isinstance(value, str) and chance(rng, 0.5):
        return "another text", pick(rng, ["float32", "float64", "exact", "estimate", "", value * 9])
    odd = pick(rng, ODD)
    return shorten(f"{type(odd).__name__} {odd!r}"[:60], 60), odd


ODD: list[Any] = [
    *(None, True, False, -1, 0, 1, 3, 10**9, 10**19, -(10**400), 10**400, 0.5, 1e150, 1e300),
    *(
        -1.0,
        5e-324,
        float("nan"),
        float("inf"),
        float("-inf"),
        1j,
        "3",
        "",
        "text" * 999,
        "\x1b[2J",
    ),
    *({}, [], (), [1], [None], {"a": 1}, {1: 2}, b"bytes", {"\ud800": "\ud800"}),
    *(np.zeros(()), np.zeros(0), np.ones(3), np.full(6, np.nan), np.zeros((1, 6)), np.ones((6, 6))),
    *(np.float64(np.nan), np.int64(-3), np.array(None), np.array(["a"]), np.zeros(6, "M8[s]")),
    *(np.broadcast_to(1.0, (10**12,)), np.zeros((0, 6))),
]
ARRAYS: list[tuple[str, Callable[[Any], Any]]] = [
    *((f"times {f}", lambda v, f=f: v * f) for f in (-1, 0, 1e3, 1e-3, 1e30, 1e100, 1e290, np.nan)),
    ("infinite", lambda v: v * 0 + np.inf),
    ("NaN once", lambda v: np.where(np.arange(v.size).reshape(v.shape) == 0, np.nan, v)),
    ("shorter", lambda v: v[:-1]),
    ("of another shape", lambda v: v[None]),
    ("flat", lambda v: v.ravel()),
    ("transposed", lambda v: v.T),
    ("a list", lambda v: v.tolist()),
    ("float32", lambda v: v.astype(np.float32)),
    ("float64", lambda v: v.astype(np.float64)),
    ("whole numbers", lambda v: np.zeros(v.shape, np.int64)),
    ("complex", lambda v: v.astype(complex)),
    ("objects", lambda v: v.astype(object)),
    ("text", lambda v: v.astype(str)),
    ("bool", lambda v: v > 0),
    ("the same for all", lambda v: np.broadcast_to(v.flat[:1], v.shape) if v.size else v),
    ("backwards", lambda v: v[::-1]),
]
ERRORS = [
    "raised ValueError: see the log of the site",
    "raised ClientError: client 0 has no gradient",
    "raised SiteError: its data changed",
    f"{UNREADABLE}: a message was cut short",
]
