from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fedtag.common.config import default_settings
from fedtag.deploy.cli import app

REPOSITORY = Path(__file__).resolve().parents[3]
COMMANDS = (
    "simulate",
    "up",
    "bundle",
    "status",
    "compare",
    "validate",
    "audit",
    "privacy-audit",
    "report",
    "predict",
    "export",
    "identity",
    "certificates",
    "doctor",
    "settings",
    "demo",
    "train-on",
)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom fedtag.deploy.cli import app\n"
        "assert CliRunner().invoke(app, ['simulate', '--help']).exit_code == 0\n"
        "print(*sorted({'torch', 'numpy', 'flwr', 'pydantic', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_help_lists_the_commands() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    listed = [
        line.split()[1] for line in result.stdout.splitlines() if line.startswith("│ ") and line[2] != " "
    ]
    assert set(COMMANDS) <= set(listed)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_says_what_it_reads_and_writes(name: str) -> None:
    command = get_command(app)
    text = command.commands[name].help  # type: ignore[attr-defined]
    assert "read" in text.lower()
    assert "write" in text.lower()
    assert f"Example: `fedtag {name}" in text


def test_arguments_are_explained() -> None:
    result = CliRunner().invoke(app, ["validate", "--help"])
    assert "The institution's folder." in result.stdout


def test_settings_lists_every_key() -> None:
    result = CliRunner().invoke(app, ["settings"])
    assert result.exit_code == 0
    for key in default_settings():
        assert any(line.startswith(f"{key} ") for line in result.stdout.splitlines())
