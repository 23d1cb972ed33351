from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from fedtag.deploy.cli import app
from fedtag.deploy.commands.site import COMMANDS

NAMES = [command.__name__ for command in COMMANDS]


def called(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["site", *arguments])
    return result.exit_code, result.output


def test_help_lists_the_commands_under_a_title() -> None:
    code, output = called("--help")
    assert code == 0
    assert "Commands:" in output
    assert all(f"  {name}" in output for name in NAMES)


def test_a_typo_is_refused_by_check_and_by_the_doctor(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("methds = []", encoding="utf-8")
    code, output = called("check", str(policy))
    assert code == 2
    assert "did you mean 'methods'?" in output
    result = CliRunner().invoke(app, ["doctor", "--policy", str(policy)])
    assert result.exit_code == 1
    assert "did you mean 'methods'?" in " ".join(result.output.split())
    policy.write_text("methods = []", encoding="utf-8")
    assert called("check", str(policy))[0] == 0


def test_runs_that_do_not_wait_are_named_with_those_that_do(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("folder = '.'\napproval = 'every'", encoding="utf-8")
    assert called("preview", "--policy", str(policy)) == (0, "No run waits for approval\n")
    for command in ("preview", "approve"):
        code, output = called(command, "run-1", "--policy", str(policy))
        assert code == 2
        assert "run 'run-1' does not wait for approval here; waiting: none" in output
    policy.write_text("", encoding="utf-8")
    code, output = called("preview", "--policy", str(policy))
    assert code == 2
    assert "no run waits where nobody approves any: set approval and folder" in output
