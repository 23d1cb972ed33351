"""The gate of a site: what an instruction must pass before anything is read, and a reply before it leaves."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from fedtag.client.policy.checks import (
    Broken,
    broken_by_cost,
    broken_by_moment,
    broken_by_reply,
    broken_by_run,
    broken_by_sum,
)
from fedtag.client.policy.leaving import Leaving, leaving
from fedtag.client.policy.requests import Requests, request_of
from fedtag.client.policy.rules import Policy, read_policy
from fedtag.client.policy.spending import (
    LOCK,
    LOCK_SECONDS,
    Spent,
    cost_of,
    noise_cost,
    spent_by_run,
    write_spent,
)
from fedtag.client.site.audit import site_log
from fedtag.client.site.retention import KEEP, Retention
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.errors import ApprovalError, PolicyError
from fedtag.common.secure.lock import locked
from fedtag.common.wire.records import Instruction, Reply

LOGGER = logging.getLogger("fedtag")


class Gate:
    """A site's policy around one run.

    The file is read again for every instruction, so that a stricter rule holds from the next one on.

    Args:
        site: with or without a policy.
        config: of the run.
    """

    def __init__(self, site: Site, config: RunConfig) -> None:
        self.site = site
        self.config = config

    def admit(self, instruction: Instruction) -> None:
        """Let an instruction in, before anything of the site's data is read.

        Raises:
            PolicyError: naming the rule that it breaks.
            ApprovalError: nobody at the site has approved the run yet.
            ConfigError: the policy is none.
        """
        policy = self._policy()
        if policy is None:
            return
        for broken in self._broken(policy, instruction):
            refuse(self.site, instruction.run, broken)
        if policy.approval != "off" and policy.place is not None:
            self._approved(policy, policy.place, instruction.run)

    def let_out(self, reply: Reply, instruction: Instruction, again: bool = False) -> None:
        """Let a reply out: what it costs is on disk when this returns.

        Args:
            reply: that is to leave.
            instruction: that it answers.
            again: whether it left before; the same bytes tell nothing more, and cost bytes alone.

        Raises:
            PolicyError: naming the rule that it breaks; nothing is counted then.
        """
        policy = self._policy()
        if policy is None:
            return
        this = cost_of(reply, instruction, self.config)
        this = replace(this, updates=0, noise=0.0) if again else this
        with kept(policy.place) as spent:
            run, total = spent.get(reply.run, Spent()), sum(spent.values(), Spent())
            for broken in broken_by_reply(policy, reply.content, this, run, total):
                refuse(self.site, reply.run, broken)
            spent[reply.run] = run + this
        if policy.keeps:
            counted(self.site, reply.run, this, total + this)

    @property
    def retention(self) -> Retention:
        """How long the site keeps what earlier runs left."""
        policy = self._policy()
        return KEEP if policy is None else policy.retention

    def _policy(self) -> Policy | None:
        return None if self.site.policy is None else read_policy(self.site.policy)

    @cached_property
    def _leaving(self) -> tuple[Leaving, ...]:
        return leaving(self.config)

    def _broken(self, policy: Policy, instruction: Instruction) -> Iterator[Broken]:
        yield from broken_by_run(policy, self.config, self._leaving)
        yield from broken_by_sum(policy, instruction.content, self.site.name)
        yield from broken_by_moment(policy, datetime.now(UTC))
        if policy.place is not None:
            planned = noise_cost(self.config, self.config.own_rounds, 0)
            yield from broken_by_cost(policy, planned, spent_by_run(policy.place), instruction.run)

    def _approved(self, policy: Policy, place: Path, run: str) -> None:
        request = request_of(run, self.config, self._leaving, self.site)
        requests = Requests(place)
        if requests.is_approved(request, policy.approval == "every"):
            return
        other = requests.wait(request)
        if other is not None:
            why = "this run asked for something else before: a run keeps what it asks for, start a new one"
            refuse(self.site, run, Broken("approval", why))
        LOGGER.warning(
            "run %s waits: read fedtag site preview %s --policy %s, then the same with approve",
            run,
            run,
            policy.path,
        )
        raise ApprovalError(f"waiting for approval at the site: fedtag site approve {run}")


@contextmanager
def kept(place: Path | None) -> Iterator[dict[str, Spent]]:
    """What left by run, which the block may change; it is written when the block ends, and not if it fails."""
    if place is None:
        yield {}
        return
    with locked(place / LOCK, LOCK_SECONDS):
        spent = spent_by_run(place)
        yield spent
        write_spent(place, spent)


def refuse(site: Site, run: str, broken: Broken) -> NoReturn:
    """Refuse what breaks a rule, whose name the server is told."""
    raise PolicyError(
        f"rule '{broken.rule}' of the policy of {site.name} refuses run {run[:64]}: {broken.why}", broken.rule
    )


def counted(site: Site, run: str, cost: Spent, total: Spent) -> None:
    """Note in the audit log what leaves of the budget over all runs, in bytes."""
    site_log(site).append("budget", run=run, rule="bytes", spent=float(cost.size), total=float(total.size))
