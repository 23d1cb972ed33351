"""meta.json or tag.toml: what a folder's graph is called and which classes the federation agreed on."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.values import normal
from fedtag.common.errors import DataError
from fedtag.common.wording.split import DRAWN

META_FILES = ("meta.json", "tag.toml")


@dataclass(frozen=True)
class Metadata:
    """Name, ordered class names, whether edges are followed in one direction only, and whether the split was drawn."""

    name: str
    classes: tuple[str, ...]
    directed: bool
    split_drawn: bool = False


def read_metadata(path: Path, problems: Problems, agreed: Sequence[str] | None = None) -> Metadata | None:
    """Reads meta.json or tag.toml; further keys are ignored.

    Where classes are agreed already, the file may leave them out but not name others.

    Returns None where the classes are not known, so that labels cannot be checked.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problems.add(path.name, f"cannot be parsed ({shown(str(error))})", "correct the file, in UTF-8")
        return None
    if not isinstance(content, dict):
        problems.add(path.name, "is no object", "write one with the keys name and classes")
        return None
    name = content.get("name")
    if not isinstance(name, str) or not name.strip():
        problems.add(path.name, f"name is {shown(name)}", "give the institution's name as a string")
        name = path.parent.name
    directed = content.get("directed", False)
    if not isinstance(directed, bool):
        problems.add(path.name, f"directed is {shown(directed)}", "write true or false")
        directed = False
    classes = content.get("classes")
    if classes is None and agreed is not None:
        classes = list(agreed)
    if are_names(classes) and (alike := look_alike(classes)):
        first, second = alike
        problems.add(
            path.name,
            f"two classes look alike and differ in their Unicode normal form (NFC): {first!a} and {second!a}",
            "keep one",
        )
        return None
    if not are_names(classes):
        problems.add(
            path.name,
            f"classes is {shown(classes)}",
            "list the federation's class names in the agreed order, as distinct non-empty strings",
        )
        return None
    classes = list(map(normal, classes))
    if agreed is not None and classes == list(map(normal, agreed)):
        classes = list(agreed)
    elif agreed is not None:
        problems.add(
            path.name,
            f"classes is {shown(classes)}, but the model's classes are {', '.join(agreed)}",
            "use a model of this federation, or leave classes out if the nodes have no labels",
        )
        return None
    return Metadata(name, tuple(classes), directed, content.get("split") == DRAWN)


def is_directed(folder: Path) -> bool:
    """Whether the edges of a folder have one direction, by its description alone.

    Raises:
        DataError: the description is missing or broken.
    """
    files = [folder / name for name in META_FILES if (folder / name).is_file()]
    if not files:
        raise DataError(f"{folder} has no {' or '.join(META_FILES)}; add one.")
    problems = Problems()
    meta = read_metadata(files[0], problems)
    problems.raise_any()
    return meta is not None and meta.directed


def are_names(values: object) -> TypeGuard[list[str]]:
    """Whether it is a list of distinct strings that are not blank."""
    if not isinstance(values, list) or not values:
        return False
    return all(isinstance(item, str) and item.strip() for item in values) and len(set(values)) == len(values)


def look_alike(names: Sequence[str]) -> tuple[str, str] | None:
    """Two names that are the same but for their normal form; None where there are none."""
    first: dict[str, str] = {}
    for name in names:
        if first.setdefault(normal(name), name) != name:
            return first[normal(name)], name
    return None
