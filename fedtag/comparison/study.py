"""What a comparison is made of: rows, data sets, seeds, and the settings of each."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fedtag.common.condensers.spec import NONE
from fedtag.common.config import default_settings, flatten
from fedtag.common.config.run_config import PARENT, without_foreign
from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS
from fedtag.common.parts.spec import PARTS

STUDIES = Path(__file__).with_name("studies")
_REFERENCES = tomllib.loads(Path(__file__).with_name("references.toml").read_text(encoding="utf-8"))
REFERENCES: Mapping[str, str] = _REFERENCES["names"]
"""Methods that every comparison has, and the names of their rows."""
FULL_DATA: str = _REFERENCES["full-data"]
ROWS: tuple[str, ...] = tuple(_REFERENCES["rows"])
"""Methods of a comparison where nobody names any."""
OF_ROWS = ("aggregation", "privacy")
"""Tables whose settings mean nothing to some references, or would make them something else than references; so do parts
and their tables."""
OF_ALL = ("aggregation.average-decay",)
"""Settings of these tables that all methods have."""
RESERVED = ("seed", "out", "resume", *PARENT, "data.source", "data.sites")
"""Settings that make the matrix; neither rows nor the common settings can hold them."""
DEFAULT_SEEDS = 5
MOST_SEEDS = 1000


class Table(BaseModel):
    """A table of a study: frozen, in kebab-case, refusing keys that it does not know."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
    )


class RowTable(Table):
    """One row.

    Args:
        name: what people call it.
        settings: its own, by dotted key; they win over those of the study.
        series: of the line to which it belongs where the plot has an axis; by default its method.
        shows: what it is there for, in a line; may be empty.
    """

    name: Annotated[str, Field(min_length=1, max_length=80)]
    settings: dict[str, Any] = {}
    series: str = ""
    shows: str = ""

    @field_validator("settings")
    @classmethod
    def _known(cls, settings: dict[str, Any]) -> dict[str, Any]:
        return known_settings(settings)


class Study(Table):
    """A comparison, as a study file (TOML) describes it.

    Args:
        title: of tables and page.
        source: what it reproduces, such as a table of a paper.
        seeds: a list, or a number n for 0 to n - 1.
        data: sources as for `fedtag simulate`; several folders of one federation are joined by semicolons.
        settings: of all rows.
        rows: besides the references.
        references: methods with their default row; those that a row repeats are left out.
        baseline: the row with which the others are compared; that of all of a client's data where it is empty.
        axis: a setting; the plot then shows lines along it for the rows that set it.
    """

    title: Annotated[str, Field(min_length=1, max_length=200)]
    source: str = ""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = tuple(range(DEFAULT_SEEDS))
    data: tuple[str, ...] = ("pydocs-brief",)
    settings: dict[str, Any] = {}
    rows: tuple[RowTable, ...] = ()
    references: tuple[str, ...] = tuple(REFERENCES)
    baseline: str = ""
    axis: str = ""

    @field_validator("seeds", mode="before")
    @classmethod
    def _counted(cls, seeds: Any) -> Any:
        if isinstance(seeds, bool) or (
            isinstance(seeds, list | tuple) and any(isinstance(seed, bool) for seed in seeds)
        ):
            raise ValueError("true and false are no seeds; write how many, or a list of whole numbers")
        count = seeds if isinstance(seeds, int) else len(seeds) if isinstance(seeds, list | tuple) else 0
        if count > MOST_SEEDS:
            raise ValueError(f"{count} seeds are too many; use {MOST_SEEDS} at most")
        return range(seeds) if isinstance(seeds, int) else seeds

    @field_validator("settings")
    @classmethod
    def _known(cls, settings: dict[str, Any]) -> dict[str, Any]:
        return known_settings(settings)

    @field_validator("references")
    @classmethod
    def _references(cls, references: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in references if name not in REFERENCES]
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: choose from {', '.join(REFERENCES)}")
        check_named_once("reference", references)
        return references

    @field_validator("axis")
    @classmethod
    def _axis(cls, axis: str) -> str:
        default = default_settings().get(axis, "")
        if axis in RESERVED:
            raise ValueError(f"'{axis}' is the same for all rows; name a setting that rows can have")
        if axis and (isinstance(default, bool) or not isinstance(default, int | float)):
            raise ValueError(f"'{axis}' is not a setting that is a number; see `fedtag settings`")
        return axis

    @model_validator(mode="after")
    def _complete(self) -> Study:
        for what, values in (("seed", self.seeds), ("data set", self.data)):
            if not values:
                raise ValueError(f"there is no {what}; a comparison needs one at least")
            check_named_once(what, values)
        if not all(source.strip() for source in self.data):
            raise ValueError(
                "a data set is empty; name a folder, a .npz graph, a public set, or pydocs-brief"
            )
        if not self.rows and not self.references:
            raise ValueError("there is no row; give [[rows]] or references")
        return self


