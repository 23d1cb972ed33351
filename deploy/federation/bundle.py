"""The Flower app: a folder with a pyproject.toml and nothing else, since both sides have fedtag installed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from fedtag.common.errors import DeploymentError
from fedtag.deploy.executor.bundle import COMPONENTS, PROJECT
from fedtag.runs.settings import app_config

PUBLISHER = "fedtag"


def app_table(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The table `[tool.flwr.app]` of pyproject.toml.

    Args:
        settings: dotted keys; what is not among them has its default.
    """
    return {
        "publisher": PUBLISHER,
        "fab-include": [PROJECT],
        "components": dict(COMPONENTS),
        "config": app_config(settings),
    }


def write_app(folder: Path, settings: Mapping[str, Any] | None = None) -> Path:
    """Write the app into a folder that is empty, absent or that of an earlier app, and return it.

    Args:
        folder: of the app.
        settings: of the run, by dotted keys; what is not among them has its default.

    Raises:
        DeploymentError: the folder holds something else, or cannot be written.
    """
    # Flower tells bundles apart by their content, so the version is without meaning here.
    project = {
        "name": "fedtag",
        "version": "0.0.0",
        "description": "Federated learning on text-attributed graphs",
        "license": "Apache-2.0",
        "dependencies": [],
    }
    text = tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app_table(settings or {})}}})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not _is_free(folder):
            raise DeploymentError(f"{folder} holds other files than an app's: name a new folder")
        (folder / PROJECT).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DeploymentError(f"the app cannot be written to {folder}: {error.strerror}") from error
    return folder


def _is_free(folder: Path) -> bool:
    """Whether nothing would be lost."""
    files = list(folder.iterdir())
    if not files:
        return True
    try:
        found = tomllib.loads((folder / PROJECT).read_text(encoding="utf-8"))["tool"]["flwr"]["app"]
        return len(files) == 1 and found["publisher"] == PUBLISHER
    except (OSError, ValueError, LookupError, TypeError):
        return False
