"""What a site's kit holds beside FLARE's own files: its data, its policy and its audit."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdmm.common.whole_files import write_whole
from pdmm.engines.sites.site import Site
from pdmm.flare.names import POLICY, SETTINGS
from pdmm.flare.private_errors import FOLDER
from pdmm.flare.site_data import SiteData, data_of
from pdmm.privacy.audit import FILE, Audit, Entry, entries_of
from pdmm.privacy.identity import Identity
from pdmm.privacy.policy import Policy
from pdmm.privacy.policy_file import policy_text

if TYPE_CHECKING:
    from pdmm.study import TableSite

SIGNER = ".__nvfl_submitter.crt"  # in a job: the certificate of who signed it


def site_of_kit(kit: Path, by: str = "") -> "Site | TableSite":
    """The site that a kit was prepared for, with its policy and its audit.

    Args:
        kit: the start-up kit.
        by: who submitted the run.
    """
    return held_by(kit).site(policy_of(kit), kit / FOLDER, Identity.of_kit(kit), by)


def held_by(kit: Path) -> SiteData:
    """What the site has: a table, or a problem of its own."""
    return data_of(settings_of(kit))


def settings_of(kit: Path) -> dict[str, Any]:
    """What ``pdmm federate site`` wrote down."""
    path = kit / "local" / SETTINGS
    if not path.is_file():
        raise ValueError(f"kit={str(kit)!r} has no local/{SETTINGS}: run pdmm federate site first")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def policy_of(kit: Path) -> Policy:
    """The kit's policy; the default one where there is no file."""
    path = kit / "local" / POLICY
    return Policy.read(path) if path.exists() else Policy()


def write_policy(kit: Path, policy: Path | Policy | None) -> Path:
    """Put a policy into a kit; one that is there stays, if none is given.

    Args:
        kit: the start-up kit.
        policy: a file, which is checked and copied, or a policy.
    """
    path = kit / "local" / POLICY
    if policy is None and path.exists():
        Policy.read(path)
        return path
    text = policy_text(policy if isinstance(policy, Policy) else None)
    if isinstance(policy, Path):
        Policy.read(policy)
        text = policy.read_text(encoding="utf-8")
    write_whole(path, text.encode(), private=True)
    return path


def audit_of(kit: Path) -> Audit:
    """What has left the site, of the table that its kit names."""
    return Audit(kit / FOLDER, held_by(kit).name)


def earlier_audit(kit: Path) -> Audit:
    """The same, of a kit that may not have been prepared before."""
    prepared = (kit / "local" / SETTINGS).is_file()
    return audit_of(kit) if prepared else Audit()


def fingerprint(kit: Path) -> str:
    """The SHA-256 of the kit's certificate, by which partners may name the site."""
    return Identity.of_kit(kit).holder.fingerprint


def entries(kit: Path) -> list[Entry]:
    """Every question that was put to the site, and what became of it."""
    return list(entries_of(kit / FOLDER / FILE))


def begin_anew(kit: Path) -> None:
    """Count from 0 again what leaves: the table is another one than before."""
    audit_of(kit).add(Entry.now(run="", by="the site", verb="reset"))


def submitter(job: Path) -> str:
    """Who signed a job, by the certificate in the job's folder at the site."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    for path in sorted(job.rglob(SIGNER)):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if names:
            return str(names[0].value)
    return "unknown"
