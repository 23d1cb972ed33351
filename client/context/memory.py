"""What a site keeps from one exchange to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from fedtag.client.site.site import Site
from fedtag.client.site.state import Remembered, StateStore, newest_kept
from fedtag.common.errors import DataError
from fedtag.common.wire.records import Instruction


class Memory(Protocol):
    """Of one run. What a part keeps goes under the part's name, so that it never meets what the method keeps."""

    def remembered(self, part: str = "") -> Remembered | None:
        """What was saved before this exchange."""
        ...

    def remember(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any], part: str = "") -> None:
        """Save what is needed in a later exchange, in place of what was saved before."""
        ...

    def derived(self, name: str, build: Callable[[], Remembered]) -> Remembered:
        """What follows from the site's data and the run's settings: built once a run, then kept."""
        ...

    def kept(self, name: str) -> Remembered | None:
        """What was kept for all of the run, whichever exchange is repeated; None if nothing was."""
        ...

    def keep(self, name: str, remembered: Remembered) -> None:
        """Keep something for all of the run, in place of what was kept before."""
        ...

    def document(self, name: str, text: str) -> None:
        """Leave a text for people, where it stays at the site."""
        ...


class RunMemory:
    """On the site's disk, because each message may come to a new process.

    Args:
        site: whose memory it is.
        instruction: says which exchange of which run this is.
    """

    def __init__(self, site: Site, instruction: Instruction) -> None:
        self._folder = site.state
        self._instruction = instruction

    def remembered(self, part: str = "") -> Remembered | None:
        return self._store(part).load_before(self._instruction.step)

    def remember(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any], part: str = "") -> None:
        self._store(part).save(self._instruction.round, self._instruction.step, tensors, values)

    def derived(self, name: str, build: Callable[[], Remembered]) -> Remembered:
        found = self.kept(name)
        if found is None:
            found = build()
            self.keep(name, found)
        return found

    def kept(self, name: str) -> Remembered | None:
        return self._store().find(name)

    def keep(self, name: str, remembered: Remembered) -> None:
        self._store().keep(name, remembered)

    def document(self, name: str, text: str) -> None:
        self._store().document(name, text)

    def _store(self, part: str = "") -> StateStore:
        return StateStore(self._folder, self._instruction.run, part)


class PastMemory:
    """Of a run that is over, for a prediction, which keeps nothing.

    Args:
        state: folder of what the site kept in its runs; None: it is not known what it kept.
    """

    def __init__(self, state: Path | None = None) -> None:
        self._state = state

    def remembered(self, part: str = "") -> Remembered | None:
        return None

    def remember(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any], part: str = "") -> None:
        pass

    def derived(self, name: str, build: Callable[[], Remembered]) -> Remembered:
        """What was kept of the newest run that kept it; without a folder it is built.

        Raises:
            DataError: no run has kept it.
        """
        if self._state is None:
            return build()
        found = newest_kept(self._state, name)
        if found is None:
            raise DataError(
                f"{self._state} keeps no '{name}' of any run: give the workspace that the site had in the run, or none"
            )
        return found

    def kept(self, name: str) -> Remembered | None:
        return None

    def keep(self, name: str, remembered: Remembered) -> None:
        pass

    def document(self, name: str, text: str) -> None:
        pass
