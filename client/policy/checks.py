"""Whether a run, an instruction of it, or a reply is within a policy: the first rule that is broken, in a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fedtag.client.policy.leaving import HARMLESS, Leaving
from fedtag.client.policy.rules import Bound, Policy, allowed_at
from fedtag.client.policy.spending import Spent
from fedtag.common.config import RunConfig
from fedtag.common.secure.groups import parsed_groups
from fedtag.common.secure.phases import SIGN, UNMASK
from fedtag.common.wire.protocol import PROTOCOL
from fedtag.common.wire.records import Content

MIB = 2**20


@dataclass(frozen=True)
class Broken:
    """A rule that is broken.

    Args:
        rule: its key in the policy.
        why: a sentence without a full stop, for people at the site and at the server.
    """

    rule: str
    why: str


def broken_by_run(policy: Policy, config: RunConfig, leaves: Sequence[Leaving]) -> Iterator[Broken]:
    """Rules that a run breaks by its settings, before anything is known of data.

    Args:
        policy: of the site.
        config: of the run.
        leaves: what may leave in it.
    """
    if policy.protocols is not None and PROTOCOL not in policy.protocols:
        yield Broken("protocols", f"protocol {PROTOCOL} is not among {_listed(policy.protocols)}")
    if policy.methods is not None and config.method not in policy.methods:
        yield Broken("methods", f"method {config.method} is not among {_listed(policy.methods)}")
    for part in config.part_names:
        if policy.parts is not None and part not in policy.parts:
            yield Broken("parts", f"part {part} is not among {_listed(policy.parts)}")
    if policy.participants is not None and config.clients < policy.participants:
        yield Broken(
            "participants", f"clients = {config.clients}, at least {policy.participants} must take part"
        )
    flat = config.to_flat()
    for key, bound in policy.settings.items():
        if key in flat and (rule := _outside(flat[key], bound)):
            yield Broken(f"settings.{key}", f"{key} = {_shown(flat[key])}, it must be {rule}")
    for one in leaves:
        if policy.records is not None and one.kind not in policy.records:
            yield Broken(
                "records",
                f"{one.record.name} would leave {one.how}, and '{one.kind}' is not among what may leave",
            )


def broken_by_cost(policy: Policy, planned: float, spent: Mapping[str, Spent], run: str) -> Iterator[Broken]:
    """Budgets in which a run has no place.

    Args:
        policy: of the site.
        planned: the least noise cost of the whole run, as `Spent.noise`.
        spent: what left, by run.
        run: the one that is judged; what it has spent already is part of what it costs.
    """
    others = sum(one.noise for name, one in spent.items() if name != run)
    own = spent.get(run, Spent())
    total, budget = sum(spent.values(), Spent()), policy.budget
    if budget.epsilon is not None:
        if planned == math.inf:
            yield Broken(
                "budget.epsilon", "this run adds no noise that bounds what it tells: set privacy.dp.mode"
            )
        elif Spent(noise=others + max(planned, own.noise)).epsilon(budget.delta) > budget.epsilon:
            yield Broken("budget.epsilon", "what is left of the budget is less than all of this run costs")
    if run in spent:
        return
    if budget.updates is not None and total.updates >= budget.updates:
        yield Broken("budget.updates", "all of the budget is spent")
    if budget.mb is not None and total.size >= budget.mb * MIB:
        yield Broken("budget.mb", "all of the budget is spent")


def broken_by_moment(policy: Policy, moment: datetime) -> Iterator[Broken]:
    """Whether no work may begin now."""
    hours = policy.hours
    if hours is not None and not allowed_at(hours, moment):
        yield Broken("hours", f"work begins within {_listed(hours.spans)} ({hours.timezone}) only")


def broken_by_sum(policy: Policy, asked: Content, name: str) -> Iterator[Broken]:
    """Whether a masked sum that an instruction asks for, or asks to open, is over too few.

    Args:
        policy: of the site.
        asked: content of the instruction; what has another form is refused by whoever carries it out.
        name: of the site.
    """
    if policy.participants is None:
        return
    for members in _members(asked.values, name):
        if len(members) < policy.participants:
            yield Broken(
                "participants", f"a sum over {len(members)}, at least {policy.participants} must be in it"
            )


def broken_by_reply(
    policy: Policy, content: Content, this: Spent, run: Spent, all_runs: Spent
) -> Iterator[Broken]:
    """Rules that are broken if a reply leaves.

    Args:
        policy: of the site.
        content: of the reply.
        this: what the reply itself costs.
        run: what this run spent before.
        all_runs: what all runs spent before, this one included.
    """
    kinds = {*content.kinds, *content.values, *(letter.kind for letter in content.letters)} - HARMLESS
    if policy.records is not None and (more := sorted(kinds.difference(policy.records))):
        yield Broken("records", f"'{more[0]}' is not among what may leave")
    limits, budget, after = policy.limits, policy.budget, all_runs + this
    if limits.exchange_mb is not None and this.size > limits.exchange_mb * MIB:
        yield Broken(
            "limits.exchange-mb",
            f"a reply of {this.size / MIB:.3g} MiB is larger than {limits.exchange_mb:g}",
        )
    if limits.run_mb is not None and run.size + this.size > limits.run_mb * MIB:
        yield Broken(
            "limits.run-mb", f"with this reply more than {limits.run_mb:g} MiB of the run would have left"
        )
    if budget.mb is not None and after.size > budget.mb * MIB:
        yield Broken("budget.mb", "all of the budget is spent")
    if budget.updates is not None and this.updates and after.updates > budget.updates:
        yield Broken("budget.updates", "all of the budget is spent")
    if budget.epsilon is not None and this.noise and after.epsilon(budget.delta) > budget.epsilon:
        yield Broken("budget.epsilon", "all of the budget is spent")


def _members(values: Mapping[str, Any], name: str) -> Iterator[Sequence[Any]]:
    """Those over whom a sum would be, or be opened: the site's group where there are groups."""
    request = values.get("sum")
    if isinstance(request, dict) and isinstance(request.get("weights"), dict):
        groups = [group for group in parsed_groups(request.get("groups")) if name in group]
        yield from groups or [tuple(request["weights"])]
    for told in (values.get(SIGN), values.get(UNMASK)):
        if isinstance(told, dict) and isinstance(told.get("survivors"), list):
            opened = told.get("opened")
            groups = [group for group in opened if name in group] if isinstance(opened, list) else []
            yield from groups or [told["survivors"]]


def _outside(value: Any, bound: Bound) -> str:
    """What a value would have to be, if it is not; empty if it is."""
    if bound.one_of is not None and value not in bound.one_of:
        return f"one of {_listed(bound.one_of)}"
    if bound.min is not None and value < bound.min:
        return f"at least {bound.min:g}"
    if bound.max is not None and value > bound.max:
        return f"at most {bound.max:g}"
    return ""


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(_shown, values)) or "none"


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
