"""What the commands of the services make of their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import typer

from fedtag.deploy.commands.serving import serve


def serving_options(service: str, words: Sequence[str]) -> dict[str, Any]:
    """The options of `fedtag serve SERVICE WORDS`, defaults included."""
    group = typer.main.get_command(serve)
    assert isinstance(group, click.Group)
    return group.commands[service].make_context(service, list(words)).params
