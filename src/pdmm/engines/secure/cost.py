"""How many bytes a secure sum takes, beyond the question itself."""

from collections.abc import Collection

from pdmm.engines.secure.words import words_of
from pdmm.engines.traffic import NUMBER_BYTES

SCALE_BYTES = 2
SIGNATURE_BYTES = 88  # 64 bytes as text
NAME_BYTES = 66  # of what a site remembers of a round: a number, and a hash as text


def mask_bytes(names: Collection[str], size: int) -> int:
    """What a question says of its sum, to one site: its number, the set and the scales.

    Args:
        names: of the sites in the set.
        size: how many numbers the sum has.
    """
    return NUMBER_BYTES + sum(len(name.encode()) for name in names) + SCALE_BYTES * size


def names_bytes(sites: int) -> int:
    """What a round says of what its sites remember: down for each of them, up for one."""
    return NAME_BYTES * sites


def part_bytes(size: int, sites: int, long: bool) -> int:
    """What one site answers: words, the number of the question, and a signature."""
    return 8 * words_of(size, sites, long) + NUMBER_BYTES + SIGNATURE_BYTES
