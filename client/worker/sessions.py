"""The sessions that a worker keeps: the few that were used last, one for each run and its settings."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fedtag.client.context.session import Session
from fedtag.client.site.site import Site, site_from_node_config
from fedtag.client.worker.identity import settings_digest
from fedtag.common.config import RunConfig
from fedtag.common.wire.records import Instruction, Reply

CLOSING = "close"
"""The phase of a run's last exchange."""

Stamp = tuple[tuple[str, int, int], ...]


@dataclass
class Kept:
    """A session, the state of the files that it has read, and whether its run is over."""

    session: Session
    stamp: Stamp
    closed: bool = False


class Sessions:
    """Sessions in memory.

    Args:
        most: how many are kept, >= 1; beyond that the one goes that was not used for longest.
    """

    def __init__(self, most: int = 2) -> None:
        self.most = most
        self._kept: OrderedDict[tuple[str, str], Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def some_closed(self) -> bool:
        """Whether there is one whose run is over."""
        return any(kept.closed for kept in self._kept.values())

    def respond(
        self, instruction: Instruction, run_config: Mapping[str, Any], node: Mapping[str, Any]
    ) -> Reply:
        """Carry out an instruction in the session of its run; a session that fails is kept no longer.

        Raises:
            Whatever `Session.respond` raises, and what is wrong with the settings.
        """
        config = RunConfig.from_flat(run_config)
        site = site_from_node_config(node, config.device)
        key = (instruction.run, settings_digest(run_config, node))
        kept = self._session(key, site, config)
        try:
            reply = kept.session.respond(instruction)
        except BaseException:
            del self._kept[key]
            raise
        kept.closed = instruction.phase == CLOSING
        return reply

    def drop(self, closed_only: bool = False) -> None:
        """Forget the sessions, or those whose run is over, and give their memory back."""
        for key in [key for key, kept in self._kept.items() if kept.closed or not closed_only]:
            del self._kept[key]
        free_memory()

    def _session(self, key: tuple[str, str], site: Site, config: RunConfig) -> Kept:
        stamp = stamp_of(site.folder)
        known = self._kept.get(key)
        if known is None or known.stamp != stamp:
            self._kept.pop(key, None)
            del known
            while len(self._kept) >= self.most:
                self._kept.popitem(last=False)
            free_memory()
            self._kept[key] = Kept(Session(site, config), stamp)
        self._kept.move_to_end(key)
        return self._kept[key]


def stamp_of(folder: Path) -> Stamp:
    """Name, size and time of each file directly in a data folder: a session outlives no change of them."""
    files = [(path.name, path.stat()) for path in folder.iterdir() if path.is_file()]
    return tuple(sorted((name, found.st_size, found.st_mtime_ns) for name, found in files))


def free_memory() -> None:
    """Give back the memory of what nothing refers to any more, on the GPU as well."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
