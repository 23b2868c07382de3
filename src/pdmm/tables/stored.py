"""What a model file holds, and the file itself: one JSON text with a checksum, and no code."""

import hashlib
import json
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pdmm.common.version import __version__
from pdmm.common.whole_files import write_whole
from pdmm.result import Certificate, Result
from pdmm.tables.design import Layout
from pdmm.tables.encoding import Encoding, from_json, to_json
from pdmm.tables.formulas import Formula, read_formula
from pdmm.tables.inference import Inference

Vector = npt.NDArray[np.float64]

FORMAT = "pdmm model"
VERSION = 1


class Together(NamedTuple):
    """What is known of all clients together, where nothing is known of each."""

    clients: int
    """That have complete rows."""
    dropped: int
    """Rows that were left out."""
    events: float
    """Of a binomial or a Cox model."""


@dataclass(frozen=True)
class Stored:
    """All that is known of a fitted model without its clients' rows."""

    encoding: Encoding
    layout: Layout
    family: str
    delta: float | None
    """Of Huber's loss."""
    x: Vector
    """The coefficients, in the order of the problem."""
    inference: Inference
    covariance: str
    l1: float
    l2: float
    standardise: bool
    missing: str
    offset: str | None
    weights: str | None
    ties: str
    client: str | None
    sites: dict[str, dict[str, Any]]
    unlabelled: int
    notes: tuple[str, ...]
    certificate: Certificate
    how: dict[str, Any]
    """Versions, rounds, bytes and reasons: how the model was made."""
    path: dict[str, Any] | None = None
    """Of cross-validation: ``columns`` with one number for each penalty, and all ``rounds``."""
    no_errors: str = ""
    """Why there are no standard errors, where clients do not say enough for them."""
    together: Together | None = None
    """Of all clients; None in a model file that was written before it was kept."""

    @property
    def counts(self) -> Together:
        """What is known of all clients together."""
        if self.together is not None:
            return self.together
        each = self.sites.values()
        return Together(
            clients=sum(1 for own in each if own["rows"]),
            dropped=sum(int(own["dropped"]) for own in each) + self.unlabelled,
            events=sum(float(own["events"]) for own in each),
        )

    @property
    def fewest(self) -> int | None:
        """Rows of the smallest client that has any; None where clients are not told apart."""
        each = [int(own["rows"]) for own in self.sites.values() if own.get("rows")]
        return min(each, default=None)

    @property
    def formula(self) -> Formula:
        """The model's."""
        return self.encoding.formula

    @property
    def penalised(self) -> bool:
        """Whether there is a penalty."""
        return self.l1 > 0 or self.l2 > 0


def how_it_was_made(result: Result, clients: int) -> dict[str, Any]:
    """What a reader of the model wants to know of its run."""
    history = result.history
    return {
        "method": repr(result.method),
        "rounds": result.rounds,
        "reason": result.reason,
        "choices": list(result.choices),
        "clients": clients,
        "bytes_up": int(history["bytes_up"][-1]),
        "bytes_down": int(history["bytes_down"][-1]),
        "objective": [float(value) for value in history["objective"]],
        "recorded": [int(r) for r in history["round"]],
        "decrement": _decrements(result),
        "pdmm": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _decrements(result: Result) -> list[float | None] | None:
    if "decrement" not in result.history:
        return None
    return [float(v) if np.isfinite(v) else None for v in result.history["decrement"]]


def save(stored: Stored, path: Path) -> None:
    """Write a model file, whole or not at all."""
    body = json.dumps(body_of(stored), ensure_ascii=False, allow_nan=False, indent=1)
    head = {"format": FORMAT, "version": VERSION, "sha256": _sum(body)}
    write_whole(path, f"{json.dumps(head)}\n{body}\n".encode())


def read(path: Path) -> Stored:
    """Read a model file, and refuse what is none, or damaged, or of a newer pdmm."""
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    first, _, body = text.partition("\n")
    try:
        head = json.loads(first)
    except json.JSONDecodeError:
        head = None
    if not isinstance(head, dict) or head.get("format") != FORMAT or not _counts(head):
        raise ValueError(f"{path} is no model file of pdmm, or its first line is damaged")
    if head["version"] > VERSION:
        raise ValueError(
            f"{path} was written by a newer pdmm (version {head['version']} of the file, and "
            f"this pdmm reads up to {VERSION}): update pdmm"
        )
    body = body.removesuffix("\n")
    if _sum(body) != head.get("sha256"):
        raise ValueError(f"{path} is damaged: its checksum is not that of its contents")
    try:
        return of_body(json.loads(body))
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError):
        raise ValueError(f"{path} is no model file of pdmm: it lacks a part of a model") from None


def _counts(head: dict[str, Any]) -> bool:
    """Whether a head has a version that some pdmm may have written."""
    return type(head.get("version")) is int and head["version"] >= 1


def _sum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def body_of(stored: Stored) -> dict[str, Any]:
    """What a model file holds, as JSON has it."""
    plain = {
        name: getattr(stored, name)
        for name in (
            *("family", "delta", "covariance", "l1", "l2", "standardise", "missing", "offset"),
            *("weights", "ties", "client", "sites", "unlabelled", "notes", "how", "path"),
            *("no_errors",),
        )
    }
    body: dict[str, Any] = _without_nan(
        plain
        | {
            "encoding": to_json(stored.encoding),
            "layout": asdict(stored.layout),
            "x": stored.x,
            "inference": stored.inference._asdict(),
            "certificate": asdict(stored.certificate),
            "together": stored.counts._asdict(),
        }
    )
    return body


def of_body(body: dict[str, Any]) -> Stored:
    """What was stored; the body is used up."""
    encoding = body.pop("encoding")
    extra = [text for text in (body["offset"], body["weights"]) if text is not None]
    left = encoding["formula"].split("~")[0]
    formula = read_formula(f"{left}~ {encoding['right']}", None, extra)
    written = Formula(**(vars(formula) | {"text": encoding["formula"]}))
    layout = body.pop("layout")
    inference = body.pop("inference")
    matrices: dict[str, Any] = {name: _matrix(inference[name]) for name in ("covariance", "spread")}
    scalars = ("n", "scale", "log_likelihood", "deviance", "pearson")
    numbers: dict[str, Any] = {name: _number(inference[name]) for name in scalars}
    certificate = body.pop("certificate")
    stationarity = {"stationarity": _number(certificate["stationarity"])}
    together = body.pop("together", None)
    return Stored(
        **(body | {"notes": tuple(body["notes"]), "x": np.array(body["x"], dtype=np.float64)}),
        encoding=from_json(encoding, written),
        layout=Layout(tuple(layout["columns"]), layout["intercept"], tuple(layout["classes"])),
        inference=Inference(**(numbers | matrices)),
        certificate=Certificate(**(certificate | stationarity)),
        together=None if together is None else Together(**together),
    )


def _matrix(rows: Any) -> Vector | None:
    return None if rows is None else np.array(rows, dtype=np.float64)


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def _without_nan(value: Any) -> Any:
    """As JSON holds it: arrays are lists, and a number that is none is null."""
    if isinstance(value, dict):
        return {str(key): _without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    if isinstance(value, np.ndarray):
        return _without_nan(value.tolist())
    if isinstance(value, np.generic):
        return _without_nan(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
