from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fedtag.common.config import default_settings
from fedtag.deploy.cli import PANELS, app, versions

REPOSITORY = Path(__file__).resolve().parents[3]
COMMANDS = (
    "simulate",
    "up",
    "bundle",
    "status",
    "compare",
    "new",
    "import",
    "validate",
    "encode",
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
    "methods",
    "runs list",
    "runs diff",
    "serve link",
    "serve site",
    "site preview",
    "site approve",
    "site check",
    "site forget",
    "site sweep",
    "log verify",
)
HEAVY = {"torch", "flwr", "pandas", "numpy", "scipy", "pyarrow", "transformers", "matplotlib"}
# Help takes a fifth of a second; a machine that does other things takes several times as long.
SECONDS = 1.5


def program(
    *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fedtag.deploy.cli", *arguments]
    return subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded at its end."""
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom fedtag.deploy.cli import app\n"
        f"assert CliRunner().invoke(app, {list(arguments)}).exit_code == 0\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("arguments", [["--help"], ["simulate", "--help"], ["site", "preview", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded(*arguments) & {*HEAVY, "pydantic", "rich.console"} == set()


def test_settings_are_listed_without_anything_that_computes() -> None:
    assert loaded("settings") & HEAVY == set()


@pytest.mark.parametrize("arguments", [["--help"], ["simulate", "--help"]])
def test_help_comes_at_once(arguments: list[str]) -> None:
    took = []
    for _ in range(3):
        start = time.perf_counter()
        assert program(*arguments).returncode == 0
        took.append(time.perf_counter() - start)
    assert min(took) < SECONDS


def test_the_package_itself_loads_nothing() -> None:
    """But what finds its public names when they are used."""
    code = "import sys\nbefore = set(sys.modules)\nimport fedtag\nprint(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in done.stdout.split()}
    assert packages - sys.stdlib_module_names == {"fedtag", "lazy_loader"}


def test_help_lists_every_command_under_who_uses_it() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    found: dict[str, list[str]] = {}
    for line in result.stdout.splitlines():
        if line and not line.startswith(" "):
            words = found.setdefault(line.rstrip(":"), [])
        elif line[2:3].strip():
            words.append(line.split()[0])
    assert [panel for panel in found if panel in PANELS] == list(PANELS)
    assert sorted(name for panel in PANELS for name in found[panel]) == sorted(
        {name.split()[0] for name in COMMANDS}
    )
    assert "simulate" in found["For researchers"]
    assert "certificates" in found["For coordinators"]
    assert "validate" in found["For institutions"]
    assert found["For auditors"] == ["audit", "privacy-audit", "log"]
    assert {"--version", "--install-completion", "--show-completion"} <= set(found["Options"])


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_says_what_it_reads_and_writes(name: str) -> None:
    command: Any = get_command(app)
    for word in name.split():
        command = command.commands[word]
    text = command.help
    assert "read" in text.lower()
    assert "write" in text.lower()
    assert f"Example: `fedtag {name}" in text


def test_arguments_and_options_are_explained() -> None:
    text = " ".join(CliRunner().invoke(app, ["predict", "--help"]).stdout.split())
    assert "Arguments: RUN_DIR A run directory, or a folder with its model.safetensors" in text
    assert "may be absent. [required]" in text
    assert (
        "--out PATH The Parquet file; its folder is made where missing. [default: predictions.parquet]"
        in text
    )
    assert (
        "--evidence / --no-evidence Quote the texts that each prediction rests on. [default: evidence]"
        in text
    )
    text = " ".join(CliRunner().invoke(app, ["simulate", "--help"]).stdout.split())
    assert "The run: --method TEXT" in text
    assert (
        "--engine [inprocess|stacked|ray] In this process; there, but all clients trained at once, for methods that "
        "can; or Flower's Ray simulation. [default: inprocess]" in text
    )
    text = " ".join(CliRunner().invoke(app, ["privacy-audit", "--help"]).stdout.split())
    assert "[default: 1000; at least 100]" in text


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout.splitlines()) == (0, versions())
    assert versions()[0] == f"fedtag {metadata.version('fedtag')}"


def test_shells_complete_commands_and_options() -> None:
    for words, completions in (("fedtag sim", ["simulate"]), ("fedtag simulate --res", ["--resume"])):
        asked = {
            "_FEDTAG_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        assert program(environment=asked).stdout.split() == completions
    script = program(
        "--show-completion", "bash", environment={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    )
    assert "complete -o default -F _fedtag_completion fedtag" in script.stdout


def test_settings_lists_every_key() -> None:
    result = CliRunner().invoke(app, ["settings"])
    assert result.exit_code == 0
    for key in default_settings():
        assert any(line.startswith(f"{key} ") for line in result.stdout.splitlines())
