"""The list of packages follows the folders, and a check says so where it does not."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools.packages import REPOSITORY, ROOTS, main, packages

PROJECT = '[tool.setuptools]\npackages = [\n    "fedtag",\n]\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the five roots, whose list is as it should be."""
    for folder in ROOTS.values():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    assert main([], tmp_path) == 0
    return tmp_path


def listed(checkout: Path) -> list[str]:
    found: list[str] = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]["packages"]
    return found


def test_the_list_of_the_project_is_as_generated() -> None:
    assert listed(REPOSITORY) == packages(REPOSITORY)
    assert main(["--check"]) == 0


def test_folders_at_the_top_are_packages_of_one_name(checkout: Path) -> None:
    assert listed(checkout) == ["fedtag", "fedtag.client", "fedtag.common", "fedtag.deploy", "fedtag.server"]


def test_an_unlisted_package_fails_the_check_and_is_listed_by_the_next_call(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"], checkout) == 0
    (checkout / "client" / "inner").mkdir()
    (checkout / "client" / "inner" / "__init__.py").touch()
    assert main(["--check"], checkout) == 1
    assert "call make packages" in capsys.readouterr().err
    assert main([], checkout) == 0
    assert "fedtag.client.inner" in listed(checkout)
    assert main(["--check"], checkout) == 0


def test_a_package_that_is_gone_fails_the_check(checkout: Path) -> None:
    (checkout / "server" / "__init__.py").unlink()
    assert main(["--check"], checkout) == 1


def test_links_are_a_plain_tree(checkout: Path) -> None:
    (checkout / "client" / "train.py").touch()
    (checkout / "fedtag" / "graph").mkdir()
    assert main(["--links"], checkout) == 0
    place = checkout / "build" / "links" / "fedtag"
    assert {path.name for path in place.iterdir()} == {
        *("__init__.py", "graph", "client", "common", "deploy", "server")
    }
    assert (place / "client" / "train.py").is_file()
