"""Keys that two parties derive from each other's X25519 keys, or one party from a secret."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedtag.common.errors import ProtocolError
from fedtag.common.secure.canonical import canonical

KEY_BYTES = 32


def derived_key(secret: bytes, *purpose: str | int | bytes) -> bytes:
    """32 bytes by HKDF-SHA256 (RFC 5869), independent for every purpose; the purpose is its info."""
    info = canonical("fedtag secure summation 1", *purpose)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)


def agreed_secret(private: X25519PrivateKey, public: bytes, owner: str) -> bytes:
    """What both ends of an X25519 exchange (RFC 7748) compute.

    Args:
        private: of this end.
        public: 32 bytes of the other end.
        owner: whose key that is, for the error.

    Raises:
        ProtocolError: the public key is one of the few with which every exchange gives zero.
    """
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise ProtocolError(
            f"the public key {public.hex()[:16]}… of {owner} protects nothing: it must draw another"
        ) from error


def check_exchangeable(public: bytes, owner: str) -> None:
    """Refuse a public key with which nobody could agree on a secret.

    Raises:
        ProtocolError: see `agreed_secret`.
    """
    # Any private key tells: the keys in question give zero with all of them.
    agreed_secret(X25519PrivateKey.from_private_bytes(bytes(KEY_BYTES)), public, owner)


def public_bytes(private: X25519PrivateKey) -> bytes:
    """The 32 bytes of the public key."""
    return private.public_key().public_bytes_raw()
