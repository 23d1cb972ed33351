"""Specifications that tests hand over as objects."""

from __future__ import annotations

from typing import Any

from fedtag.client.methods.base import ClientMethod
from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.spec import MethodSpec, Traits
from fedtag.common.settings.registry import INTERFACE
from fedtag.server.protocol.method import ServerMethod


def method_spec(name: str, client: ClientMethod[None], **changes: Any) -> MethodSpec:
    """Federated averaging with another client."""
    given = {
        "title": "FedAvg with another client",
        "interface": INTERFACE,
        "traits": Traits(condensed="any"),
        "records": averaged_records("the difference between the trained and the received model"),
        "server": ServerMethod(),
    }
    return MethodSpec(**{**given, "name": name, "client": client, **changes})
