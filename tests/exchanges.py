"""An exchange of a run as a method sees it, without a server."""

from __future__ import annotations

from typing import Any

from fedtag.client.context.memory import RunMemory
from fedtag.client.context.run_context import RunContext
from fedtag.client.run.site_run import SiteRun
from fedtag.common.wire.records import Content, Instruction


def context_of(
    site: SiteRun, number: int = 1, phase: str = "train", content: Content | None = None, run: str = "run"
) -> RunContext[Any]:
    """The context of one exchange, whose number is that of the round and of the step."""
    instruction = Instruction(run, number, number, phase, content or Content())
    return RunContext(site.site, site.config, RunMemory(site.site, instruction), instruction)
