"""The names and addresses under which a server is reached."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from cryptography import x509

from fedtag.common.errors import ConfigError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_LONGEST = 253


def server_names(given: Sequence[str]) -> tuple[str, ...]:
    """The names for a server's certificate in their usual form, with loopback, each once.

    Args:
        given: what institutions dial: host names, IPv4 or IPv6 addresses, without a port.

    Raises:
        ConfigError: none is given, or one cannot be dialled.
    """
    if not given:
        raise ConfigError("name the server: --server with each host name and address that institutions dial")
    return tuple(dict.fromkeys([*map(_usual, given), *LOOPBACK_NAMES]))


def names_in(certificate: x509.Certificate) -> tuple[str, ...]:
    """The names of a certificate, as they were given."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return (
        *found.get_values_for_type(x509.DNSName),
        *map(str, found.get_values_for_type(x509.IPAddress)),
    )


def general_name(name: str) -> x509.GeneralName:
    """A name or address as certificates hold it."""
    address = _address(name)
    return x509.DNSName(name) if address is None else x509.IPAddress(address)


def dialled(name: str, port: int) -> str:
    """A name or address with a port, as clients dial it."""
    address = _address(name)
    return f"[{name}]:{port}" if address is not None and address.version == 6 else f"{name}:{port}"


def _usual(name: str) -> str:
    address = _address(name.removeprefix("[").removesuffix("]"))
    if address is not None:
        if address.is_unspecified:
            raise ConfigError(
                f"--server {name} is where a server listens, not where it is reached: give the address that "
                "institutions dial"
            )
        return str(address)
    labels = name.split(".")
    # A last label of digits only is an address with a mistake.
    if len(name) > _LONGEST or not all(_LABEL.fullmatch(label) for label in labels) or labels[-1].isdigit():
        raise ConfigError(
            f"--server {name!r} is no host name and no address: use for example fl.example.org or 192.0.2.7, "
            "without a port or https://"
        )
    return name.lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
