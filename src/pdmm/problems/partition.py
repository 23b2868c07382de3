"""Clients in blocks that stay in cache and keep a few threads busy."""

from itertools import pairwise

BLOCK_BYTES = 4 * 2**20  # what a block of clients works on: it should stay in cache
LEAST_BYTES = 4 * 2**20  # less than this is not worth a block of its own


def partition(clients: int, held: float, read: float, fewest: int = 8) -> list[slice]:
    """Clients in blocks of nearly equal size.

    Args:
        clients: how many there are.
        held: bytes a client of what a block works on as a whole; this should stay in cache.
        read: bytes a client of all that a step reads.
        fewest: so many blocks keep a few threads busy, unless that leaves them too little to do.
    """
    most = max(1, int(BLOCK_BYTES // max(1, held)))
    worth = int(clients * read // LEAST_BYTES)
    count = min(clients, max(-(-clients // most), min(fewest, worth), 1))
    # The larger blocks come first: threads then finish together more often.
    edges = [i * (clients // count) + min(i, clients % count) for i in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(edges)]
