"""Which samples a step is about: a function of the seed, the client and its count of steps.

So it does not matter which clients are worked on together, on how many threads or processes, or
whether the run was taken up from a checkpoint.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Rows: TypeAlias = npt.NDArray[np.int64]
Sampling: TypeAlias = Literal["shuffled", "replacement", "stored"]
SAMPLINGS = ("shuffled", "replacement", "stored")

SHUFFLES, DRAWS, MASKS = range(3)  # what random numbers are for: each has a stream of its own
WORDS = 4  # random numbers of 64 bits for each count of Philox


@lru_cache(maxsize=100_000)
def _key(seed: int, client: int, purpose: int) -> npt.NDArray[np.uint64]:
    """What tells a stream from all others; it takes longer to make than a short stream to read."""
    words = np.random.SeedSequence([seed, client, purpose]).generate_state(2, np.uint64)
    return words.astype(np.uint64)


def stream(seed: int, client: int, purpose: int, count: int = 0) -> np.random.Generator:
    """Random numbers for one purpose at one client, from a count on."""
    return np.random.Generator(np.random.Philox(key=_key(seed, client, purpose), counter=count))


@dataclass(frozen=True)
class Batches:
    """How mini-batches are drawn.

    Args:
        size: samples in a batch; None for all.
        sampling: "shuffled" goes through a client's samples in a new order in each epoch, the
            last batch of which may be smaller; "replacement" draws each sample on its own;
            "stored" keeps the order of the data, leaves out the last partial batch and then
            starts again.
        seed: of the run.
    """

    size: int | None
    sampling: Sampling
    seed: int = 0

    def fewest(self, samples: int) -> int:
        """How many samples the smallest batch of a client has, which has so many samples."""
        if self.size is None or samples <= self.size:
            return samples
        rest = samples % self.size if self.sampling == "shuffled" else 0
        return rest or self.size

    def rows(self, client: int, samples: int, cursor: int, count: int) -> list[Rows] | None:
        """The samples of the steps cursor, ..., cursor + count - 1; None where all are taken.

        Args:
            client: its number in the run.
            samples: how many it has.
            cursor: how many steps it has taken.
            count: how many it will take.
        """
        if self.size is None:
            return None
        if self.sampling == "stored":
            return [self._stored(samples, s, self.size) for s in range(cursor, cursor + count)]
        if self.sampling == "replacement":
            return self._drawn(client, samples, cursor, count, self.size)
        return self._shuffled(client, samples, cursor, count, self.size)

    def _stored(self, samples: int, step: int, size: int) -> Rows:
        first = step % (samples // size) * size
        return np.arange(first, first + size)

    def _drawn(self, client: int, samples: int, cursor: int, count: int, size: int) -> list[Rows]:
        counts = -(-size // WORDS)  # of Philox, for each step
        draws = stream(self.seed, client, DRAWS, cursor * counts)
        parts = draws.random((count, counts * WORDS))[:, :size]
        return list((parts * samples).astype(np.int64))

    def _shuffled(
        self, client: int, samples: int, cursor: int, count: int, size: int
    ) -> list[Rows]:
        found: list[Rows] = []
        each = -(-samples // size)  # batches in an epoch
        for epoch in range(cursor // each, (cursor + count - 1) // each + 1):
            order = self._order(client, samples, epoch)
            first = max(cursor - epoch * each, 0)
            end = min(cursor + count - epoch * each, each)
            found += [order[k * size : (k + 1) * size] for k in range(first, end)]
        return found

    def _order(self, client: int, samples: int, epoch: int) -> Rows:
        shuffle = stream(self.seed, client, SHUFFLES, epoch << 128)  # far from all other epochs
        return shuffle.permutation(samples)


def mask_seed(seed: int, client: int, step: int) -> int:
    """A seed for what a model itself draws, such as dropout, in one step of one client."""
    words = np.random.SeedSequence([seed, client, MASKS, step]).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))  # PyTorch takes 63 bits
