"""The nodes of a SuperLink, as Flower's own command prints them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from flwr.cli.supernode.ls import _to_json

from fedtag.common.errors import DeploymentError
from fedtag.deploy.federation.superlink import RegisteredNode, registered_nodes


def answering(text: str, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    asked: list[Sequence[str]] = []

    def answer(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> str:
        asked.append(arguments)
        return text

    monkeypatch.setattr("fedtag.deploy.federation.superlink.flower_answer", answer)
    return asked


def test_nodes_are_read_from_what_flower_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        ("9", "me", "offline", "c9", "on9", "off9", "N/A", 1.0),
        ("18446744073709551615", "me", "online", "c1", "on1", "N/A", "N/A", 2.0),
        ("5", "me", "registered", "c5", "N/A", "N/A", "N/A", 0.0),
    ]
    text = _to_json([(int(row[0]), *row[1:]) for row in rows], verbose=False)  # type: ignore[misc]
    asked = answering(f"a line before\n{text}", monkeypatch)
    assert registered_nodes("dep") == [
        RegisteredNode("18446744073709551615", "online", "on1"),
        RegisteredNode("5", "registered", "c5"),
        RegisteredNode("9", "offline", "off9"),
    ]
    assert asked == [["supernode", "list", "dep", "--format", "json"]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            json.dumps({"success": False, "error-message": "No connection named dep."}),
            "No connection named dep;",
        ),
        ("╭─ Error ─╮\n│ it is down. │\n╰─────────╯", "it is down;"),
        ("", "no reason given;"),
    ],
)
def test_a_superlink_that_does_not_answer(text: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(text, monkeypatch)
    with pytest.raises(DeploymentError, match="connection 'dep' does not list its nodes: ") as caught:
        registered_nodes("dep")
    assert why in str(caught.value)
