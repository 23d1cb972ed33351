"""The Flower app as a folder of its own, made from what is installed.

A checkout holds more than the app (an environment, tests, runs), which Flower would walk through, and an
installed package has no pyproject.toml.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import tomli_w

import client
import common
import server
from deploy.settings import nested_defaults

PACKAGES = (client, common, server)


def app_table() -> dict[str, Any]:
    """The table `[tool.flwr.app]` of pyproject.toml."""
    return {
        "publisher": "fedtag",
        "fab-include": [f"{package.__name__}/**/*.py" for package in PACKAGES],
        "components": {"serverapp": "server.app:app", "clientapp": "client.app:app"},
        "config": nested_defaults(),
    }


def write_app(folder: Path) -> Path:
    """Write the app into an empty or absent folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        assert package.__file__ is not None
        source = Path(package.__file__).parent
        shutil.copytree(
            source, folder / package.__name__, ignore=shutil.ignore_patterns("__pycache__", "*.j2")
        )
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
