"""The runs that a worker keeps ready: the few that were used last, each with its settings."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fedtag.client.context.progress import Report
from fedtag.client.data.stamp import Stamp, stamp_of
from fedtag.client.run.agreement import lacking_explained
from fedtag.client.run.recorded import CLOSE
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.audit import site_log
from fedtag.client.site.site import Site, site_from_node_config
from fedtag.client.worker.identity import settings_digest
from fedtag.common.config import RunConfig
from fedtag.common.wire.protocol import installed_release
from fedtag.common.wire.records import Instruction, Reply


@dataclass
class OpenRun:
    """The site in a run, the state of the files that it has read, and whether the run is over."""

    site_run: SiteRun
    stamp: Stamp
    closed: bool = False


class OpenRuns:
    """Runs in memory.

    Args:
        progress: told how far long work is.
        most: how many are kept, >= 1; beyond that the one goes that was not used for longest.
    """

    def __init__(self, progress: Report | None = None, most: int = 2) -> None:
        self.progress = progress
        self.most = most
        self._open: OrderedDict[tuple[str, str], OpenRun] = OrderedDict()
        self._started = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def some_closed(self) -> bool:
        """Whether there is one that is over."""
        return any(one.closed for one in self._open.values())

    def respond(
        self, instruction: Instruction, run_config: Mapping[str, Any], node: Mapping[str, Any]
    ) -> Reply:
        """Carry out an instruction of its run; what fails is kept no longer.

        Raises:
            Whatever `SiteRun.respond` raises, and what is wrong with the settings.
        """
        with lacking_explained(instruction):
            config = RunConfig.from_flat(run_config)
        site = site_from_node_config(node, config.device)
        if not self._started:
            site_log(site).append("started", what="worker", release=installed_release())
            self._started = True
        key = (instruction.run, settings_digest(run_config, node))
        found = self._opened(key, site, config)
        try:
            reply = found.site_run.respond(instruction)
        except BaseException:
            del self._open[key]
            raise
        found.closed = instruction.phase == CLOSE
        return reply

    def admit_kept(
        self,
        instruction: Instruction,
        reply: Reply,
        run_config: Mapping[str, Any],
        node: Mapping[str, Any],
        sent: bool,
    ) -> None:
        """Whether a kept reply may leave now; see `SiteRun.admit_kept`."""
        config = RunConfig.from_flat(run_config)
        SiteRun(site_from_node_config(node, config.device), config).admit_kept(instruction, reply, sent)

    def drop(self, closed_only: bool = False) -> None:
        """Forget the runs, or those that are over, and give their memory back."""
        for key in [key for key, one in self._open.items() if one.closed or not closed_only]:
            del self._open[key]
        free_memory()

    def _opened(self, key: tuple[str, str], site: Site, config: RunConfig) -> OpenRun:
        stamp = stamp_of(site.folder)
        known = self._open.get(key)
        if known is None or known.stamp != stamp:
            self._open.pop(key, None)
            del known
            while len(self._open) >= self.most:
                self._open.popitem(last=False)
            free_memory()
            self._open[key] = OpenRun(SiteRun(site, config, self.progress), stamp)
        self._open.move_to_end(key)
        return self._open[key]


def free_memory() -> None:
    """Give back the memory of what nothing refers to any more, on the GPU as well."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