def left_out(shared: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that the references have where the rows of a study share settings of aggregation or privacy.

    Args:
        shared: settings of the study, by dotted key.
    """
    defaults = default_settings()
    return {
        key: defaults[key]
        for key, value in shared.items()
        if _of_rows(key) and key in defaults and value != defaults[key]
    }


def _of_rows(key: str) -> bool:
    table = key.partition(".")[0]
    return (table in OF_ROWS and key not in OF_ALL) or key == "parts" or table in PARTS


def row_settings(shared: Mapping[str, Any], row: RowTable) -> dict[str, Any]:
    """The settings of a row: shared ones, without those of methods and parts that it is not made of, and its own."""
    flat = {**shared, **row.settings}
    fitting = without_foreign(flat)
    return {**{key: value for key, value in shared.items() if key in fitting}, **row.settings}


def reference_row(method: str, shared: Mapping[str, Any]) -> RowTable:
    """The row of a reference in a study whose rows share some settings."""
    return RowTable(name=REFERENCES[method], settings={"method": method, **left_out(shared)})


def check_named_once(what: str, values: Sequence[object]) -> None:
    """Raise ValueError for values of which two are the same."""
    if len(set(values)) < len(values):
        raise ValueError(f"a {what} is named twice in {', '.join(map(str, values))}; name each once")


def known_settings(nested: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted settings from nested tables or dotted keys, without those that make the matrix."""
    flat = flatten(nested)
    reserved = [key for key in flat if key in RESERVED]
    if reserved:
        raise ValueError(f"{', '.join(reserved)} cannot be set here; a study has seeds and data of its own")
    return flat


def read_study(name: str) -> Study:
    """The study in a file, or the one of that name that comes with fedtag.

    Raises:
        ConfigError: the file is missing, is no TOML, or is no study; with everything that is wrong.
    """
    shipped = STUDIES / f"{name}.toml"
    file = shipped if shipped.is_file() and not Path(name).is_file() else Path(name)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        here = ", ".join(sorted(path.stem for path in STUDIES.glob("*.toml")))
        raise ConfigError(f"study={name}: {error.strerror}; name a TOML file, or one of {here}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"study={name} is not TOML: {error}") from error
    return checked_study(content, str(file))


def study_of_methods(methods: Sequence[str], ratios: Sequence[float], title: str) -> Study:
    """The study of some methods beside the references.

    Args:
        methods: by name; the references may be among them.
        ratios: of condensation; each gives a row of its own to every method that condenses.
        title: of tables and page.

    Raises:
        ConfigError: a method is unknown, or it or a ratio is named twice.
    """
    for option, what, values in (("methods=", "method", methods), ("ratio=", "ratio", ratios)):
        try:
            check_named_once(what, values)
        except ValueError as error:
            raise ConfigError(f"{option}: {error}") from None
    rows: list[dict[str, Any]] = []
    for method in methods:
        if method in REFERENCES:
            continue
        if ratios and _condenses(method):
            rows += [
                {"name": f"{method} {100 * ratio:g}%", "settings": {"method": method, "ratio": ratio}}
                for ratio in ratios
            ]
        else:
            rows.append({"name": method, "settings": {"method": method}})
    return checked_study({"title": title, "rows": rows}, "methods=")


def _condenses(method: str) -> bool:
    """Whether a method's clients train on condensed graphs where nobody says on which."""
    spec = METHODS.get(method)
    return spec.traits.condensed == "own" or spec.defaults.get("condenser.name", NONE) != NONE


def checked_study(content: Mapping[str, Any], where: str) -> Study:
    """A study from plain values.

    Raises:
        ConfigError: with everything that is wrong, one sentence each.
    """
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        raise ConfigError("\n".join(wrong_value(where, one) for one in error.errors())) from None


def wrong_value(where: str, error: Any) -> str:
    """One sentence about one fault."""
    key = ".".join(str(part) for part in error["loc"])
    reason = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        keys = (
            field.replace("_", "-") for field in (RowTable if key.startswith("rows.") else Study).model_fields
        )
        return f"{where}: unknown key '{key}'; use {', '.join(keys)}."
    return f"{where}: {key}{': ' if key else ''}{reason[0].lower()}{reason[1:]}."
