"""A run at the server of a federation: begun, or gone on with from its checkpoint."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np

import pdmm
from pdmm.common.lock import Lock
from pdmm.common.packing import pack, unpack
from pdmm.common.whole_files import private_folder, write_together, write_whole
from pdmm.engines.sites.roster import Connection
from pdmm.engines.sites.sites import Sites
from pdmm.flare.model_files import model_bytes
from pdmm.flare.ownership import OWNER, TOKEN, check_owner

CHECKPOINT, SETTINGS = "run.safetensors", "settings.json"  # in the folder of a run
MODEL, HISTORY = "model.safetensors", "history.csv"
BEGUN = "begun"  # in the settings of a run without a checkpoint: its first round is done
PLAIN = ("rounds", "tolerance", "check_every", "record_every", "optimum", "seed", "every")


def run(
    settings: dict[str, Any],
    connection: Connection,
    folder: Path,
    out: Path,
    report: Callable[[dict[str, Any]], None],
) -> None:
    """Do what a job asks for, and leave the model in a folder.

    Args:
        settings: what was asked for, as JSON, and whose it is.
        connection: to the sites.
        folder: where the run's checkpoint is; it outlives this process.
        out: where the model goes.
        report: takes what an onlooker is told after every round.
    """
    private_folder(folder)
    private_folder(out)
    _check_plain(folder)
    with _alone(settings, folder):
        settings = _begun(settings, folder)
        if settings.get("kind"):
            # here, not above: a run of a method needs no tables
            from pdmm.flare.server_study import do_study

            write_together(do_study(settings, connection, folder, out, report), private=True)
            return
        sites = Sites(
            connection,
            settings["timeout"],
            settings["patience"],
            settings["absent"],
            verify=settings.get("verify") or "server",
            run=settings["run"],
            secure=secure_of(settings),
        )
        result = _solved(settings, sites, folder, report)
    model = _model(result, sites, settings)
    write_together({out / HISTORY: history_csv(result).encode(), out / MODEL: model}, private=True)


def _check_plain(folder: Path) -> None:
    """Refuse links, which nobody has reason to put here: they may lead to anybody's file."""
    for name in (SETTINGS, CHECKPOINT):
        if (folder / name).is_symlink():
            raise ValueError(f"{folder / name} is a link, not a plain file: remove it")


@contextmanager
def _alone(settings: dict[str, Any], folder: Path) -> Iterator[None]:
    """Nobody else works on the run: not a job that FLARE has given up and that lives on."""
    lock = Lock(folder / SETTINGS)
    try:
        lock.acquire()
    except BlockingIOError as error:
        # A job of somebody else need not wait: when this one has ended, it is refused too.
        kept = _kept(folder)
        check_owner(settings, kept, begun=bool(kept))
        raise RuntimeError(f"another job works on the run {settings['run']} still") from error
    try:
        yield
    finally:
        lock.release()


def secure_of(settings: dict[str, Any]) -> Any:
    """What was asked of secure sums; nothing is "auto"."""
    asked = settings.get("secure")
    return "auto" if asked is None else asked


