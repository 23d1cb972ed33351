"""What both roles do with new certificates, as commands that can be copied."""

from __future__ import annotations

import shlex

from fedtag.deploy.certificates.folder import CertificateFolder, Issued
from fedtag.deploy.certificates.server_names import LOOPBACK_NAMES, dialled

INSTALLED = "/etc/fedtag"
KEPT = "/var/lib/fedtag"
NODE = f"{INSTALLED}/node.toml"
CONNECTION = "fedtag"
CONTROL_PORT = 8000
FLEET_PORT = 9092
# Flower asks the network for updates and dependencies, and reports its use, unless it is told not to.
QUIET = "export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_TELEMETRY_ENABLED=0"


def next_steps(made: Issued, renewed: bool) -> str:
    """The commands for the server and for every institution that has a key; after a renewal, what changed."""
    folder, (server, *_) = made.folder, made.names
    parts = [_summary(made), _hand_over(folder.server, f"the server {server}")]
    if renewed:
        parts.append(
            "# the server: restart fedtag serve link, which reads its certificate once; running SuperNodes return by "
            "themselves\nsystemctl restart fedtag-superlink"
        )
    else:
        parts.append(_server())
    if made.added:
        parts.append(_registration(made.added))
    parts += [_institution(folder, name, server) for name in made.added]
    return "\n\n".join(parts)


def connection_settings() -> str:
    """The part of Flower's config.toml that names the SuperLink of this machine."""
    return (
        f"[superlink.{CONNECTION}]\n"
        f'address = "127.0.0.1:{CONTROL_PORT}"\n'
        f'root-certificates = "{INSTALLED}/ca.crt"'
    )


def node_settings(name: str) -> str:
    """The file of --node-config of an institution."""
    return f'name = "{name}"\ndata = "/srv/fedtag/graph"\nworkspace = "{KEPT}/site"\ncache = "{KEPT}/cache"'


def _summary(made: Issued) -> str:
    names = ", ".join(name for name in made.names if name not in LOOPBACK_NAMES)
    return (
        f"# certificate of {names or 'loopback'} until {made.expires:%Y-%m-%d}; "
        f"new keys: {', '.join(made.added) or 'none'}\n"
        f"# {made.folder.authority} stays here, with a copy offline: whoever has ca.key can pose as the server"
    )


def _hand_over(source: object, to: str) -> str:
    return f"# {source} goes to {to}, as {INSTALLED}, and to nobody else; *.key keep mode 0600"


def _server() -> str:
    return (
        f"{QUIET}\n"
        f"fedtag serve link --keys {INSTALLED} --port {CONTROL_PORT} --fleet 0.0.0.0:{FLEET_PORT} "
        f"--database {KEPT}/superlink.db\n"
        f"# in ~/.flwr/config.toml on the server:\n{connection_settings()}"
    )


def _registration(names: tuple[str, ...]) -> str:
    lines = [
        shlex.join(["flwr", "supernode", "register", f"{INSTALLED}/institutions/{name}.pub", CONNECTION])
        for name in names
    ]
    return "\n".join(["# on the server, while fedtag serve link runs: who may take part", *lines])


def _institution(folder: CertificateFolder, name: str, server: str) -> str:
    return (
        f"{_hand_over(folder.institution(name), name)}\n"
        f"# {NODE} there says whose node it is and where its data are; correct the folders:\n"
        f"{node_settings(name)}\n"
        f"fedtag serve site --superlink {dialled(server, FLEET_PORT)} --keys {INSTALLED} --config {NODE}"
    )
