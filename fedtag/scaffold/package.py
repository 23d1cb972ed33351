"""A package with a method, part, condenser or backbone that runs, for its author to change."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Literal, get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fedtag.common.errors import ConfigError
from fedtag.common.settings.registry import INTERFACE, NAME
from fedtag.common.settings.run_settings import RunSettings
from fedtag.runs.catalogue import ALL

Kind = Literal["method", "part", "condenser", "backbone"]
TEMPLATES = Path(__file__).with_name("templates")


def new_package(kind: str, name: str, folder: Path) -> list[Path]:
    """Write a package that brings one thing, with a test that fails until one marked line is filled in.

    Args:
        kind: method, part, condenser or backbone.
        name: of what it brings: lower case, digits, hyphens or underscores.
        folder: in which the package's folder, fedtag-NAME, is made.

    Returns:
        the files, the one with the marked line first.

    Raises:
        ConfigError: the kind or name cannot be, something is called so already, or the folder is there.
    """
    if kind not in get_args(Kind):
        raise ConfigError(f"fedtag new {kind}: use one of {', '.join(get_args(Kind))}")
    package = "fedtag_" + re.sub(r"\W", "_", name)
    camel = "".join(part.capitalize() for part in re.split(r"[-_]", name))
    taken = name in RunSettings.model_fields or keyword.iskeyword(camel)
    if not NAME.fullmatch(name) or not name[-1].isalnum() or taken:
        raise ConfigError(
            f"name '{name}': use lower case, digits, hyphens or underscores between letters, and no word of Python "
            "or of the settings"
        )
    for registry in ALL:
        if name in registry:
            where = registry.origin(name).package
            raise ConfigError(f"name '{name}': {where} has a {registry.what} of this name, choose another")
    target = folder / f"fedtag-{name}"
    if target.exists():
        raise ConfigError(f"{target} is there already: choose another name or folder")
    # No page is made of these, in which anything would have to be escaped.
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    words = {
        "kind": kind,
        "name": name,
        "package": package,
        "camel": camel,
        "upper": name.upper().replace("-", "_"),
        "interface": INTERFACE,
    }
    sources = {
        f"{package}/specs.py": f"{kind}_specs.py.j2",
        f"{package}/{kind}.py": f"{kind}.py.j2",
        f"{package}/__init__.py": "init.py.j2",
        "pyproject.toml": "pyproject.toml.j2",
        "README.md": "README.md.j2",
        "tests/test_contract.py": "test_contract.py.j2",
    }
    written = []
    for file, template in sources.items():
        path = target / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(environment.get_template(template).render(words), encoding="utf-8")
        written.append(path)
    return written
