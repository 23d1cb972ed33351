"""What a SuperLink says of its nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtag.common.errors import DeploymentError
from fedtag.deploy.federation.control import flower_answer, flower_environment, plain


@dataclass(frozen=True)
class RegisteredNode:
    """A node: its number in digits, and online, offline, registered (never seen) or unregistered, since when."""

    node: str
    status: str
    since: str


def registered_nodes(connection: str) -> list[RegisteredNode]:
    """The nodes that a SuperLink knows.

    Args:
        connection: a name in Flower's config.toml.

    Raises:
        DeploymentError: there is no such connection, or the SuperLink does not answer.
    """
    arguments = ["supernode", "list", connection, "--format", "json"]
    text = flower_answer(
        arguments, {**flower_environment({}), "COLUMNS": "1000", "NO_COLOR": "1"}, Path.cwd()
    )
    try:
        answer = json.loads(text[text.index("{") :])
        return sorted((_node(node) for node in answer["nodes"]), key=lambda node: node.node)
    except (ValueError, KeyError, TypeError) as error:
        raise DeploymentError(
            f"the SuperLink of connection '{connection}' does not list its nodes: {_complaint(text)}; correct the "
            "connection in Flower's config.toml, or start the SuperLink"
        ) from error


def _node(entry: dict[str, Any]) -> RegisteredNode:
    status = str(entry["status"])
    since = {"online": "online-at", "offline": "offline-at", "unregistered": "deleted-at"}.get(
        status, "created-at"
    )
    return RegisteredNode(str(entry["node-id"]), status, str(entry[since]))


def _complaint(text: str) -> str:
    try:
        return plain([str(json.loads(text[text.index("{") :])["error-message"])])
    except (ValueError, KeyError, TypeError):
        return plain([text])
