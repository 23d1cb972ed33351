"""The settings of a run on the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from fedtag.common.config import default_settings, setting_descriptions
from fedtag.deploy.terminal.console import results


def show_settings() -> None:
    """Every key with its default and meaning."""
    meanings = setting_descriptions()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("setting", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("meaning", overflow="fold")
    for key, value in default_settings().items():
        shown = '""' if value == "" else str(value).lower() if isinstance(value, bool) else str(value)
        table.add_row(Text(key), Text(shown), Text(meanings[key]))
    results().print(table)
