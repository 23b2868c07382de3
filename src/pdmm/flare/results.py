"""The result of a run as text, for the researcher who was not there."""

from dataclasses import asdict
from typing import Any

import numpy as np

from pdmm import Certificate, History, Result, Traffic
from pdmm.common.packing import pack, unpack
from pdmm.common.site_shares import SiteShare


def result_as_json(result: Result | None) -> dict[str, Any]:
    """What is known of a run, but for the constants of clients."""
    assert result is not None
    return {
        "x": result.x.tolist(),
        "history": {name: column.tolist() for name, column in result.history.items()},
        "reason": result.reason,
        "diverged": result.diverged,
        "rounds": result.rounds,
        "method": pack(result.method, {}, "method"),
        "traffic": list(result.traffic),
        "setup_seconds": result.setup_seconds,
        "seed": result.seed,
        "certificate": asdict(result.certificate),
        "scalars": list(result.scalars),
        "choices": list(result.choices),
        "sites": None if result.sites is None else [asdict(row) for row in result.sites],
    }


def result_of_json(told: dict[str, Any]) -> Result:
    """The result again."""
    sites = told["sites"]
    return Result(
        x=np.array(told["x"], dtype=np.float64),
        history=History({name: np.array(column) for name, column in told["history"].items()}),
        reason=told["reason"],
        diverged=told["diverged"],
        rounds=told["rounds"],
        method=unpack(told["method"], {}),
        traffic=Traffic(*told["traffic"]),
        optimum=None,
        setup_seconds=told["setup_seconds"],
        seed=told["seed"],
        certificate=Certificate(**told["certificate"]),
        scalars=(int(told["scalars"][0]), int(told["scalars"][1])),
        choices=tuple(told["choices"]),
        sites=None if sites is None else tuple(SiteShare(**row) for row in sites),
    )
