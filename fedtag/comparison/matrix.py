"""The cells of a comparison: every row on every data set with every seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedtag.common.config import RunConfig
from fedtag.common.config.places import SEPARATOR
from fedtag.common.errors import ConfigError
from fedtag.comparison.study import FULL_DATA, RowTable, Study, reference_row, row_settings
from fedtag.runs.settings import resolve
from fedtag.runs.simulation import data_name, folder_name, with_absolute_places

RUNS = "runs"


@dataclass(frozen=True)
class Cell:
    """One run of a comparison.

    Args:
        row, data, seed: its place in the matrix, by the names that people read.
        config: all its settings; `out` is its run directory.
    """

    row: str
    data: str
    seed: int
    # Its place in the matrix tells a cell from all others.
    config: RunConfig = field(hash=False)

    @property
    def path(self) -> Path:
        """The run directory."""
        return Path(self.config.out)

    @property
    def name(self) -> str:
        """What a person reads."""
        return f"{self.row} · {self.data} · seed {self.seed}"

    @property
    def texts(self) -> tuple[str, str]:
        """Equal for cells that encode the same texts in the same way."""
        return self.config.data.source, self.config.text.model_dump_json()


@dataclass(frozen=True)
class Matrix:
    """All cells of a study, and its rows and data sets by name.

    Args:
        home: folder of the comparison.
        study: whose rows include the references.
        data: names of the data sets.
        baseline: name of the row with which the others are compared.
        cells: by data set, seed and row.
    """

    home: Path
    study: Study
    data: tuple[str, ...]
    baseline: str
    cells: tuple[Cell, ...]


def matrix_of(study: Study, home: Path) -> Matrix:
    """The matrix of a study in a folder.

    Raises:
        ConfigError: settings are wrong, or two rows or data sets would have one name.
    """
    rows = (*reference_rows(study), *study.rows)
    study = study.model_copy(update={"rows": rows})
    names = data_names(study.data)
    row_folders = folders([row.name for row in rows], "rows")
    data_folders = folders(names, "data sets")
    cells, problems = [], dict[str, None]()
    for source, data, data_folder in zip(study.data, names, data_folders, strict=True):
        # Seed by seed, so that all rows can be compared early, and long ones do not all come last.
        for seed in study.seeds:
            for row, row_folder in zip(rows, row_folders, strict=True):
                out = home / RUNS / row_folder / data_folder / f"seed-{seed}"
                own = {"data.source": source, "seed": seed, "out": str(out)}
                try:
                    config = resolve({**row_settings(common_settings(study, source), row), **own})
                    cells.append(Cell(row.name, data, seed, with_absolute_places(config)))
                except ConfigError as error:
                    problems |= dict.fromkeys(f"row '{row.name}': {line}" for line in str(error).splitlines())
    if problems:
        raise ConfigError("\n".join(problems))
    return Matrix(home, study, names, baseline_of(study), tuple(cells))


def common_settings(study: Study, source: str) -> dict[str, Any]:
    """What all rows share; a federation of several folders has as many clients."""
    sources = source.split(SEPARATOR)
    return ({"clients": len(sources)} if len(sources) > 1 else {}) | study.settings


def reference_rows(study: Study) -> list[RowTable]:
    """The rows of the references that no row of the study repeats under its own name or another."""
    there = {row.name for row in study.rows} | {digest(study, row) for row in study.rows}
    rows = [reference_row(method, study.settings) for method in study.references]
    return [row for row in rows if not {row.name, digest(study, row)} & there]


def digest(study: Study, row: RowTable) -> str:
    """Equal for rows that give the same results; empty where the settings are wrong."""
    try:
        return RunConfig.from_flat(row_settings(study.settings, row)).digest()
    except ConfigError:
        return ""


def baseline_of(study: Study) -> str:
    """The name of the baseline: as the study says, else that of all of a client's data, else the first row.

    Raises:
        ConfigError: no row has that name.
    """
    names = [row.name for row in study.rows]
    if study.baseline:
        if study.baseline not in names:
            raise ConfigError(f"baseline '{study.baseline}' is no row; use one of {', '.join(names)}")
        return study.baseline
    full = digest(study, reference_row(FULL_DATA, study.settings))
    return next((row.name for row in study.rows if digest(study, row) == full), names[0])


def data_names(sources: Sequence[str]) -> tuple[str, ...]:
    """Short names of the data sets; with the folder around them where two have the same.

    Raises:
        ConfigError: two have the same name even so.
    """
    short = [data_name(source) for source in sources]
    names = [
        f"{Path(source).absolute().parent.name}-{name}" if short.count(name) > 1 else name
        for source, name in zip(sources, short, strict=True)
    ]
    return tuple(names)


def folders(names: Sequence[str], what: str) -> list[str]:
    """A folder for each name, all different on any file system.

    Raises:
        ConfigError: two names would have the same folder.
    """
    found = [folder_name(name)[:80].strip(".-") or "-" for name in names]
    lowered = [name.lower() for name in found]
    clashing = [name for name, folder in zip(names, lowered, strict=True) if lowered.count(folder) > 1]
    if clashing:
        raise ConfigError(
            f"the {what} {', '.join(repr(name) for name in clashing)} would share a folder; give them names that "
            "differ in letters or digits"
        )
    return found
