"""`fedtag new`: a package that runs as it is written, with a test that asks its author for one line."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fedtag.errors import ConfigError
from fedtag.scaffold.package import new_package

REPOSITORY = Path(__file__).resolve().parents[2]


def laid_out(folder: Path) -> dict[str, str]:
    """An environment in which a written package lies as after an installation."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    entries = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
        for group, named in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(entries))
    path = os.pathsep.join([str(folder), str(REPOSITORY)])
    return {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1", "COLUMNS": "200"}


@pytest.mark.parametrize(
    "kind",
    ["condenser", *(pytest.param(one, marks=pytest.mark.slow) for one in ("method", "part", "backbone"))],
)
def test_a_new_package_runs_and_asks_for_one_line(kind: str, tmp_path: Path) -> None:
    specs, *_ = new_package(kind, "brand-new", tmp_path)
    folder = tmp_path / "fedtag-brand-new"
    environment = laid_out(folder)
    listed = subprocess.run(
        [sys.executable, "-m", "fedtag.deploy.cli", "methods", "brand-new"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "FILL IN: one line for help and cards" in listed.stdout
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-q"]
    command += ["-p", "no:cacheprovider", "--import-mode=importlib", "tests"]

    def tested(*options: str) -> subprocess.CompletedProcess[str]:
        arguments = [*command, *options]
        return subprocess.run(
            arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    asked = tested("-k", "says")
    assert asked.returncode == 1
    assert "say in fedtag_brand_new/specs.py what it does" in asked.stdout
    specs.write_text(
        specs.read_text(encoding="utf-8").replace("FILL IN: one line for help and cards", "Something")
    )
    done = tested()
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    ("kind", "name", "told"),
    [
        ("thing", "new", "fedtag new thing: use one of method, part, condenser, backbone"),
        ("method", "fedavg", "fedtag has a method of this name"),
        ("method", "herding", "fedtag has a condenser of this name"),
        ("part", "Upper", "use lower case, digits, hyphens or underscores"),
        ("part", "", "use lower case"),
        ("part", "../out", "use lower case"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(
    kind: str, name: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=told):
        new_package(kind, name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    new_package("part", "mine", tmp_path)
    with pytest.raises(ConfigError, match="is there already"):
        new_package("part", "mine", tmp_path)
