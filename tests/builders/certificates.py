"""Certificates as a federation has them: a root, and sites that it vouches for."""

from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from pdmm.privacy.identity import Identity


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def _name(name: str, organisation: str, role: str = "") -> x509.Name:
    parts = [
        x509.NameAttribute(NameOID.COMMON_NAME, name),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation),
    ]
    if role:
        parts.append(x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, role))
    return x509.Name(parts)


class Root:
    """Who vouches for the sites of a federation."""

    def __init__(self, name: str = "root") -> None:
        self.key = _key()
        self.name = _name(name, "root")
        self.certificate = self._signed(self.name, self.key.public_key(), days=30)

    def _signed(self, subject: x509.Name, key: Any, days: int) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name)
        builder = builder.public_key(key).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=60))
        builder = builder.not_valid_after(now + timedelta(days=days))
        return builder.sign(self.key, hashes.SHA256())

    def site(
        self, name: str, organisation: str | None = None, days: int = 30, role: str = ""
    ) -> Identity:
        """A site; with fewer than 0 days, one whose certificate has run out."""
        key = _key()
        subject = _name(name, name if organisation is None else organisation, role)
        found = self._signed(subject, key.public_key(), days)
        pem = found.public_bytes(serialization.Encoding.PEM)
        return Identity(pem, key, self.certificate)
