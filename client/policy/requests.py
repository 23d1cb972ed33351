"""Runs that came to a site whose policy wants them approved by hand: what they ask, and what was approved."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedtag.client.policy.leaving import Leaving
from fedtag.client.policy.rules import Policy
from fedtag.client.policy.spending import LOCK, LOCK_SECONDS
from fedtag.client.site.audit import site_log
from fedtag.client.site.site import Site
from fedtag.client.site.state import check_run
from fedtag.client.site.whole_file import write_whole
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError, RunError
from fedtag.common.secure.lock import locked

APPROVED = "approved.json"
WAITING = "waiting"
SHORTEST = 6
"""Characters of an identifier by which a run may be called."""
MOST_WAITING = 100
"""Whoever may start runs could otherwise fill the disk."""


@dataclass(frozen=True)
class Request:
    """What a run asks of a site.

    Args:
        run: its identifier, which the server chose.
        digest: SHA-256 of settings and records.
        settings: that decide results, by dotted key.
        records: each kind that may leave, how, and what it reveals.
        site: its name.
        data: its folder.
        workspace: of the site.
        came: when, in ISO 8601.
    """

    run: str
    digest: str
    settings: Mapping[str, Any]
    records: tuple[tuple[str, str, str], ...]
    site: str
    data: str
    workspace: str
    came: str

    @property
    def place(self) -> Site:
        """The site that was asked."""
        workspace = Path(self.workspace)
        return Site(self.site, Path(self.data), workspace, workspace / "cache")

    @property
    def config(self) -> RunConfig:
        """The settings, resolved."""
        return RunConfig.from_flat(self.settings)


def request_of(run: str, config: RunConfig, leaves: tuple[Leaving, ...], site: Site) -> Request:
    """What a run asks, as it is shown to whoever approves it.

    Raises:
        RunError: the run's identifier can be no file's name.
    """
    check_run(run)
    settings = config.decisive()
    records = tuple((one.record.name, one.how, one.record.reveals) for one in leaves)
    digest = hashlib.sha256(json.dumps([settings, records], sort_keys=True).encode()).hexdigest()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Request(run, digest, settings, records, site.name, str(site.folder), str(site.workspace), now)


class Requests:
    """The requests in a policy's folder.

    A run that waits is written once: what somebody reads before an approval is what is approved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def waiting(self) -> list[Request]:
        """Those that nobody has approved yet, the oldest first."""
        return sorted(self._waiting(), key=lambda one: (one.came, one.run))

    def find(self, run: str) -> Request:
        """The one of a run that waits, by its identifier or the beginning of it that no other has.

        Raises:
            ConfigError: none does under this identifier, or several do; those that do are named.
        """
        found = [
            one
            for one in self.waiting()
            if one.run == run or (len(run) >= SHORTEST and one.run.startswith(run))
        ]
        exact = [one for one in found if one.run == run] or found
        if len(exact) == 1:
            return exact[0]
        known = ", ".join(one.run for one in self.waiting()) or "none"
        raise ConfigError(f"run {run!r} does not wait for approval here; waiting: {known}")

    def is_approved(self, request: Request, every: bool) -> bool:
        """Whether somebody has approved what is asked.

        Args:
            request: of a run.
            every: whether only this run counts, or any with the same settings and records.
        """
        return any(
            entry["digest"] == request.digest and (not every or entry["run"] == request.run)
            for entry in self._approved()
        )

    def wait(self, request: Request) -> Request | None:
        """Keep a request that nobody has approved; the one of the same run that was kept before, if it is another.

        Raises:
            RunError: too many wait already.
        """
        with locked(self.folder / LOCK, LOCK_SECONDS):
            waiting = {one.run: one for one in self._waiting()}
            if request.run in waiting:
                before = waiting[request.run]
                return before if before.digest != request.digest else None
            if len(waiting) >= MOST_WAITING:
                raise RunError(
                    f"{len(waiting)} runs wait for approval: approve or delete some in {self._place}"
                )
            write_whole(self._file(request.run), json.dumps(asdict(request), indent=1).encode())
            return None

    def approve(self, run: str) -> Request:
        """Approve the run that waits under this identifier; what it asked for is what is approved.

        Raises:
            ConfigError: none does, or the site could not read what this user writes.
        """
        with locked(self.folder / LOCK, LOCK_SECONDS):
            request = self.find(run)
            _check_owner(request, self.folder)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            entry = {"run": request.run, "digest": request.digest, "approved": now}
            write_whole(self.folder / APPROVED, json.dumps([*self._approved(), entry], indent=1).encode())
            self._file(request.run).unlink(missing_ok=True)
        site_log(request.place).append("approved", run=request.run, settings=request.digest)
        return request

    @property
    def _place(self) -> Path:
        return self.folder / WAITING

    def _file(self, run: str) -> Path:
        return self._place / f"{run}.json"

    def _waiting(self) -> Iterator[Request]:
        for path in self._place.glob("*.json"):
            entry = _read(path)
            try:
                yield Request(**{**entry, "records": tuple(tuple(one) for one in entry["records"])})
            except (TypeError, KeyError) as error:
                raise RunError(f"{path} is damaged ({error}): delete it") from error

    def _approved(self) -> list[Mapping[str, Any]]:
        path = self.folder / APPROVED
        found = _read(path) if path.is_file() else []
        if not isinstance(found, list) or not all({"run", "digest"} <= entry.keys() for entry in found):
            raise RunError(f"{path} is damaged: restore it, or delete it and approve runs anew")
        return found


def _check_owner(request: Request, folder: Path) -> None:
    """Refuse a user whose files, private to their owner, would keep the site from its own folders."""
    for place in (folder, Path(request.workspace)):
        if place.exists() and (owner := place.stat().st_uid) != os.geteuid():
            try:
                name = pwd.getpwuid(owner).pw_name
            except KeyError:
                name = f"'#{owner}'"
            raise ConfigError(
                f"{place} belongs to {name}, who could not read this approval: sudo -u {name} fedtag site approve "
                f"{request.run} --policy POLICY"
            )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged ({error}): delete it") from error


def kept_requests(policy: Policy) -> Requests:
    """The requests in the folder of a policy.

    Raises:
        ConfigError: the policy asks for no approval.
    """
    if policy.place is None or policy.approval == "off":
        raise ConfigError(
            f"policy {policy.path}: no run waits where nobody approves any: set approval and folder"
        )
    return Requests(policy.place)
