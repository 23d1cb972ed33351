"""The study that a command line asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedtag.common.errors import ConfigError
from fedtag.common.settings.lists import listed
from fedtag.comparison.study import (
    FULL_DATA,
    MOST_SEEDS,
    RESERVED,
    ROWS,
    Study,
    checked_study,
    left_out,
    read_study,
    study_of_methods,
)
from fedtag.runs.settings import collect, read_settings

TITLE = "Comparison of methods"


def requested(
    study: str | None,
    methods: str | None,
    ratios: str | None,
    seeds: str | None,
    data: Sequence[str] | None,
    config: Path | None,
    options: Mapping[str, Any],
    assignments: Sequence[str],
) -> Study:
    """The study of a file or of some methods, with what the command line sets besides.

    Args:
        study: a file, or the name of a study that comes with fedtag.
        methods: separated by commas; not with a study.
        ratios: of condensation, separated by commas; not with a study.
        seeds: how many, or which.
        data: sources in place of the study's.
        config: TOML with settings that count less than the study's. Its data source is used where nothing
            else names one; its seed is not used.
        options: dotted settings.
        assignments: `key=value` each.

    Raises:
        ConfigError: with everything that is wrong, one sentence each.
    """
    if study is not None and (methods is not None or ratios is not None):
        raise ConfigError(
            "study= has rows of its own: leave methods= and ratio= out, or edit a copy of the file"
        )
    if study is not None:
        found = read_study(study)
    else:
        names = list(listed(methods, "methods") if methods is not None else ROWS)
        found = study_of_methods(names, [number(text) for text in listed(ratios or "", "ratio")], TITLE)
    given, problems = collect(None, options, assignments)
    problems += [
        f"{key} cannot be set here: rows, seeds=, data= and out= decide about it; use these."
        for key in (assignment.partition("=")[0].strip() for assignment in assignments)
        if key in ("method", "seed", "out", "data.source")
    ]
    if problems:
        raise ConfigError("\n".join(problems))
    base = read_settings(config) if config is not None else {}
    content: dict[str, Any] = found.model_dump(by_alias=True, exclude_unset=True)
    if data:
        content["data"] = tuple(data)
    elif "data.source" in base:
        content.setdefault("data", (base["data.source"],))
    if seeds is not None:
        content["seeds"] = seeds_of(seeds)
    kept = {key: value for key, value in base.items() if key not in RESERVED}
    content["settings"] = {**kept, **found.settings, **given}
    if FULL_DATA in listed(methods or "", "methods") and left_out(content["settings"]):
        # Asked for by name, it has what the others share, too, beside the reference that has not.
        content["rows"] = [*content["rows"], {"name": FULL_DATA, "settings": {"method": FULL_DATA}}]
    return checked_study(content, study or "fedtag compare")


def seeds_of(text: str) -> tuple[int, ...]:
    """Seeds from `5` (0 to 4) or `0,3,7`; `3,` is the seed 3 alone.

    Raises:
        ConfigError: it is neither, or more than 1000 seeds.
    """
    try:
        numbers = tuple(int(part) for part in text.removesuffix(",").split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 0:
        raise ConfigError(f"seeds={text}: write how many, such as 5, or which, such as 0,1,2")
    count = len(numbers) if "," in text else numbers[0]
    if count > MOST_SEEDS:
        raise ConfigError(f"seeds=: {count} seeds are too many; use {MOST_SEEDS} at most")
    return numbers if "," in text else tuple(range(numbers[0]))


def number(text: str) -> float:
    """A ratio.

    Raises:
        ConfigError: it is no number.
    """
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"ratio={text}: write numbers such as 0.08,0.02") from None
