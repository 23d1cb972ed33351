"""How the services of a federation trust each other: folders of keys, and the options that name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedtag.deploy.certificates.folder import CertificateFolder, issue
from fedtag.deploy.federation.ports import LOOPBACK

_DAYS = 30


@dataclass(frozen=True)
class Transport:
    """What each service of a federation on one machine is told about the others.

    Args:
        link: options of `fedtag serve link`.
        sites: options of `fedtag serve site`, a tuple each.
        authority: the certificate by which all know the SuperLink; None in clear.
        public_keys: of the nodes, which the SuperLink must know before they start; empty in clear.
    """

    link: tuple[str, ...]
    sites: tuple[tuple[str, ...], ...]
    authority: Path | None = None
    public_keys: tuple[Path, ...] = ()


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
        ("--keys", str(made.server)),
        tuple(("--keys", str(made.institution(name))) for name in names),
        made.server / "ca.crt",
        tuple(made.public_key(name) for name in names),
    )
