"""What is installed, as tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fedtag.runs.catalogue import Description, Entry


def entries_view(entries: Sequence[Entry]) -> RenderableType:
    """A table for each kind."""
    kinds = dict.fromkeys(entry.kind for entry in entries)
    return Group(
        *(
            _table(
                f"{kind}s",
                ("name", "what it is", "traits", "source"),
                (
                    (entry.name, entry.title, ", ".join(entry.traits), entry.source)
                    for entry in entries
                    if entry.kind == kind
                ),
            )
            for kind in kinds
        )
    )


def description_view(found: Description) -> RenderableType:
    """One thing with its settings, what it gives to shared ones, what is sent for it, and what it does not go with."""
    entry = found.entry
    parts: list[RenderableType] = [
        Text(f"{entry.name}: {entry.title}"),
        Text(
            "; ".join(filter(None, (entry.kind, *entry.traits, entry.source, _package(entry)))), style="dim"
        ),
    ]
    parts += [Text(fault, style="red") for fault in found.faults]
    tables = (
        (
            "settings",
            ("setting", "default", "meaning"),
            [(k, _value(d), m) for k, (d, m) in found.settings.items()],
        ),
        ("shared settings", ("setting", "default"), [(k, _value(v)) for k, v in found.defaults.items()]),
        (
            "records",
            ("record", "form", "protected", "what it reveals"),
            [(one.name, one.form, one.protected, one.reveals) for one in found.records],
        ),
        ("goes not with", ("",), [(what,) for what in found.excluded]),
    )
    parts += [_table(title, columns, rows) for title, columns, rows in tables if rows]
    return Group(*parts)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for place, column in enumerate(columns):
        table.add_column(column, no_wrap=place == 0 and len(columns) > 1, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _package(entry: Entry) -> str:
    return " ".join(filter(None, ("from", entry.origin.package, entry.origin.version)))


def _value(value: object) -> str:
    return '""' if value == "" else str(value).lower() if isinstance(value, bool) else str(value)
