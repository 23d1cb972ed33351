"""The Flower app: a folder with a pyproject.toml and nothing else, since both sides have fedtag installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w

from fedtag.runs.settings import nested_defaults


def app_table() -> dict[str, Any]:
    """The table `[tool.flwr.app]` of pyproject.toml."""
    return {
        "publisher": "fedtag",
        "fab-include": ["pyproject.toml"],
        "components": {"serverapp": "fedtag.server.app:app", "clientapp": "fedtag.client.app:app"},
        "config": nested_defaults(),
    }


def write_app(folder: Path) -> Path:
    """Write the app into an empty or absent folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    # Flower tells bundles apart by their content, so the version is without meaning here.
    project = {
        "name": "fedtag",
        "version": "0.0.0",
        "description": "Federated learning on text-attributed graphs",
        "license": "Apache-2.0",
        "dependencies": [],
    }
    text = tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app_table()}}})
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder
