"""Ways to deal rows out to clients, for experiments with clients that differ."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pdmm.common.checks import one_of, positive, whole

Rows = npt.NDArray[np.int64]
Way = Literal["dirichlet", "iid", "shards", "quantity", "column"]

WAYS = ("dirichlet", "iid", "shards", "quantity", "column")
CLIENTS = 10
SHARDS = 2  # of each client


def split(
    y: Any,
    clients: int | None = None,
    by: Way = "dirichlet",
    alpha: float = 0.1,
    seed: int = 0,
) -> list[Rows]:
    """Deal rows out to clients.

    Args:
        y: the label of each row.
        clients: how many there are; 10, if not given. With ``by="column"`` there are as many as
            values.
        by: "dirichlet" deals each label's rows out in shares that are drawn from a Dirichlet
            distribution; "shards" sorts rows by label, cuts them into twice as many pieces as
            clients, and gives each client two; "quantity" draws how many rows each client has
            from a Dirichlet distribution; "iid" deals out equally many; "column" makes a client of
            each value of ``y``.
        alpha: of the Dirichlet distribution. At 0.1 most clients have a few labels; at 100 all are
            nearly alike.
        seed: of the draws.

    Returns:
        For each client, the places of its rows, in ascending order. Each row is dealt out once, and
        no client is left without one.

    Example:
        >>> import pdmm
        >>> y = [0, 0, 0, 0, 1, 1, 1, 1]
        >>> [rows.tolist() for rows in pdmm.data.split(y, clients=2, by="iid", seed=1)]
        [[0, 1, 4, 6], [2, 3, 5, 7]]
        >>> [rows.tolist() for rows in pdmm.data.split(y, by="column")]
        [[0, 1, 2, 3], [4, 5, 6, 7]]

    References:
        Hsu, Qi, Brown, "Measuring the effects of non-identical data distribution for federated
        visual classification", 2019 (dirichlet); McMahan et al., AISTATS 2017 (shards).
    """
    labels = _labels(y)
    one_of("by", by, WAYS)
    alpha = positive("alpha", alpha)
    rng = np.random.default_rng([whole("seed", seed, at_least=0), WAYS.index(by)])
    values, codes = np.unique(labels, return_inverse=True)
    if by == "column":
        return _by_value(codes, len(values), clients)
    count = CLIENTS if clients is None else whole("clients", clients, at_least=1)
    if count > len(labels):
        raise ValueError(f"clients must be at most {len(labels)}, one for each row, got {count}")
    dealers: dict[str, Callable[[], list[Rows]]] = {
        "dirichlet": lambda: _dirichlet(codes, len(values), count, alpha, rng),
        "iid": lambda: np.array_split(rng.permutation(len(labels)), count),
        "shards": lambda: _shards(codes, count, rng),
        "quantity": lambda: _quantity(len(labels), count, alpha, rng),
    }
    return [np.sort(rows) for rows in _none_empty(dealers[by]())]


def _labels(y: Any) -> npt.NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim != 1 or not len(labels):
        raise ValueError(f"y must be one label for each row, got an array of shape {labels.shape}")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("y must have no missing labels, got NaN")
    return labels.astype(str) if labels.dtype == object else labels


def _by_value(codes: Rows, values: int, clients: int | None) -> list[Rows]:
    if clients is not None and clients != values:
        raise ValueError(f"clients={clients!r}, but y has {values} values: leave clients out")
    return [np.flatnonzero(codes == k) for k in range(values)]


def _dirichlet(
    codes: Rows, labels: int, clients: int, alpha: float, rng: np.random.Generator
) -> list[Rows]:
    """Each label's rows in shares of their own."""
    parts: list[list[Rows]] = [[] for _ in range(clients)]
    for label in range(labels):
        rows = rng.permutation(np.flatnonzero(codes == label))
        for own, part in zip(parts, _cut(rows, clients, alpha, rng), strict=True):
            own.append(part)
    return [np.concatenate(own) for own in parts]


def _quantity(rows: int, clients: int, alpha: float, rng: np.random.Generator) -> list[Rows]:
    return _cut(rng.permutation(rows), clients, alpha, rng)


def _cut(rows: Rows, clients: int, alpha: float, rng: np.random.Generator) -> list[Rows]:
    """Rows in pieces whose sizes are drawn."""
    shares = rng.dirichlet(np.full(clients, alpha))
    if not np.isfinite(shares).all():  # alpha is so small that all draws were 0: one has it all
        shares = np.eye(clients)[rng.integers(clients)]
    places = np.rint(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
    return np.split(rows, places)


def _shards(codes: Rows, clients: int, rng: np.random.Generator) -> list[Rows]:
    """Rows by label, in pieces of which each client gets two."""
    pieces = np.array_split(np.argsort(codes, kind="stable"), SHARDS * clients)
    dealt = rng.permutation(len(pieces)).reshape(clients, SHARDS)
    return [np.concatenate([pieces[k] for k in own]) for own in dealt]


def _none_empty(parts: list[Rows]) -> list[Rows]:
    """The same, where whoever has the most rows gives one to each that has none."""
    for k, own in enumerate(parts):
        if not len(own):
            most = max(range(len(parts)), key=lambda i: len(parts[i]))
            parts[k] = parts[most][-1:]
            parts[most] = parts[most][:-1]
    return parts