def _kept(folder: Path) -> dict[str, Any]:
    """What the server knows of a run: nothing, where there is none."""
    path = folder / SETTINGS
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _begun(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What was asked for when the run began, with what is asked for now; kept for later.

    The caller has the lock: of two submissions at the same moment, one is first.
    """
    kept = _kept(folder)
    begun = (folder / CHECKPOINT).exists() or kept.get(BEGUN) is True
    check_owner(settings, kept, begun)
    if settings.get("resume") and not kept:
        raise ValueError(f"there is no run {settings['run']} at this server to go on with")
    if not begun and not settings.get("resume"):
        kept = {}
    asked = {**kept, **{name: value for name, value in settings.items() if value is not None}}
    keep(asked, folder)
    return {**dict.fromkeys(settings), **asked}


def keep(settings: dict[str, Any], folder: Path) -> None:
    """Keep what a run was asked for, for the job that takes it up again."""
    once = ("resume", "more_rounds")  # of this job alone
    text = json.dumps({name: value for name, value in settings.items() if name not in once})
    write_whole(folder / SETTINGS, text.encode(), private=True)


def _solved(
    settings: dict[str, Any],
    sites: Sites,
    folder: Path,
    report: Callable[[dict[str, Any]], None],
) -> pdmm.Result:
    tell = Teller(sites, settings, report, lambda: keep({**settings, BEGUN: True}, folder))
    path = folder / CHECKPOINT
    if path.exists():
        return pdmm.resume(path, sites, rounds=settings.get("more_rounds"), callback=tell)
    arrays = {name: np.array(array) for name, array in settings["arrays"].items()}
    given = {name: settings[name] for name in PLAIN if settings.get(name) is not None}
    if settings.get("more_rounds") is not None:
        given["rounds"] = settings["more_rounds"]
    return pdmm.solve(
        sites,
        _method(settings, sites),
        regulariser=unpack(settings["regulariser"], arrays),
        weights=_weights(settings["weights"], sites),
        # Where the sites alone know what they remember, a run that ends early begins again.
        checkpoint=None if sites.no_checkpoint else path,
        callback=tell,
        **given,
    )


def _method(settings: dict[str, Any], sites: Sites) -> Any:
    """The method, whose rho is 1/(K step_size) where nothing is known to choose it by."""
    method = unpack(settings["method"], {})
    return replace(method, rho=None) if _no_auto_rho(method, sites) else method


def _no_auto_rho(method: Any, sites: Sites) -> bool:
    """Whether rho, which is "auto" where nobody says anything, can be chosen by no constants."""
    gradient_steps = isinstance(method, pdmm.AGPDMM | pdmm.GPDMM)
    return gradient_steps and method.rho == "auto" and not sites.convex


def _own_rho(result: pdmm.Result, settings: dict[str, Any], sites: Sites) -> list[str]:
    """What the model says of a rho that was chosen by no constants."""
    if not _no_auto_rho(unpack(settings["method"], {}), sites):
        return []
    rho = cast(pdmm.AGPDMM, result.method).penalty
    return [f"rho {rho:.3g}, 1/(local_steps step_size): the loss need not be convex"]


class Teller:
    """Tells an onlooker after every round how far the run is."""

    def __init__(
        self,
        sites: Sites,
        settings: dict[str, Any],
        report: Callable[[dict[str, Any]], None],
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        self.sites = sites
        self.settings = settings
        self.report = report
        self.keep_begun = begun
        self.begun = self.before = perf_counter()
        self.bytes = 0
        self.objective: float | None = None

    def __call__(self, r: int, x: Any) -> None:
        if r == 1 and self.sites.no_checkpoint:  # else the checkpoint tells of it
            self.keep_begun()
        last, optimum = self.sites.last, self.settings.get("optimum")
        assert last is not None
        self.bytes += last.sent.bytes_up + last.sent.bytes_down
        if last.value is not None:
            self.objective = last.value  # of the round before
        apart, objective = last.disagreement, self.objective
        now, before = perf_counter(), self.before
        self.before = now
        self.report(
            {
                "round": r,
                "rounds": self.sites.rounds,
                "objective": objective,
                "gap": None if objective is None or optimum is None else objective - optimum,
                "residual": None if apart is None else float(np.sqrt(apart)),
                "bytes": self.bytes,
                "answering": sorted(self.sites.answered),
                "sites": self.sites.roster.names,
                "checkpoint": not self.sites.no_checkpoint,
                "seconds": now - self.begun,
                "round_seconds": now - before,
                "organisations": self.sites.organisations,
                "every": None if self.sites.no_checkpoint else self.settings["every"],
                "no_checkpoint": self.sites.no_checkpoint.partition(":")[0],
            }
        )


def _weights(given: dict[str, float] | None, sites: Sites) -> Any:
    """A weight for every client, from one for every site."""
    if given is None:
        return None
    names = set(sites.places)
    if set(given) != names:
        raise ValueError(f"weights are for {sorted(given)}, but the sites are {sorted(names)}")
    weights = np.empty(sites.clients)
    for name, place in sites.places.items():
        weights[place] = given[name]
    return weights


def _begun_again(settings: dict[str, Any]) -> list[str]:
    """What the model says of a run that was begun before, and had no checkpoint to go on from."""
    if not settings.get(BEGUN):
        return []
    return ["the run had begun before, and began again from its first round: it has no checkpoint"]


def history_csv(result: pdmm.Result) -> str:
    """The history of a run, a line for each recorded round."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.history)
    writer.writerows(zip(*(column.tolist() for column in result.history.values()), strict=True))
    return text.getvalue()


def _model(result: pdmm.Result, sites: Sites, settings: dict[str, Any]) -> bytes:
    certificate, history = result.certificate, result.history
    said = {
        "reason": result.reason,
        "rounds": result.rounds,
        "diverged": result.diverged,
        "method": pack(result.method, {}, "method"),
        "objective": float(history["objective"][-1]),
        "gap": certificate.gap,
        "stationarity": certificate.stationarity,
        "proviso": certificate.proviso,
        "bytes": int(history["bytes_up"][-1] + history["bytes_down"][-1]),
        "sites": {name: place.stop - place.start for name, place in sites.places.items()},
        "choices": [*result.choices, *_own_rho(result, settings, sites), *_begun_again(settings)],
        "shares": None if result.sites is None else [asdict(row) for row in result.sites],
        "run": settings["run"],
        OWNER: settings.get(OWNER),
        TOKEN: settings.get(TOKEN),
    }
    return model_bytes(result.x, sites.parameters, said)
