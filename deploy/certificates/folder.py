"""Who may speak with whom: one authority, the server's certificate, a key pair for every institution.

    OUT/authority/            ca.crt ca.key                 stays where the keys were made
    OUT/server/               ca.crt server.crt server.key  goes to the server, with
    OUT/server/institutions/  NAME.pub                      the public keys that the server registers
    OUT/institutions/NAME/    ca.crt node.key node.pub      goes to the institution

Institutions trust the server by its certificate; the server knows institutions by their public keys, in the
form of OpenSSH, as Flower's SuperNode reads them. Everything is on the elliptic curve P-384.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedtag.client.site.site import check_name
from fedtag.common.errors import ConfigError
from fedtag.common.secure.private_file import create_private, private_folder, replace_private
from fedtag.deploy.certificates import signing
from fedtag.deploy.certificates.server_names import names_in, server_names

_MOST_DAYS = 36500


@dataclass(frozen=True)
class CertificateFolder:
    """Where everything lies below a folder, which other programs and the files in deploy/ rely upon."""

    root: Path

    @property
    def authority(self) -> Path:
        return self.root / "authority"

    @property
    def server(self) -> Path:
        return self.root / "server"

    def institution(self, name: str) -> Path:
        return self.root / "institutions" / name

    @property
    def institutions(self) -> tuple[str, ...]:
        """Names of all institutions that have a folder here, sorted."""
        return tuple(sorted(path.name for path in (self.root / "institutions").glob("*") if path.is_dir()))

    def public_key(self, name: str) -> Path:
        """Of an institution, where the server registers it."""
        return self.server / "institutions" / f"{name}.pub"


@dataclass(frozen=True)
class Issued:
    """What one call made.

    Args:
        folder: of all files.
        names: in the server's certificate: host names and addresses.
        expires: the last moment of the server's certificate.
        added: institutions that got a key pair; the others kept theirs.
    """

    folder: CertificateFolder
    names: tuple[str, ...]
    expires: datetime.datetime
    added: tuple[str, ...]


def issue(out: Path, servers: Sequence[str], institutions: Sequence[str], days: int, ca_days: int) -> Issued:
    """A new authority, with a certificate for the server and a key pair for every institution.

    Args:
        out: an absent folder, or one without an authority.
        servers: host names and addresses that institutions and health checks dial; loopback is added.
        institutions: names of sites.
        days: that the server's certificate is good for, >= 1.
        ca_days: that the authority is good for, >= days.

    Raises:
        ConfigError: there is an authority already, or a name or number cannot be used.
    """
    names, added = server_names(servers), _checked(institutions)
    _check_days(days, "--days")
    _check_days(ca_days, "--ca-days")
    folder = CertificateFolder(out)
    if (folder.authority / "ca.crt").exists() or (folder.authority / "ca.key").exists():
        raise ConfigError(
            f"{folder.authority} has an authority already, which is never replaced: add --renew for a new server "
            "certificate or more institutions under it, or name another folder for a new federation"
        )
    if ca_days < days:
        raise ConfigError(
            f"--ca-days {ca_days} is less than --days {days}: the authority must outlive its server"
        )
    key = signing.new_key()
    certificate = signing.authority_certificate(key, ca_days)
    private_folder(folder.authority)
    if not create_private(folder.authority / "ca.key", signing.pkcs8(key)):
        raise ConfigError(
            f"{folder.authority} got an authority from another process: add --renew to go on with it"
        )
    _write_public(folder.authority / "ca.crt", signing.pem(certificate))
    return _equip(folder, key, certificate, names, added, days)


def renew(out: Path, servers: Sequence[str], institutions: Sequence[str], days: int) -> Issued:
    """A new server certificate, and keys of institutions that have none, under the authority that is there.

    Args:
        out: a folder that `issue` made.
        servers: as in `issue`; empty for those that the present certificate names.
        institutions: names of sites; keys that exist are kept, also those of sites that are not named.
        days: that the server's certificate is good for, >= 1.

    Raises:
        ConfigError: there is no authority, it ends earlier, or a name or number cannot be used.
    """
    folder = CertificateFolder(out)
    _check_days(days, "--days")
    key, authority = _read_authority(folder)
    if not servers:
        servers = names_in(_read_certificate(folder.server / "server.crt"))
    return _equip(folder, key, authority, server_names(servers), _checked(institutions), days)


def _equip(
    folder: CertificateFolder,
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    names: tuple[str, ...],
    institutions: tuple[str, ...],
    days: int,
) -> Issued:
    left = authority.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    if days > left.days + 1:
        raise ConfigError(
            f"the authority in {folder.authority} ends on {authority.not_valid_after_utc:%Y-%m-%d}: use --days "
            f"{max(left.days, 1)} or less, or make a new authority in another folder and give its ca.crt to all"
        )
    own = signing.new_key()
    certificate = signing.server_certificate(own.public_key(), names, key, authority, days)
    private_folder(folder.server)
    _write_public(folder.server / "ca.crt", signing.pem(authority))
    # Where the second write fails, the two do not fit and the server says so; a further --renew mends it.
    replace_private(folder.server / "server.key", signing.pkcs8(own))
    _write_public(folder.server / "server.crt", signing.pem(certificate))
    added = tuple(name for name in institutions if _add_institution(folder, name))
    for name in folder.institutions:
        _write_public(folder.institution(name) / "ca.crt", signing.pem(authority))
    return Issued(folder, names, certificate.not_valid_after_utc, added)


def _add_institution(folder: CertificateFolder, name: str) -> bool:
    """Whether the institution got a new key pair; its public half is written in any case."""
    own = folder.institution(name)
    private_folder(own)
    made = create_private(own / "node.key", signing.openssh(signing.new_key()))
    try:
        key = serialization.load_ssh_private_key((own / "node.key").read_bytes(), password=None)
    except ValueError as error:
        raise ConfigError(
            f"{own / 'node.key'} is no private key: restore it, or remove it for a new one"
        ) from error
    line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder.server / "institutions").mkdir(exist_ok=True)
    for path in (own / "node.pub", folder.public_key(name)):
        _write_public(path, line + b" " + name.encode() + b"\n")
    return made


def _read_authority(folder: CertificateFolder) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    path = folder.authority / "ca.key"
    if not path.exists():
        raise ConfigError(
            f"{path} is missing, without which nothing can be renewed: put it back from its copy, or leave --renew "
            "out to make an authority in another folder"
        )
    certificate = _read_certificate(folder.authority / "ca.crt")
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path} is no private key: restore it from its backup") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise ConfigError(f"{path} does not belong to ca.crt beside it: restore both from one backup")
    return key, certificate


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} is missing or no certificate: restore it, or name the server again"
        ) from error


def _checked(institutions: Sequence[str]) -> tuple[str, ...]:
    for name in institutions:
        check_name(name)
    # Folders of two names that differ in case only are one folder on some file systems.
    if len({name.casefold() for name in institutions}) < len(institutions):
        raise ConfigError(f"--institution {', '.join(institutions)}: each needs a name of its own")
    return tuple(institutions)


def _check_days(days: int, option: str) -> None:
    if not 1 <= days <= _MOST_DAYS:
        raise ConfigError(f"{option} {days}: use a whole number from 1 to {_MOST_DAYS}")


def _write_public(path: Path, content: bytes) -> None:
    replace_private(path, content)
    path.chmod(0o644)
