"""What an image of docker/ holds, made from the packages that are installed here."""

from __future__ import annotations

import re
import sys
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.packages import write_links

REPOSITORY = Path(__file__).resolve().parents[2]


def requirements(side: str) -> list[str]:
    """The lines of an image's list, without remarks."""
    text = (REPOSITORY / "docker" / f"{side}-requirements.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def closure(names: list[str]) -> dict[str, metadata.Distribution]:
    """The named packages and all that pip would install with them, by their normalised names."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [Requirement(name) for name in names]
    done = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        key = (name, frozenset(wanted.extras))
        if key in done:
            continue
        done.add(key)
        # Packages for another platform are not installed here, and no marker asks for them.
        found[name] = metadata.distribution(wanted.name)
        for line in found[name].requires or []:
            need = Requirement(line)
            if need.marker is None or any(
                need.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)
            ):
                waiting.append(need)
    return found


def environment_variables(side: str) -> dict[str, str]:
    """What the Dockerfile's last stage sets, without paths of the image."""
    text = (REPOSITORY / "docker" / f"{side}.Dockerfile").read_text(encoding="utf-8")
    last = text[text.rindex("\nFROM ") :].replace("\\\n", " ")
    (line,) = re.findall(r"^ENV (.*)$", last, re.MULTILINE)
    values = dict(word.split("=", 1) for word in line.split())
    return {key: value for key, value in values.items() if key not in ("PATH", "HOME", "FLWR_HOME")}


def entrypoint(side: str) -> str:
    text = (REPOSITORY / "docker" / f"{side}.Dockerfile").read_text(encoding="utf-8")
    (program,) = re.findall(r'^ENTRYPOINT \["([^"]+)"\]$', text, re.MULTILINE)
    return str(program)


def make_environment(folder: Path, side: str) -> Path:
    """An environment with fedtag and links to an image's packages and no others; returns its folder of programs."""
    venv.create(folder, with_pip=False, symlinks=True)
    programs = folder / "bin"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    for distribution in closure(requirements(side)).values():
        for file in distribution.files or []:
            _link(packages, Path(str(distribution.locate_file(""))), Path(file))
        write_programs(programs, distribution)
    # Of the project itself an editable install has metadata alone.
    own = metadata.distribution("fedtag")
    write_links(packages, REPOSITORY)
    _link(packages, Path(str(own.locate_file(""))), _metadata_folder(own))
    write_programs(programs, own)
    return programs


def _metadata_folder(distribution: metadata.Distribution) -> Path:
    return next(Path(file).parent for file in distribution.files or [] if Path(file).name == "METADATA")


def write_programs(folder: Path, distribution: metadata.Distribution) -> None:
    """A package's programs, run by the Python of the folder."""
    for entry in distribution.entry_points.select(group="console_scripts"):
        module, _, function = entry.value.split("[")[0].strip().partition(":")
        script = folder / entry.name
        script.write_text(
            f"#!{folder / 'python'}\nimport sys\nfrom {module} import {function.split('.')[0]}\n"
            f"sys.exit({function}())\n",
            encoding="utf-8",
        )
        script.chmod(0o755)


def _link(packages: Path, origin: Path, file: Path) -> None:
    """Links the first folder that belongs to one package alone, or the file; shared folders are made."""
    if file.parts[0] == "..":
        return
    for depth in range(1, len(file.parts) + 1):
        part = Path(*file.parts[:depth])
        target, source = packages / part, origin / part
        if target.is_symlink() or not source.exists():
            return
        if source.is_dir() and not _is_package(source):
            target.mkdir(exist_ok=True)
            continue
        target.symlink_to(source)
        return


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").exists() or folder.suffix in (".dist-info", ".libs", ".data")
