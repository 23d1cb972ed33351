"""TCP ports on loopback."""

from __future__ import annotations

import secrets
import socket

from fedtag.common.errors import DeploymentError

LOOPBACK = "127.0.0.1"

# Below the range from which Linux serves outgoing connections (32768 and up), so that no connection
# of a program that starts earlier takes a port that is meant for a later one.
_FIRST, _LAST = 20000, 32000
_ATTEMPTS = 1000


def free_ports(count: int) -> tuple[int, ...]:
    """Distinct ports on which nothing listens, drawn at random.

    Raises:
        DeploymentError: hardly any port between 20000 and 32000 is free.
    """
    ports: list[int] = []
    for _ in range(_ATTEMPTS):
        if len(ports) == count:
            return tuple(ports)
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        if port not in ports and _can_bind(port):
            ports.append(port)
    raise DeploymentError(
        f"{count} free ports were not found between {_FIRST} and {_LAST} on {LOOPBACK}: "
        "stop programs that listen there."
    )


def answers(port: int, seconds: float = 0.2) -> bool:
    """Whether something accepts connections on the port within the given time."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=seconds):
            return True
    except OSError:
        return False


def _can_bind(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
