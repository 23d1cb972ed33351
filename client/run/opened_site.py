"""A site outside a run: its data, and a context for predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtag.client.context.clock import Clock
from fedtag.client.context.memory import PastMemory
from fedtag.client.context.progress import Report
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig


@dataclass(frozen=True)
class OpenedSite:
    """What a method predicts with."""

    data: SiteData
    context: RunContext[Any]

    @property
    def site(self) -> Site:
        """Whose they are."""
        return self.data.site


def opened_site(
    site: Site,
    config: RunConfig,
    progress: Report | None = None,
    classes: Sequence[str] | None = None,
    past: Path | None = None,
    on_host: bool = False,
) -> OpenedSite:
    """A site for predictions.

    Args:
        site: whose folder is read.
        config: of the run that released the model.
        progress: told how far long work is.
        classes: those of the model, where the folder may have neither labels nor classes.
        past: folder of what the site kept in its runs, of which a prediction reads what others added.
        on_host: as of `site_data`.
    """
    return OpenedSite(
        site_data(site, config, progress, classes, on_host=on_host),
        RunContext(site, config, PastMemory(past), progress=progress),
    )


def site_data(
    site: Site,
    config: RunConfig,
    progress: Report | None = None,
    classes: Sequence[str] | None = None,
    clock: Clock | None = None,
    on_host: bool = False,
) -> SiteData:
    """A site's data as a run's settings make them; arguments as of `SiteData`.

    Args:
        on_host: whether the graph waits on the host where clients take it in parts, and nothing else reads it whole:
            neither what condenses it nor a part of the run.
    """
    waits = on_host and bool(config.train.batch_size) and not config.condenses and not config.part_specs
    return SiteData(site, config.text, config.train.inductive, classes, progress, clock, waits)
