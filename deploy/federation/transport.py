"""How the programs of a federation trust each other: the options that say so to Flower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedtag.deploy.certificates.folder import CertificateFolder, issue
from fedtag.deploy.federation.ports import LOOPBACK

_DAYS = 30


@dataclass(frozen=True)
class Transport:
    """What each program of a federation on one machine is told about the others.

    Args:
        superlink: options of the SuperLink.
        nodes: options of every SuperNode.
        authority: the certificate by which all know the SuperLink; None in clear.
        public_keys: of the nodes, which the SuperLink must know before they start; empty in clear.
    """

    superlink: tuple[str, ...]
    nodes: tuple[tuple[str, ...], ...]
    authority: Path | None = None
    public_keys: tuple[Path, ...] = ()


def superlink_options(folder: Path) -> tuple[str, ...]:
    """TLS and known nodes only.

    Args:
        folder: ca.crt, server.crt and server.key.
    """
    return (
        "--ssl-ca-certfile",
        str(folder / "ca.crt"),
        "--ssl-certfile",
        str(folder / "server.crt"),
        "--ssl-keyfile",
        str(folder / "server.key"),
        "--enable-supernode-auth",
    )


def supernode_options(folder: Path) -> tuple[str, ...]:
    """A server that the authority vouches for, and the key by which it knows this node.

    Args:
        folder: ca.crt and node.key.
    """
    return (
        "--root-certificates",
        str(folder / "ca.crt"),
        "--auth-supernode-private-key",
        str(folder / "node.key"),
    )


def in_clear(nodes: int) -> Transport:
    """No encryption, and every node is welcome: for loopback only."""
    return Transport(("--insecure",), (("--insecure",),) * nodes)


def secured(folder: Path, nodes: int, addresses: Sequence[str] = (LOOPBACK,)) -> Transport:
    """TLS and a key for every node, all made anew in an absent folder.

    Args:
        folder: for the keys.
        nodes: how many.
        addresses: by which programs reach the SuperLink.
    """
    names = [f"node-{index}" for index in range(nodes)]
    issue(folder, sorted(set(addresses)), names, _DAYS, _DAYS)
    made = CertificateFolder(folder)
    return Transport(
        superlink_options(made.server),
        tuple(supernode_options(made.institution(name)) for name in names),
        made.server / "ca.crt",
        tuple(made.public_key(name) for name in names),
    )
