"""How long a site keeps what runs leave with it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from fedtag.client.site.audit import site_log
from fedtag.client.site.evidence_folder import EARLIER, OWNER
from fedtag.client.site.site import Site
from fedtag.client.text.cache import TextCache
from fedtag.client.text.node_texts import CACHE_FILE
from fedtag.client.text.store import DAY_SECONDS
from fedtag.client.text.summaries import SummaryCache
from fedtag.client.text.summary_vectors import SUMMARY_CACHE, VECTOR_CACHE

Days = Annotated[int, Field(ge=1, le=36500)] | None


class Retention(BaseModel):
    """The table [retention] of a site's policy: days after which things go; None keeps them.

    Args:
        states: what a run keeps at the site from one exchange to the next, after the last one.
        evidence: of a run, after its last pack.
        caches: encoded texts and summaries, after they were made; what is still needed is made anew.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    states: Days = None
    evidence: Days = None
    caches: Days = None


KEEP = Retention()
"""Of a site without a policy."""


@dataclass(frozen=True)
class Expired:
    """What has been kept for longer than it may.

    Args:
        states: folders of runs.
        evidence: files.
        before: the day, counted from 1970, before which cached entries go; None keeps them.
    """

    states: tuple[Path, ...]
    evidence: tuple[Path, ...]
    before: int | None


def expired(site: Site, retention: Retention, now: datetime, running: str = "") -> Expired:
    """What a site would remove.

    Args:
        site: whose files are looked at.
        retention: how long they may stay.
        now: the time, with its zone.
        running: a run that is under way, whose states stay.
    """
    states = (path for path in site.state.glob("*") if path.is_dir() and path.name != running)
    old_states = _older([(path, list(path.rglob("*"))) for path in states], retention.states, now)
    old_evidence = _older(_evidence_by_run(site.evidence), retention.evidence, now)
    files = tuple(file for one in old_evidence for file in _own_files(one))
    day = None if retention.caches is None else int(now.timestamp() // DAY_SECONDS) - retention.caches
    return Expired(tuple(old_states), files, day)


def sweep(site: Site, retention: Retention, now: datetime | None = None, running: str = "") -> Expired:
    """Remove what has expired, and say so in the site's log; arguments as of `expired`."""
    found = expired(site, retention, now or datetime.now(UTC), running)
    for folder in found.states:
        shutil.rmtree(folder)
    for file in found.evidence:
        file.unlink(missing_ok=True)
    entries = 0 if found.before is None else sum(cache.store.expire(found.before) for cache in caches(site))
    if found.states or found.evidence or entries:
        site_log(site).append("swept", states=len(found.states), evidence=len(found.evidence), caches=entries)
    return found


def caches(site: Site) -> tuple[TextCache, SummaryCache, TextCache]:
    """Of texts, of summaries, and of vectors of summaries."""
    folder = site.cache
    return (
        TextCache(folder / CACHE_FILE),
        SummaryCache(folder / SUMMARY_CACHE),
        TextCache(folder / VECTOR_CACHE),
    )


def _older(groups: list[tuple[Path, list[Path]]], days: int | None, now: datetime) -> Iterator[Path]:
    """Folders whose newest file is older."""
    if days is None:
        return
    limit = (now - timedelta(days=days)).timestamp()
    for folder, files in groups:
        times = [file.stat().st_mtime for file in files if file.is_file()]
        if times and max(times) < limit:
            yield folder


def _evidence_by_run(folder: Path) -> list[tuple[Path, list[Path]]]:
    earlier = [path for path in (folder / EARLIER).glob("*") if path.is_dir()]
    return [(one, _own_files(one)) for one in (folder, *earlier)]


def _own_files(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in (EARLIER, OWNER)
    ]
