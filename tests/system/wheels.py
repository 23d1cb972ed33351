"""The wheels of the checkout, and environments in which nothing else of it is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from tests.system.images import write_programs
from tools.packages import ROOTS

REPOSITORY = Path(__file__).resolve().parents[2]


def copied(folder: Path, *names: str) -> Path:
    """The checkout's files under some names, without anything that was built there, at another place."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *names]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / name, folder / name)
    return folder


def project(folder: Path) -> Path:
    """A copy of all that the wheel of fedtag is made of."""
    return copied(folder, "pyproject.toml", "README.md", "LICENSE", *ROOTS.values())


def built(source: Path, out: Path) -> Path:
    """The wheel that the build backend makes of a project."""
    out.mkdir(parents=True, exist_ok=True)
    code = f"from setuptools import build_meta; print(build_meta.build_wheel({str(out)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1]


def environment(folder: Path, wheels: Sequence[Path]) -> Path:
    """The folder of programs of a new environment with wheels, Flower's programs and all that is installed here."""
    venv.create(folder, with_pip=False, symlinks=True)
    programs = folder / "bin"
    (packages,) = (folder / "lib").glob("python*/site-packages")
    assert list(packages.iterdir()) == []
    command = ["--python", str(programs / "python"), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", *command, *map(str, wheels)], check=True)
    named = {path.name.partition("-")[0] for path in packages.iterdir()}
    assert named == {path.name.partition("-")[0] for path in wheels}
    # Folders in a .pth are searched, but no .pth in them is read: the checkout stays unknown.
    here = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "dependencies.pth").write_text("\n".join(here) + "\n", encoding="utf-8")
    write_programs(programs, metadata.distribution("flwr"))
    return programs
