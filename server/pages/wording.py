"""How the report writes numbers, durations and names of scores."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import relpath
from pathlib import Path
from urllib.parse import quote

from fedtag.common.wording.scoring import SCORING

SUBSETS = {"val": "validation", "test": "test"}
UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def percent(value: float | None) -> str:
    """A fraction as a percentage; a dash where there is none."""
    return "–" if value is None else f"{100 * value:.2f}%"


def score_title(name: str) -> str:
    """The heading of a score such as test_accuracy_graph: its way of scoring, then the nodes."""
    subset, _, way = name.partition("_accuracy_")
    return f"{way}, {SUBSETS.get(subset, subset)}".capitalize() if way else name.replace("_", " ")


def ways(names: Sequence[str]) -> list[str]:
    """What each way of scoring among the names of scores means, as `name: meaning`."""
    found = {name.rpartition("_accuracy_")[2] for name in names}
    return [f"{way}: {meaning}" for way, meaning in SCORING.items() if way in found]


def fixed(value: float | None, digits: int = 3) -> str:
    """A number with so many decimals; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


def date(moment: str) -> str:
    """The day and minute of a moment such as 2026-03-01T09:30:12Z."""
    return f"{moment[:16].replace('T', ' ')} UTC"


def from_folder(page: Path, folder: Path) -> str:
    """The address of a file as a page in a folder links it."""
    return quote(Path(relpath(page, folder)).as_posix())


def unparted(value: str) -> str:
    """A cell such as 81.00 ± 1.41 or +1.20 [−0.30, +2.70], which ends a line before its ± or interval alone."""
    return value.replace("± ", "±\N{NO-BREAK SPACE}").replace(", ", ",\N{NO-BREAK SPACE}")


def count(value: float | None) -> str:
    """A whole number in groups of thousands, another one as short as it goes; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def size(value: float | None) -> str:
    """Bytes in decimal units; a dash where there is none."""
    if value is None:
        return "–"
    unit, scale = unit_of(value)
    return f"{value:g} B" if scale == 1.0 else f"{value / scale:.2f} {unit}"


def unit_of(largest: float) -> tuple[str, float]:
    """The decimal unit that suits a number of bytes, and how many bytes it is."""
    return next(((unit, scale) for unit, scale in UNITS if largest >= scale), ("B", 1.0))


def duration(value: float | None) -> str:
    """Seconds, minutes or hours; a dash where there is none."""
    if value is None:
        return "–"
    if value < 120:
        return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"
    minutes, seconds = divmod(round(value), 60)
    return f"{minutes} min {seconds:02d} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def spans(numbers: Sequence[int]) -> str:
    """Numbers with runs of neighbours joined: 1–3, 7."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in parts)
