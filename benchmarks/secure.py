"""Secure sums: a round with them beside one without, over real processes, and what bounds it."""

import os
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from benchmarks.flare import WAYS, files, round_seconds
from benchmarks.timing import heading, seconds
from pdmm.engines.secure.cost import mask_bytes, names_bytes, part_bytes
from pdmm.engines.secure.words import words_of
from pdmm.flare.processes import LocalFederation
from pdmm.privacy.policy import Policy

ROUNDS = {1_000: 60, 1_000_000: 24}  # enough to end at the optimum
TIMES = 3  # each way is run so often, in turns; the best median counts
LIMIT = 1.5
CHUNK = 2**18  # bytes of a stream at a time


def main() -> None:
    speed = _stream_speed()
    heading("Secure sums: a round of AGPDMM, sites and a server as processes here, mutual TLS")
    print(f"  AES-256 in counter mode makes {speed / 1e9:.1f} GB/s here, on one core")
    root = Path(__file__).resolve().parent.parent
    os.environ["PYTHONPATH"] = f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    for sites in (3, 4):
        with tempfile.TemporaryDirectory(prefix="pdmm-bench-") as name:
            _federation(Path(name), sites, speed)


def _federation(folder: Path, sites: int, speed: float) -> None:
    names = [f"site-{k + 1}" for k in range(sites)]
    length = folder / "length"
    length.write_text("1")
    problems = files(folder, length, names)
    with LocalFederation(names, problems, folder / "nodes", policy=Policy.open()) as federation:
        for d in ROUNDS:
            length.write_text(str(d))
            _report(d, federation, sites, speed)


def _report(d: int, federation: LocalFederation, sites: int, speed: float) -> None:
    taken = dict.fromkeys(("plain", "secure"), np.inf)
    for _ in range(TIMES):
        for way in taken:
            found = round_seconds(d, federation, WAYS[way], ROUNDS[d], sites)
            taken[way] = min(taken[way], found)
    ratio = taken["secure"] / taken["plain"]
    print(
        f"  {sites} sites, {d:9,d} numbers: {taken['plain']:.4f} s without, "
        f"{taken['secure']:.4f} s with them: {ratio:.2f} times, at most {LIMIT} allowed"
    )
    streams = 8 * words_of(d, sites, False) * (sites - 1)
    names = [f"site-{k + 1}" for k in range(sites)]
    up = part_bytes(d, sites, False) + names_bytes(1) - 8 * d
    down = mask_bytes(names, d) + names_bytes(sites)
    print(
        f"    each site makes {streams / 1e3:,.0f} kB of streams, {1e3 * streams / speed:.3f} ms; "
        f"{up / 1e3:,.0f} kB more travel up, {down / 1e3:,.0f} kB more down",
        flush=True,
    )


def _stream_speed() -> float:
    """Bytes of a stream in a second."""
    nothing = bytes(CHUNK)
    buffer = bytearray(CHUNK)
    cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
    return CHUNK / min(seconds(lambda: cipher.update_into(nothing, buffer)) for _ in range(200))


if __name__ == "__main__":
    begun = perf_counter()
    main()
    print(f"  all of it took {perf_counter() - begun:.0f} s")
