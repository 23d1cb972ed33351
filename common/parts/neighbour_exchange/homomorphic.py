"""Vectors that can be added while nobody without the key can read them: CKKS by TenSEAL (the extra `he`).

Cheon et al., Homomorphic Encryption for Arithmetic of Approximate Numbers (ASIACRYPT 2017). With polynomials of degree
4096 and 109 bits of modulus the key has 128 bits of security (HomomorphicEncryption.org standard, 2018). Only sums are
taken, so that one prime of 60 bits carries the data; at scale 2^40 a sum may reach 2^18 in absolute value, and is off
by about 10^-8.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float64

from fedtag.common.errors import ConfigError, WireError

DEGREE = 4096
PRIMES = (60, 49)
SCALE = 2.0**40
SLOTS = DEGREE // 2
"""Numbers in one ciphertext, of about 66 kB."""
LARGEST = 2.0**18

_SIZE = struct.Struct(">I")
# What TenSEAL raises at bytes that are no ciphertext of these parameters.
_MALFORMED = (ValueError, RuntimeError, TypeError)


def tenseal() -> Any:
    """The library.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import tenseal
    except ImportError:
        raise ConfigError(
            "neighbour-exchange.mode = encrypted needs TenSEAL, which is not installed: pip install 'fedtag[he]' on "
            "the server and at every site, or set neighbour-exchange.mode = summed"
        ) from None
    return tenseal


def fresh_key() -> bytes:
    """A new secret key with its public one, from the system's entropy, about 190 kB."""
    key: bytes = _context().serialize(
        save_public_key=True, save_secret_key=True, save_galois_keys=False, save_relin_keys=False
    )
    return key


class Holder:
    """Who holds the key: enciphers, and reads sums.

    Args:
        key: as of `fresh_key`.

    Raises:
        WireError: it is no such key.
    """

    def __init__(self, key: bytes) -> None:
        try:
            self._context = tenseal().context_from(key, n_threads=1)
            secret = self._context.has_secret_key()
        except _MALFORMED as error:
            raise WireError(f"the homomorphic key cannot be read ({error})") from None
        if not secret:
            raise WireError("the homomorphic key has no secret part")

    def enciphered(self, values: Float64[np.ndarray, " n"]) -> bytes:
        """Ciphertexts of 2048 numbers each, with their sizes.

        Raises:
            WireError: a value is not finite, or so large that a sum might wrap around.
        """
        largest = float(np.abs(values).max(initial=0.0))
        if not largest <= LARGEST / 2**10:
            raise WireError(f"a coordinate of {largest:g} cannot be enciphered: scale the features down")
        library = tenseal()
        pieces = [values[start : start + SLOTS] for start in range(0, len(values), SLOTS)]
        return _joined(library.ckks_vector(self._context, piece).serialize() for piece in pieces)

    def deciphered(self, body: bytes, size: int) -> Float64[np.ndarray, " n"]:
        """The numbers of a sum.

        Args:
            body: as of `enciphered` or `added`.
            size: how many they are.

        Raises:
            WireError: it holds no or other ciphertexts.
        """
        try:
            read = [tenseal().ckks_vector_from(self._context, one).decrypt() for one in _pieces(body)]
        except _MALFORMED as error:
            raise WireError(f"a ciphertext cannot be read ({error})") from None
        values = np.array([value for piece in read for value in piece], np.float64)
        if values.shape != (size,):
            raise WireError(f"a sum of {size} numbers holds {len(values)}")
        return values


def added(bodies: Sequence[bytes]) -> bytes:
    """The sum of enciphered vectors of one length; it takes no key.

    Args:
        bodies: at least one, as of `Holder.enciphered`.

    Raises:
        WireError: one is malformed, or of another length.
    """
    library, context = tenseal(), _keyless()
    try:
        total = [library.ckks_vector_from(context, piece) for piece in _pieces(bodies[0])]
        for body in bodies[1:]:
            others = [library.ckks_vector_from(context, piece) for piece in _pieces(body)]
            if [one.size() for one in others] != [one.size() for one in total]:
                raise WireError("parts of a sum have different lengths")
            total = [one + other for one, other in zip(total, others, strict=True)]
    except _MALFORMED as error:
        raise WireError(f"a ciphertext cannot be added ({error})") from None
    return _joined(one.serialize() for one in total)


def _context() -> Any:
    library = tenseal()
    context = library.context(
        library.SCHEME_TYPE.CKKS,
        poly_modulus_degree=DEGREE,
        coeff_mod_bit_sizes=list(PRIMES),
        n_threads=1,
    )
    context.global_scale = SCALE
    return context


@lru_cache(maxsize=1)
def _keyless() -> Any:
    """The parameters alone; the secret key that TenSEAL draws with them is thrown away."""
    context = _context()
    context.make_context_public()
    return context


def _joined(pieces: Iterator[bytes]) -> bytes:
    return b"".join(_SIZE.pack(len(piece)) + piece for piece in pieces)


def _pieces(body: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        if len(body) - start < _SIZE.size:
            raise WireError("a ciphertext is cut off")
        end = start + _SIZE.size + _SIZE.unpack_from(body, start)[0]
        if end > len(body):
            raise WireError("a ciphertext is cut off")
        yield body[start + _SIZE.size : end]
        start = end
