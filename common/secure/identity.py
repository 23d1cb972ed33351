"""Who a site is to its peers: a key that seals letters, and a key that signs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedtag.common.errors import ConfigError, ProtocolError
from fedtag.common.secure.agreement import (
    KEY_BYTES,
    agreed_secret,
    check_exchangeable,
    derived_key,
    public_bytes,
)
from fedtag.common.secure.canonical import from_hex
from fedtag.common.secure.private_file import create_private, private_folder

IDENTITY_FILE = "identity.key"
NONCE_BYTES = 12
JSON_KEYS = {"seal", "sign"}


@dataclass(frozen=True)
class PublicIdentity:
    """The two public keys of a site, 32 bytes each: X25519 for letters, Ed25519 for signatures."""

    seal: bytes
    sign: bytes

    def as_json(self) -> dict[str, str]:
        """Hexadecimal, under the names of the keys."""
        return {"seal": self.seal.hex(), "sign": self.sign.hex()}

    @classmethod
    def from_json(cls, value: Any, owner: str) -> PublicIdentity:
        """The inverse of `as_json`, of a table that anybody may have written.

        Args:
            owner: whose keys these are said to be, for the error.

        Raises:
            ProtocolError: it is no such table, or no letter could be sealed with its key.
        """
        if not isinstance(value, dict) or set(value) != JSON_KEYS:
            raise ProtocolError(
                f"the keys of {owner} must be a table of seal and sign; it needs the same fedtag"
            )
        seal = from_hex(value["seal"], KEY_BYTES, f"the sealing key of {owner}")
        sign = from_hex(value["sign"], KEY_BYTES, f"the signing key of {owner}")
        check_exchangeable(seal, owner)
        return cls(seal, sign)

    def verify(self, statement: bytes, signature: bytes) -> bool:
        """Whether the owner of these keys signed exactly this statement (Ed25519, RFC 8032)."""
        try:
            Ed25519PublicKey.from_public_bytes(self.sign).verify(signature, statement)
        except (InvalidSignature, ValueError):
            return False
        return True


class Identity:
    """The private keys of a site. Who has them can read the letters that the site ever received or sent."""

    def __init__(self, seal: X25519PrivateKey, sign: Ed25519PrivateKey) -> None:
        self._seal = seal
        self._sign = sign
        self.public = PublicIdentity(public_bytes(seal), sign.public_key().public_bytes_raw())
        self._secrets: dict[bytes, bytes] = {}  # agreed once per peer: many keys are derived from each

    @classmethod
    def at(cls, folder: Path) -> Identity:
        """The identity kept in a folder; drawn and written, for its owner's eyes only, where there is none.

        Raises:
            ConfigError: the file is damaged, or cannot be written or read.
        """
        path = folder / IDENTITY_FILE
        try:
            if not path.exists():
                private_folder(folder)
                create_private(path, os.urandom(2 * KEY_BYTES))
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"the identity {path} cannot be used ({error}): make its folder writable"
            ) from error
        if len(content) != 2 * KEY_BYTES:
            raise ConfigError(
                f"the identity {path} is damaged: restore it, or delete it and give the peers the new keys"
            )
        return cls(
            X25519PrivateKey.from_private_bytes(content[:KEY_BYTES]),
            Ed25519PrivateKey.from_private_bytes(content[KEY_BYTES:]),
        )

    def sign(self, statement: bytes) -> bytes:
        """A signature of 64 bytes, the same every time."""
        return self._sign.sign(statement)

    def seal_for(self, recipient: PublicIdentity, context: bytes, plaintext: bytes) -> bytes:
        """Bytes that only the recipient can read, and only as from this site and in this context.

        X25519 of both sealing keys, HKDF over the context and both public keys, AES-256-GCM under a fresh
        nonce, which stands in front.

        Raises:
            ProtocolError: the recipient's key is degenerate.
        """
        key = self._letter_key(recipient, context, self.public, recipient)
        nonce = os.urandom(NONCE_BYTES)
        return nonce + AESGCM(key).encrypt(nonce, plaintext, None)

    def open_from(self, sender: PublicIdentity, context: bytes, sealed: bytes) -> bytes:
        """What the sender sealed for this site in this context.

        Raises:
            ProtocolError: it was altered, or sealed by another, for another or in another context.
        """
        key = self._letter_key(sender, context, sender, self.public)
        try:
            return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)
        except (InvalidTag, ValueError) as error:
            raise ProtocolError(
                "a letter was altered, or is from, for or about something else: its sender must seal it again"
            ) from error

    def key_with(self, peer: PublicIdentity, context: bytes) -> bytes:
        """32 bytes that this site and a peer alone can derive, the same at both; others for another context.

        Raises:
            ProtocolError: the peer's key is degenerate.
        """
        return derived_key(
            self._secret(peer), "pair of sites", context, *sorted((self.public.seal, peer.seal))
        )

    def _letter_key(
        self, peer: PublicIdentity, context: bytes, sender: PublicIdentity, recipient: PublicIdentity
    ) -> bytes:
        return derived_key(self._secret(peer), "letter", context, sender.seal, recipient.seal)

    def _secret(self, peer: PublicIdentity) -> bytes:
        if peer.seal not in self._secrets:
            self._secrets[peer.seal] = agreed_secret(self._seal, peer.seal, "a peer")
        return self._secrets[peer.seal]
