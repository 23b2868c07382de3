"""What clients add to the sum of a round, and what they remember when it counts.

A client commits what it has added as a whole number, and not what it meant to add: the server's
mean and the clients' memories stay in step, as where uploads are rounded to a few bits.
"""

from typing import Any

import numpy as np

from pdmm.common import trees
from pdmm.common.rounding import length
from pdmm.engines.client_round import Done, Made, delivered
from pdmm.engines.exchange import Sums
from pdmm.engines.secure.layout import UPLOAD, Layout, Vector, rows_of, upload_of
from pdmm.engines.secure.scales import Powers
from pdmm.engines.secure.words import LARGEST, Encoded, decoded, encoded
from pdmm.engines.traffic import Sent
from pdmm.methods.base import Method
from pdmm.problems.block import Tally


def encoded_uploads(
    made: Made, weights: Vector, layout: Layout, k: Powers, room: int, long: bool
) -> Encoded:
    """The uploads of some clients, times their weights, as whole numbers.

    Args:
        made: what they made of the message.
        weights: theirs.
        layout: what the sum of the round is of.
        k: its scales.
        room: bits that there are.
        long: whether levels are of the long list.
    """
    rows = rows_of(made.upload)
    if not (weights == 1).all():
        rows = rows * weights[:, None]
    size = rows.shape[1]
    names = [part.name.removeprefix(UPLOAD) for part in layout.parts]
    if "gradient" in names and "doubt" in names:
        rows = _doubted(rows, layout, k)
    return encoded(rows, k[:size], room, long)


def _doubted(rows: Vector, layout: Layout, k: Powers) -> Vector:
    """Uploads whose doubt about a gradient has what rounding adds to it."""
    places = layout.arrays(np.arange(layout.size, dtype=np.float64))
    gradient = places[UPLOAD + "gradient"].reshape(-1).astype(np.int64)
    doubt = places[UPLOAD + "doubt"].reshape(-1).astype(np.int64)
    rows = rows.copy()
    rows[:, doubt] += length(np.ldexp(0.5, -k[gradient].astype(np.int64)))
    return rows


def encoded_numbers(
    numbers: dict[str, Any], layout: Layout, k: Powers, room: int, long: bool
) -> Encoded:
    """What a site adds once, beside the uploads of its clients: F, and counts.

    Args:
        numbers: by name; what is not there adds nothing.
        layout: what the sum of the round is of.
        k: its scales.
        room: bits that there are.
        long: whether levels are of the long list.
    """
    beside = [part for part in layout.parts if not part.name.startswith(UPLOAD)]
    flat = np.array([float(numbers.get(part.name, 0.0)) for part in beside])
    return encoded(flat[None], k[layout.size - len(beside) :], room, long)


def committed_part(method: Method, made: Made, weights: Vector, whole: Encoded, k: Powers) -> Done:
    """What clients remember once their uploads have been added up.

    Args:
        method: what they run.
        made: what they made of the message.
        weights: theirs.
        whole: what they added.
        k: the scales of the sum.
    """
    size = whole.rows.shape[1]
    rows = decoded(whole.rows, k[:size]) / weights[:, None]
    meant = rows_of(made.upload)
    beyond = ~(np.abs(meant) <= LARGEST)
    if beyond.any():
        rows = np.where(beyond, meant, rows)
    return delivered(method, made, upload_of(made.upload, rows))


def numbers_beside(
    method: Method, made: Made, weights: Vector, value: float | None
) -> dict[str, float]:
    """What a site or a process adds beside uploads."""
    each = method.disagreement(made.upload)
    found = {
        "gradients": float(made.tally.gradients),
        "values": float(made.tally.values),
        "exact": float(made.tally.exact),
    }
    if each is not None:
        found["apart"] = float(weights @ each)
    if value is not None:
        found["value"] = value
    return found


def summed(
    numbers: dict[str, Vector],
    like: Any,
    weight: float,
    tally: Tally | None = None,
    arrived: int = 1,
    sent: Sent | None = None,
    value: float | None = None,
    steepest: float = 0.0,
) -> Sums:
    """What came of a round, from the sum that was read.

    Args:
        numbers: of the sum, by name.
        like: an upload.
        weight: of the clients that took part.
        tally: what was asked of them.
        arrived: how many they are.
        sent: what travelled.
        value: F, where it was wanted.
        steepest: the largest L that gradients have shown.
    """
    apart = numbers.get("apart")
    return Sums(
        uploads=trees.build(like, [numbers[UPLOAD + name] for name in like._fields]),
        weight=weight,
        arrived=arrived,
        tally=tally or Tally(),
        bad=None,
        apart=None if apart is None else float(apart),
        sent=sent or Sent(),
        value=value,
        steepest=steepest,
    )
