"""Annotations of commands are objects, not text, here as there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from fedtag.common.config import default_settings
from fedtag.common.errors import ConfigError
from fedtag.deploy.commands.options import RunOptions, SharedOptions, flattened


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option(help="Of it.")] = 3
    labels: Annotated[list[str] | None, typer.Option("--label", help="Any.")] = None


def test_the_fields_of_a_table_are_options_of_the_command() -> None:
    app = typer.Typer()
    seen: list[Any] = []

    def paint(size: Size, colour: str = "red") -> None:
        """Paint."""
        seen.append((size, colour))

    app.command()(flattened(paint))
    for arguments in ([], ["--width", "5", "--label", "a", "--label", "b", "--colour", "blue"]):
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert seen == [(Size(), "red"), (Size(5, ["a", "b"]), "blue")]
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert "Paint." in shown
    assert all(text in shown for text in ("--width", "Of it.", "--label", "--colour"))
    assert CliRunner().invoke(app, ["--size", "3"]).exit_code == 2


def test_options_stand_for_settings() -> None:
    run = RunOptions("m", ["a", "b"], 0.1, "c", seed=3, out=Path("out"), parts="p,q")
    shared = SharedOptions(
        partition="metis", split="given", overlap=0.1, summaries=1, device="cpu", deadline=3
    )
    chosen = run.chosen() | shared.chosen()
    assert chosen["data.source"] == "a;b"
    assert chosen["out"] == "out"
    assert chosen["parts"] == "p,q"
    # As many clients as folders, unless a number is given.
    assert chosen["clients"] == 2
    assert (run.chosen() | SharedOptions(clients=1).chosen())["clients"] == 1
    assert chosen.keys() <= default_settings().keys()
    assert RunOptions().chosen() | SharedOptions().chosen() == {}


@pytest.mark.parametrize(
    ("options", "match"),
    [(RunOptions(data=["a", " "]), "--data is empty"), (RunOptions(method=" "), "--method is")],
)
def test_empty_names_are_refused(options: RunOptions, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        options.chosen()
