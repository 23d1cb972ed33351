"""What an import was asked for, with which it is repeated when the data have changed."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from fedtag.common.errors import ConfigError, DataError
from fedtag.graph.importing.files import Place
from fedtag.graph.importing.plain_text import plain_text

RECIPE = "import.toml"
HEADING = "# How this folder was imported: `fedtag import {place}` does it again.\n"


Named = Annotated[str, Field(min_length=1)]


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError("a column is named twice")
    return names


class Recipe(BaseModel):
    """Where tables are, which of their columns is what, and what edges follow from.

    Empty is what is found out, or is not there.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
    )

    nodes: str
    edges: str = ""
    name: str = ""
    id: str = ""
    text: Annotated[list[Named], AfterValidator(_distinct)] = []
    label: str = ""
    split: str = ""
    src: str = ""
    dst: str = ""
    weight: str = ""
    edges_from: str = ""
    edges_from_column: str = ""
    edges_knn: int = Field(0, ge=0)
    edges_cap: int = Field(10, ge=2)
    list_separator: str = ""
    classes: list[str] = []
    map: dict[str, str] = {}
    directed: bool = False
    seed: int = Field(0, ge=0)
    write_split: bool = True
    encoding: str = ""
    separator: str = Field("", pattern=r'^[^"\r\n]{0,4}$')

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """The recipe of a file.

        Raises:
            ConfigError: it is none.
        """
        try:
            return cls.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"{path} is no recipe of an import ({_reason(error)}); give the {RECIPE} of one."
            ) from error

    @classmethod
    def of(cls, **given: Any) -> Recipe:
        """A recipe of what was given.

        Raises:
            ConfigError: a value is out of its range.
        """
        try:
            return cls(**given)
        except ValidationError as error:
            raise ConfigError(f"An import cannot be done so ({_reason(error)}); correct it.") from error

    def but(self, **given: Any) -> Recipe:
        """The same with other values.

        Raises:
            ConfigError: one is out of its range.
        """
        return Recipe.of(**{**self.model_dump(), **given})

    def write(self, folder: Path, place: Path) -> None:
        """Writes what is not as it is by itself.

        Args:
            folder: into which.
            place: where the folder will be.
        """
        content = self.model_dump(by_alias=True, exclude_defaults=True)
        heading = HEADING.format(place=place / RECIPE)
        (folder / RECIPE).write_text(heading + tomli_w.dumps(content), encoding="utf-8")


def recipe_of(
    nodes: str, given: Mapping[str, Any], classes: Path | None = None
) -> tuple[Recipe, Path | None]:
    """What is to be imported, and the folder that the same import wrote before, if it is one done again.

    Args:
        nodes: a table, or the recipe of an import.
        given: what else is known, by the names of a recipe; wins over what the recipe says.
        classes: a file with one class a line.

    Raises:
        DataError: there is no such file.
        ConfigError: a recipe is none, or a value is out of range.
    """
    given = dict(given)
    if "edges" in given:
        given["edges"] = str(Place.of(given["edges"]))
    if classes is not None:
        given["classes"] = class_names(classes)
    path = Path(nodes)
    if path.suffix == ".toml":
        return Recipe.read(path).but(**given), path.parent
    return Recipe.of(nodes=str(Place.of(nodes)), **given), None


def class_names(path: Path) -> list[str]:
    """The classes of a federation, one a line, in their order.

    Raises:
        DataError: there is no such file, or no class in it.
    """
    with tempfile.TemporaryDirectory(prefix="fedtag-") as scratch:
        text = plain_text(Place.of(str(path)).path, path.name, Path(scratch)).path
        names = [line.strip() for line in text.read_text(encoding="utf-8-sig").splitlines()]
    found = [name for name in names if name]
    if not found:
        raise DataError(f"{path.name}: there is no class; write one a line.")
    return found


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
