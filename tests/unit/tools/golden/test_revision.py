"""A revision runs its own code: checked on packages that are made for it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.golden.launcher import MISPLACED
from tools.golden.revision import Revision, RevisionError, Runner, checked_out

PROJECT = """
[project]
name = "fedtag"
version = "7.1"
[project.scripts]
fedtag = "deploy.cli:main"
[project.entry-points."fedtag.methods"]
own = "common.own:SPEC"
"""
MAIN = """
import importlib.metadata, pathlib, sys

def main():
    words = sys.argv[1:]
    if words[0] == "lines":
        with pathlib.Path(words[1]).open("a") as file:
            for number in range(5):
                file.write(f"{number}\\n")
                file.flush()
                pathlib.Path(words[1] + ".other").open("a").close()
    elif words[0] == "strange":
        sys.path.insert(0, words[1])
        import client
    elif words[0] == "settings":
        print("setting  default\\nrounds   3\\nown.key  x")
    else:
        print(importlib.metadata.version("fedtag"), *importlib.metadata.entry_points(group="fedtag.methods"))
        sys.exit(int(words[1]))
"""


@pytest.fixture
def write() -> Callable[[Path], Path]:
    """Writes a checkout of a project with the layout before everything lay under one name."""

    def written(root: Path) -> Path:
        for package in ("deploy", "common"):
            (root / package).mkdir(parents=True)
            (root / package / "__init__.py").touch()
        (root / "deploy" / "cli.py").write_text(MAIN, encoding="utf-8")
        (root / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
        return root

    return written


def test_runs_end_with_their_codes_and_see_their_own_version(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    revision = Revision.of("earlier", write(tmp_path / "earlier"), tmp_path / "work")
    log = tmp_path / "log"
    with Runner(revision, tmp_path / "home") as runner:
        assert runner.known_settings(tmp_path / "settings") == {"setting", "rounds", "own.key"}
        assert [runner.run(["version", str(code)], log) for code in (0, 3)] == [0, 3]
    said = log.read_text(encoding="utf-8")
    assert said.startswith("7.1 EntryPoint(name='own', value='common.own:SPEC'")
    assert said.count("EntryPoint") == 2


def test_a_run_is_stopped_when_a_file_has_enough_lines(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    revision = Revision.of("earlier", write(tmp_path / "earlier"), tmp_path / "work")
    lines = tmp_path / "lines"
    with Runner(revision, tmp_path / "home") as runner:
        stop = {"file": str(lines), "lines": 2}
        assert runner.run(["lines", str(lines)], tmp_path / "log", stop) == 1
        assert lines.read_text(encoding="utf-8") == "0\n1\n"
    assert "KeyboardInterrupt" in (tmp_path / "log").read_text(encoding="utf-8")


def test_code_of_another_tree_fails_the_run(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    other = tmp_path / "other"
    (other / "client").mkdir(parents=True)
    (other / "client" / "__init__.py").touch()
    revision = Revision.of("earlier", write(tmp_path / "earlier"), tmp_path / "work")
    with Runner(revision, tmp_path / "home") as runner:
        assert runner.run(["strange", str(other)], tmp_path / "log") == MISPLACED
    said = (tmp_path / "log").read_text(encoding="utf-8")
    assert f"1 modules are not of {tmp_path / 'earlier'}: {other / 'client' / '__init__.py'}" in said


def test_a_worktree_is_made_once_and_mended(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    (repository / "file").write_text("1", encoding="utf-8")
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "first"], check=True)
    (repository / "file").write_text("2", encoding="utf-8")
    place = checked_out(repository, "HEAD", repository / "build")
    assert (place / "file").read_text(encoding="utf-8") == "1"
    (place / "file").write_text("3", encoding="utf-8")
    assert checked_out(repository, "HEAD", repository / "build") == place
    assert (place / "file").read_text(encoding="utf-8") == "1"
    with pytest.raises(RevisionError, match="git knows no revision nowhere"):
        checked_out(repository, "nowhere", repository / "build")
