"""The wheel holds what the checkout does, and works where it alone is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from tests.system.images import write_programs
from tools.packages import ROOTS

REPOSITORY = Path(__file__).resolve().parents[2]
UNLISTED = "common/unlisted/__init__.py"
# What a machine's operator copies from the checkout; no program reads it from the package.
OPERATION = ("deploy/kubernetes/", "deploy/systemd/")
DATA = (".toml", ".j2", ".pyi")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout's files without anything that was built there, and with a package that nobody has listed."""
    folder = tmp_path_factory.mktemp("source")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *ROOTS.values()]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for name in ["pyproject.toml", "README.md", "LICENSE", *listed.stdout.splitlines()]:
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / name, folder / name)
    (folder / UNLISTED).parent.mkdir()
    (folder / UNLISTED).touch()
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the build backend makes of them."""
    out = tmp_path_factory.mktemp("wheel")
    code = f"from setuptools import build_meta; build_meta.build_wheel({str(out)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("fedtag-*-py3-none-any.whl")
    return built


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
    # What is not listed is not packed, which is why the list is generated and checked.
    assert (wanted - held, held - wanted) == ({packed_name(Path(UNLISTED))}, set())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel, Flower's programs and all that is installed here."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False, symlinks=True)
    programs = folder / "bin"
    (packages,) = (folder / "lib").glob("python*/site-packages")
    assert list(packages.iterdir()) == []
    command = [
        "--python",
        str(programs / "python"),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    subprocess.run([sys.executable, "-m", "pip", *command], check=True)
    assert {path.name.partition("-")[0] for path in packages.iterdir()} == {"fedtag"}
    # Folders in a .pth are searched, but no .pth in them is read: the checkout stays unknown.
    here = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "dependencies.pth").write_text("\n".join(here) + "\n", encoding="utf-8")
    write_programs(programs, metadata.distribution("flwr"))
    return programs


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
    environment = {**kept, "PYTHONPATH": str(foreign), "OMP_NUM_THREADS": "1"}

    def call(*words: str) -> str:
        done = subprocess.run(
            words, cwd=foreign, env=environment, capture_output=True, text=True, check=False
        )
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
