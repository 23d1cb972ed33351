"""The packages of the wheel, from the folders of the checkout.

setuptools maps top-level folders into `fedtag` (`[tool.setuptools.package-dir]`), and with a mapping it finds no
package by itself: one that is not listed is missing from the wheel while an editable install still sees it.

    python -m tools.packages          # rewrite the list in pyproject.toml
    python -m tools.packages --check  # fail if it is not what the folders say
    python -m tools.packages --links  # build/links/fedtag: the packages as a plain tree, for mypy and import-linter
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ROOTS = {
    "fedtag": "fedtag",
    "fedtag.client": "client",
    "fedtag.common": "common",
    "fedtag.deploy": "deploy",
    "fedtag.server": "server",
}
LIST = re.compile(r"(?ms)^packages = \[\n.*?^\]\n")


def packages(repository: Path) -> list[str]:
    """Dotted names of all folders with an `__init__.py`."""
    found = []
    for name, folder in ROOTS.items():
        root = repository / folder
        inits = sorted(root.rglob("__init__.py"))
        found += [".".join([name, *init.parent.relative_to(root).parts]) for init in inits]
    return sorted(found)


def rewritten(project: str, repository: Path) -> str:
    """The text of pyproject.toml with the list as it should be."""
    entries = "".join(f'    "{name}",\n' for name in packages(repository))
    return LIST.sub(lambda _: f"packages = [\n{entries}]\n", project, count=1)


def write_links(target: Path, repository: Path) -> None:
    """A folder `fedtag` whose entries are links into the checkout."""
    place = target / "fedtag"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for entry in (repository / "fedtag").iterdir():
        if entry.name != "__pycache__":
            (place / entry.name).symlink_to(entry)
    for name, folder in ROOTS.items():
        if "." in name:
            (place / name.partition(".")[2]).symlink_to(repository / folder)


def main(arguments: list[str], repository: Path = REPOSITORY) -> int:
    """Rewrite, check or link; the exit code."""
    file = repository / "pyproject.toml"
    before = file.read_text(encoding="utf-8")
    after = rewritten(before, repository)
    if arguments == ["--links"]:
        write_links(repository / "build" / "links", repository)
        return 0
    if arguments == ["--check"]:
        if before != after:
            sys.stderr.write(
                "the packages in pyproject.toml are not those of the checkout: call make packages\n"
            )
        return int(before != after)
    file.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
