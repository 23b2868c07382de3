"""Certificates and signatures in a start-up kit: whether they are the root's."""

from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pdmm.flare.kit_files import read_json


def chain(startup: Path, whose: str) -> tuple[bool, str]:
    """Whether the node's certificate is signed by the kit's root, now valid, and for its key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import serialization

    root = _certificate(startup / "rootCA.pem")
    own = _certificate(startup / f"{whose}.crt")
    digits = _fingerprint(root)
    try:
        own.verify_directly_issued_by(root)
    except (InvalidSignature, ValueError, TypeError):
        return False, f"{whose}.crt is not signed by rootCA.pem, whose SHA-256 is {digits}"
    now = datetime.now(UTC)
    for name, each in (("rootCA.pem", root), (f"{whose}.crt", own)):
        if not each.not_valid_before_utc <= now <= each.not_valid_after_utc:
            return False, f"{name} is valid until {each.not_valid_after_utc:%Y-%m-%d} only"
    key = serialization.load_pem_private_key((startup / f"{whose}.key").read_bytes(), None)
    if key.public_key() != own.public_key():
        return False, f"{whose}.key is not the key of {whose}.crt"
    return True, f"{whose}.crt is signed by rootCA.pem, whose SHA-256 is {digits}: compare it"


def holder(path: Path) -> tuple[str, str]:
    """The name and the organisation in a certificate."""
    from cryptography.x509.oid import NameOID

    subject = _certificate(path).subject
    found = []
    for entry in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME):
        values = subject.get_attributes_for_oid(entry)
        found.append(str(values[0].value) if values else "")
    return found[0], found[1]


def signed_files(startup: Path) -> tuple[bool, str]:
    """Whether the files of a kit that the root signed are as they were."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    if not (startup / "signature.json").is_file():
        return True, "FLARE signs no files of a kit of this kind (no startup/signature.json)"
    public: Any = _certificate(startup / "rootCA.pem").public_key()
    signatures = read_json(startup / "signature.json")
    scheme = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH)
    for name, signature in sorted(signatures.items()):
        try:
            contents = (startup / name).read_bytes()
            public.verify(b64decode(signature), contents, scheme, hashes.SHA256())
        except (InvalidSignature, OSError):
            return False, f"startup/{name} is not as the root signed it"
    return True, f"{len(signatures)} files of startup/ are as the root signed them"


def _certificate(path: Path) -> Any:
    from cryptography import x509

    return x509.load_pem_x509_certificate(path.read_bytes())


def _fingerprint(certificate: Any) -> str:
    from cryptography.hazmat.primitives import hashes

    digits: str = certificate.fingerprint(hashes.SHA256()).hex()
    return " ".join(digits[k : k + 4] for k in range(0, len(digits), 4))
