"""The wheel holds what the checkout does, and works where it alone is installed."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.wheels import built, environment, project
from tools.packages import ROOTS

UNLISTED = "common/unlisted/__init__.py"
# What a machine's operator copies from the checkout; no program reads it from the package.
OPERATION = ("deploy/kubernetes/", "deploy/systemd/")
DATA = (".toml", ".j2", ".js", ".css", ".txt", ".pyi")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout's files without anything that was built there, and with a package that nobody has listed."""
    folder = project(tmp_path_factory.mktemp("source"))
    (folder / UNLISTED).parent.mkdir()
    (folder / UNLISTED).touch()
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the build backend makes of them."""
    return built(source, tmp_path_factory.mktemp("wheel"))


def packed_name(file: Path) -> str:
    """Where a file of the checkout lies in the wheel."""
    package = next(name for name, folder in ROOTS.items() if file.parts[0] == folder)
    return "/".join([*package.split("."), *file.parts[1:]])


def test_the_wheel_has_every_module_and_every_data_file(source: Path, wheel: Path) -> None:
    files = [path.relative_to(source) for folder in ROOTS.values() for path in (source / folder).rglob("*")]
    wanted = {
        packed_name(file)
        for file in files
        if (file.suffix in (".py", *DATA) or file.name == "py.typed")
        and not file.as_posix().startswith(OPERATION)
        and "__pycache__" not in file.parts
    }
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert any(name.endswith(".j2") for name in held)
    assert any("/studies/" in name for name in held)
    assert "fedtag/common/web/uplot-license.txt" in held
    # What is not listed is not packed, which is why the list is generated and checked.
    assert (wanted - held, held - wanted) == ({packed_name(Path(UNLISTED))}, set())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel."""
    return environment(tmp_path_factory.mktemp("fresh"), [wheel])


@pytest.fixture
def foreign(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Path:
    """A user's folder with data and modules of the user's own, which raise where anybody imports them."""
    folder = tmp_path / "foreign"
    for number in (0, 1):
        write_feature_folder(folder / f"site-{number}", seed=number)
    for name in ("client", "common", "deploy", "server"):
        (folder / f"{name}.py").write_text("raise RuntimeError('a module of the user')\n", encoding="utf-8")
    return folder


@pytest.mark.slow
def test_the_installed_program_works_beside_modules_of_the_same_names(installed: Path, foreign: Path) -> None:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONSAFEPATH", "VIRTUAL_ENV")
    }
    # With this the user's modules come first in every process, Flower's included.
    variables = {**kept, "PYTHONPATH": str(foreign), "OMP_NUM_THREADS": "1"}

    def call(*words: str) -> str:
        done = subprocess.run(words, cwd=foreign, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    place = call(str(installed / "python"), "-c", "import fedtag.client as side; print(side.__file__)")
    assert Path(place).is_relative_to(installed.parent)
    models = []
    for command in ("simulate", "up"):
        options = ["--method", "fedavg", "--rounds", "2", "--data", "site-0", "--data", "site-1"]
        call(str(installed / "fedtag"), command, *options, "--out", command)
        models.append((foreign / command / "model.safetensors").read_bytes())
    assert models[0] == models[1]
