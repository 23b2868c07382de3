"""How the sites of a run make sure of each other, though only the server talks to all of them.

Each site signs, with the key of its kit, fresh keys for the run and a fresh number. Each is then
shown what all have signed, and signs with its fresh key the terms of the run as it knows them: who
takes part, with which weights, for how many rounds. When all have seen all of these signatures,
they know that they agreed to the same run. No site need trust the server for that.
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from pdmm.privacy.identity import Identity
from pdmm.privacy.refusals import Reason
from pdmm.privacy.streams import Streams

VERSION = "pdmm run 2"
MOST = 1000  # sites of one run


class Party(NamedTuple):
    """A site that takes part in a run."""

    name: str
    organisation: str
    fingerprint: str
    key: Ed25519PublicKey
    exchange: X25519PublicKey
    """With which it agrees on secrets with each other site."""


class Membership:
    """A site's part in the agreement on one run.

    Args:
        identity: of the site; None in a simulation, where names are taken for granted.
    """

    def __init__(self, identity: Identity | None) -> None:
        self.identity = identity
        self.key = Ed25519PrivateKey.generate()
        self.exchange = X25519PrivateKey.generate()
        self.statement: dict[str, str] = {}
        self.parties: dict[str, Party] = {}
        self.terms = b""

    def join(self, run: str, name: str) -> dict[str, str]:
        """What this site says of itself: fresh keys, and who it is."""
        if self.identity is not None and self.identity.holder.name != name:
            raise Reason(f"the site is called {name}, which is not the name of its certificate")
        statement = {
            "run": run,
            "name": name,
            "key": self.key.public_key().public_bytes_raw().hex(),
            "exchange": self.exchange.public_key().public_bytes_raw().hex(),
            "nonce": secrets.token_hex(16),
        }
        if self.identity is not None:
            statement["certificate"] = self.identity.certificate.decode()
            statement["signature"] = self.identity.sign(_signed(statement)).hex()
        self.statement = statement
        return statement

    def agree(self, statements: Any, terms: Mapping[str, Any]) -> str:
        """Check who takes part, and sign the terms of the run: once, for keys serve one run."""
        if self.terms:
            raise Reason("these keys have begun a run already, and serve no other")
        if self.statement not in _list(statements):
            raise Reason("the run is not about what this site said of itself")
        self.parties = {}
        for statement in statements:
            party = self._party(statement)
            if party.name in self.parties:
                raise Reason(f"site {party.name} takes part twice")
            self.parties[party.name] = party
        ordered = sorted(statements, key=lambda statement: str(statement["name"]))
        self.terms = _digest([VERSION, ordered, dict(terms)])
        return self.sign(self.terms)

    def _party(self, statement: Any) -> Party:
        try:
            name, key = statement["name"], bytes.fromhex(statement["key"])
            if statement["run"] != self.statement["run"]:
                raise Reason("a site speaks of another run")
            organisation, fingerprint = name, ""
            if self.identity is not None:
                holder = self.identity.check(
                    statement["certificate"].encode(),
                    _signed(statement),
                    bytes.fromhex(statement["signature"]),
                )
                if holder.name != name:
                    raise Reason(f"the certificate of {name} is that of {holder.name}")
                organisation, fingerprint = holder.organisation, holder.fingerprint
            public = Ed25519PublicKey.from_public_bytes(key)
            exchange = X25519PublicKey.from_public_bytes(bytes.fromhex(statement["exchange"]))
        except Reason:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Reason(f"what a site says of itself does not hold: {error}") from None
        return Party(name, organisation, fingerprint, public, exchange)

    def confirm(self, agreed: Any) -> None:
        """See that all sites agreed to the same terms."""
        for name in self.parties:
            signature = agreed.get(name) if isinstance(agreed, Mapping) else None
            self.check(name, self.terms, signature)

    def streams(self) -> Streams:
        """The secrets of this run: known to each two sites, and to no server."""
        others = {name: party.exchange for name, party in self.parties.items()}
        try:
            return Streams(self.statement["name"], self.exchange, others, self.terms)
        except ValueError as error:  # a key with which every secret would be the same
            raise Reason(f"no secret can be agreed upon with the other sites: {error}") from None

    def check(self, name: str, data: bytes, signature: Any) -> None:
        """Refuse what a site has not signed."""
        try:
            self.parties[name].key.verify(base64.b64decode(signature), data)
        except (KeyError, TypeError, ValueError, InvalidSignature):
            said = f"site {name} has not signed what it is said to have sent"
            raise Reason(said, counts=False) from None

    def sign(self, data: bytes) -> str:
        """Sign some bytes for the other sites of the run."""
        return base64.b64encode(self.key.sign(data)).decode()


def _list(statements: Any) -> list[Any]:
    if not isinstance(statements, list) or not len(statements) <= MOST:
        raise Reason("the run does not say who takes part")
    return statements


def _signed(statement: Mapping[str, Any]) -> bytes:
    """The bytes of a statement that its site signs."""
    own = {key: statement[key] for key in ("run", "name", "key", "exchange", "nonce")}
    return _digest([VERSION, own])


def _digest(what: Any) -> bytes:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).digest()
