"""Keys and certificates on the curve P-384, and their files."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedtag.deploy.certificates.server_names import general_name

# A certificate counts at once on machines whose clocks are a little behind.
_CLOCK_SKEW = datetime.timedelta(hours=1)


def new_key() -> ec.EllipticCurvePrivateKey:
    """A private key."""
    return ec.generate_private_key(ec.SECP384R1())


def pkcs8(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as gRPC and OpenSSL read it, without a password."""
    return _private_bytes(key, serialization.PrivateFormat.PKCS8)


def openssh(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as `ssh-keygen` writes it, without a password."""
    return _private_bytes(key, serialization.PrivateFormat.OpenSSH)


def pem(certificate: x509.Certificate) -> bytes:
    """A certificate as text."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def authority_certificate(key: ec.EllipticCurvePrivateKey, days: int) -> x509.Certificate:
    """The certificate of an authority, signed by itself; it may sign servers, but no further authorities."""
    # Institutions may trust several federations: a common name of their own keeps certificates apart.
    identity = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    name = _name(f"fedtag authority {identity.digest.hex()[:8]}")
    return (
        _builder(name, name, key.public_key(), _after(days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(identity, critical=False)
        .sign(key, hashes.SHA384())
    )


def server_certificate(
    public: ec.EllipticCurvePublicKey,
    names: Sequence[str],
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    days: int,
) -> x509.Certificate:
    """A certificate with which a server proves that it is reached under the right name.

    Args:
        public: the server's key.
        names: host names and addresses, as `server_names` gives them.
        key: the authority's.
        authority: its certificate.
        days: of validity, which ends with the authority's at the latest.
    """
    expires = min(_after(days), authority.not_valid_after_utc)
    return (
        _builder(_name("fedtag server"), authority.subject, public, expires)
        .add_extension(x509.SubjectAlternativeName([general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, expires: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_after(0) - _CLOCK_SKEW)
        .not_valid_after(expires)
    )


def _after(days: int) -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private_bytes(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
