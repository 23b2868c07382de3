"""Masks that cancel: what a site adds to its part of a sum, so that only the sum can be read.

Each two sites of a run share a secret, which the server does not know. From it both make the same
stream of random words for each question; one adds it and the other subtracts it. Keys are agreed by
X25519, streams are derived by HKDF and made by AES in counter mode, all by ``cryptography``.
"""

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

Words = npt.NDArray[np.uint64]

LABEL = b"pdmm secure sum 1"
KEY = 32  # bytes: AES-256
COUNTER = bytes(16)  # each key makes one stream, which begins at 0
CHUNK = 2**15  # words of a stream at a time, which stay in a processor's cache


class Streams:
    """The secrets that one site shares with each other site of a run.

    Args:
        own: the site's name.
        key: its key of the run.
        others: the keys that the others have signed, by name.
        transcript: a hash of all that the sites of the run have signed.
    """

    def __init__(
        self,
        own: str,
        key: X25519PrivateKey,
        others: Mapping[str, X25519PublicKey],
        transcript: bytes,
    ) -> None:
        self.own = own
        self.transcript = transcript
        self._secrets = {
            name: key.exchange(public) for name, public in others.items() if name != own
        }

    def hide(self, words: Words, among: Collection[str], counter: int, question: bytes) -> None:
        """Add to a site's words, modulo 2^64, what is 0 over all sites of the set.

        Args:
            words: of the site.
            among: the sites of the set, this one among them.
            counter: of the question; no two questions of a run have the same.
            question: a hash of the whole question.
        """
        ciphers = {}
        for other in sorted(set(among) - {self.own}):
            key = self._stream_key(other, counter, question, len(words))
            ciphers[other] = Cipher(algorithms.AES(key), modes.CTR(COUNTER)).encryptor()
        nothing = bytes(8 * CHUNK)
        buffer = bytearray(8 * CHUNK)
        stream = np.frombuffer(buffer, dtype="<u8")
        for start in range(0, len(words), CHUNK):
            part = words[start : start + CHUNK]
            for other, cipher in ciphers.items():
                cipher.update_into(nothing[: 8 * len(part)], buffer)
                step = np.add if self.own < other else np.subtract
                step(part, stream[: len(part)], out=part)

    def _stream_key(self, other: str, counter: int, question: bytes, words: int) -> bytes:
        first, second = sorted((self.own, other))
        names = [LABEL, first.encode(), second.encode(), question]
        about = b"".join(len(name).to_bytes(4, "big") + name for name in names)
        about += counter.to_bytes(8, "big") + words.to_bytes(8, "big")
        derive = HKDF(hashes.SHA256(), KEY, salt=self.transcript, info=about)
        return derive.derive(self._secrets[other])
