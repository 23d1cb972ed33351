"""The progress of a run in Python: a bar a run in terminals and notebooks, nothing elsewhere."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fedtag.common.logs import LOGGER
from fedtag.runs.progress import Progress, Work
from fedtag.server.state.progress import describe
from fedtag.server.tracking.rows import RoundRow


@contextmanager
def bar(wanted: bool, unit: str, total: int | None = None) -> Iterator[Any]:
    """A bar while this lasts, where a person would see one."""
    with warnings.catch_warnings():
        # Without widgets, a notebook gets a bar of text.
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm
    seen = sys.stderr.isatty() or in_notebook()
    with tqdm(total=total, disable=not (wanted and seen), unit=unit, desc="fedtag") as drawn:
        yield drawn


def in_notebook() -> bool:
    """Whether this code runs in a notebook's kernel; a process that has loaded one's library may be anything."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextmanager
def shown(wanted: bool) -> Iterator[Progress]:
    """The progress of a run while this lasts."""
    with bar(wanted, "round") as drawn:
        yield Bar(drawn)


class Bar:
    """One bar for the rounds; what takes long before and beside them stands at its end."""

    def __init__(self, drawn: Any) -> None:
        self.bar = drawn
        self.rounds = self

    def begin(self, rounds: int, done: int) -> None:
        self.bar.reset(rounds)
        self.bar.update(done)

    def advance(self, row: RoundRow) -> None:
        self.bar.update(row.round - self.bar.n)

    def scored(self, row: RoundRow) -> None:
        self.bar.set_postfix_str(describe(row))

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None:
        LOGGER.info("%s", text, extra=told)

    def work(self, site: str) -> Work:
        return lambda what, done, total: self.bar.set_postfix_str(f"{site}: {what}, {done} of {total}")

    def stage(self, text: str) -> None:
        self.bar.set_postfix_str(text)
