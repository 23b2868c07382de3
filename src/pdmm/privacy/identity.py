"""Who a site is, proven by the certificate and the key of its start-up kit."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

PADDING = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.DIGEST_LENGTH)
SITES = ("", "client", "site")  # what a site's certificate says in the place of a role


class Holder(NamedTuple):
    """Whom a certificate is about."""

    name: str
    organisation: str
    fingerprint: str
    """SHA-256 of the certificate, in hexadecimal digits."""


@dataclass(frozen=True)
class Identity:
    """A site's certificate, its key, and the root that vouches for all.

    Args:
        certificate: of the site, as PEM.
        key: its private key.
        root: the federation's root certificate.
    """

    certificate: bytes
    key: rsa.RSAPrivateKey
    root: x509.Certificate
    servers: frozenset[str] = frozenset()
    """Names of the federation's servers, which are no sites."""

    @classmethod
    def of_kit(cls, kit: Path) -> Self:
        """The identity in a site's start-up kit."""
        startup = kit / "startup"
        key = serialization.load_pem_private_key((startup / "client.key").read_bytes(), None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise ValueError(f"kit={str(kit)!r}: startup/client.key is no RSA key")
        return cls(
            certificate=(startup / "client.crt").read_bytes(),
            key=key,
            root=x509.load_pem_x509_certificate((startup / "rootCA.pem").read_bytes()),
            servers=_servers(startup / "fed_client.json"),
        )

    @property
    def holder(self) -> Holder:
        """Whom the certificate is about."""
        return checked_certificate(self.certificate, self.root, self.servers)

    def sign(self, data: bytes) -> bytes:
        """Sign some bytes with the site's key."""
        return self.key.sign(data, PADDING, hashes.SHA256())

    def check(self, certificate: bytes, data: bytes, signature: bytes) -> Holder:
        """Who signed some bytes; a ValueError if it was not the holder of the certificate."""
        holder = checked_certificate(certificate, self.root, self.servers)
        key = x509.load_pem_x509_certificate(certificate).public_key()
        if not isinstance(key, rsa.RSAPublicKey):
            raise ValueError(f"the certificate of {holder.name} has no RSA key")
        try:
            key.verify(signature, data, PADDING, hashes.SHA256())
        except InvalidSignature:
            raise ValueError(f"what {holder.name} is said to have signed, it has not") from None
        return holder


def checked_certificate(
    pem: bytes, root: x509.Certificate, servers: frozenset[str] = frozenset()
) -> Holder:
    """Whom a certificate is about; a ValueError unless it is a site's, by the root, today.

    The root issues the certificates of servers and of admins too. Those of admins have a role.
    FLARE 2.9 writes the same into those of servers and of sites, so that the servers' names tell.
    """
    certificate = x509.load_pem_x509_certificate(pem)
    try:
        certificate.verify_directly_issued_by(root)
    except (InvalidSignature, TypeError, ValueError):
        raise ValueError("a certificate is not one of this federation's root") from None
    now = datetime.now(UTC)
    if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
        raise ValueError("a certificate is not valid today")
    name = _entry(certificate, NameOID.COMMON_NAME)
    if name in servers or _entry(certificate, NameOID.UNSTRUCTURED_NAME) not in SITES:
        raise ValueError(f"the certificate of {name} is not that of a site")
    return Holder(
        name=name,
        organisation=_entry(certificate, NameOID.ORGANIZATION_NAME),
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
    )


def _servers(config: Path) -> frozenset[str]:
    """The servers that a site's kit names."""
    found = json.loads(config.read_text(encoding="utf-8"))
    return frozenset(str(server["identity"]) for server in found["servers"])


def _entry(certificate: x509.Certificate, which: x509.ObjectIdentifier) -> str:
    found = certificate.subject.get_attributes_for_oid(which)
    return str(found[0].value) if found else ""
