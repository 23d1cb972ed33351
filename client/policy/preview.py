"""What a run that waits for approval would do to a site, in words that need no knowledge of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
import torch

from fedtag.client.data.metadata import META_FILES, read_metadata
from fedtag.client.data.problems import Problems
from fedtag.client.policy.checks import broken_by_cost, broken_by_run
from fedtag.client.policy.leaving import leaving
from fedtag.client.policy.requests import Request
from fedtag.client.policy.rules import Policy
from fedtag.client.policy.spending import Spent, noise_cost, spent_by_run
from fedtag.common.config import RunConfig
from fedtag.common.config.catalogue import run_defaults
from fedtag.common.config.extension import depending_on_rounds
from fedtag.common.errors import FedtagError
from fedtag.common.models.assembly import backbone
from fedtag.common.wording.counts import plural
from fedtag.common.wording.visible import visible_line

BUNDLED_DIMENSION = 384
"""Of the bundled encoder."""
PLAIN_BYTES, MASKED_BYTES = 4, 8
MOST_SHOWN = 200
"""Characters of one value."""


def preview(request: Request, policy: Policy) -> list[str]:
    """A run in sentences without full stops, a line each, none of which the server can write itself.

    Args:
        request: what it asks.
        policy: of the site, with a folder.
    """
    config = request.config
    return [
        f"Run {shown(request.run)} asks {shown(request.site)} since {shown(request.came)}",
        *_what(config),
        "What would leave",
        *(f"  {line}" for line in _records(request)),
        "How much",
        *(f"  {line}" for line in _sizes(config, Path(request.data))),
        "What it costs of a privacy budget",
        *(f"  {line}" for line in _cost(config, policy, request.run)),
        "What the policy says",
        *(f"  {line}" for line in _rules(config, policy, request.run)),
        f"Settings and records together have the digest {request.digest[:16]}; an approval is for these and no others",
    ]


def waiting_line(request: Request) -> str:
    """A run that waits, in the list of those that do."""
    return "  ".join(map(shown, (request.run, request.site, request.settings["method"], request.came)))


def shown(value: object) -> str:
    """A value that others chose, on the line that it is given, and no longer than anybody reads."""
    return visible_line(str(value))[:MOST_SHOWN]


def parameters(config: RunConfig, data: Path) -> int | None:
    """The number of parameters of the run's backbone; None where the site's folder does not tell it.

    Reads the description of the folder and the header of features.npy, no node.
    """
    if not config.spec.traits.backbone:
        return None
    features, own = (
        data / "features.npy",
        next((data / name for name in META_FILES if (data / name).is_file()), None),
    )
    if own is None or not (features.is_file() or config.text.encoder == "bundled"):
        return None
    try:
        meta = read_metadata(own, Problems())
        dimension = np.load(features, mmap_mode="r").shape[1] if features.is_file() else BUNDLED_DIMENSION
        if meta is None:
            return None
        with torch.device("meta"):
            model = backbone(
                config.model, dimension, len(meta.classes), config.tables.get(config.model.backbone)
            )
        return sum(value.numel() for value in model.state_dict().values())
    except (FedtagError, OSError, ValueError, IndexError, NotImplementedError):
        return None


def _what(config: RunConfig) -> Iterator[str]:
    parts = f" with {', '.join(map(shown, config.part_names))}" if config.part_names else ""
    yield (
        f"Method {shown(config.method)}{parts} on backbone {shown(config.model.backbone)}: "
        f"{plural(config.rounds, 'round')}, {plural(config.clients, 'client')} as the server says"
    )
    if config.parent.run:
        yield (
            f"It extends run {config.parent.run}, which has done {plural(config.parent.rounds, 'round')}, by "
            f"{config.own_rounds} and goes on with what the site kept of it; all else is as it was there"
        )
        yield from map(shown, depending_on_rounds(config))
    usual = {**run_defaults(config.specs), **RunConfig.from_flat({"method": config.method}).decisive()}
    changed = [f"{key} = {shown(value)}" for key, value in config.decisive().items() if value != usual[key]]
    yield f"Settings that are not the method's own: {', '.join(changed) or 'none'}"


def _records(request: Request) -> Iterator[str]:
    for how, records in groupby(request.records, key=lambda one: one[1]):
        for name, _, reveals in records:
            yield f"{shown(how)}: {shown(name)} ({shown(reveals)})"


def _sizes(config: RunConfig, data: Path) -> Iterator[str]:
    count, most = parameters(config, data), config.exchange.max_message_mb
    each = MASKED_BYTES if config.privacy.secure_aggregation else PLAIN_BYTES
    if count is not None:
        size = count * each
        yield (
            f"about {_bytes(size)} an update ({count:,} parameters of the backbone, {each} bytes each), "
            f"{_bytes(size * config.own_rounds)} in {plural(config.own_rounds, 'round')}; models of the method's or a "
            "part's own and scores come beside them"
        )
    yield f"at most {most:g} MiB a message (exchange.max-message-mb), which the server sets"


def _cost(config: RunConfig, policy: Policy, run: str) -> Iterator[str]:
    assert policy.place is not None
    planned, budget = noise_cost(config, config.own_rounds, 0), policy.budget
    spent = spent_by_run(policy.place)
    if planned == math.inf:
        yield "the run adds no noise to updates (privacy.dp.mode): no ε bounds what it tells"
    else:
        yield (
            f"ε = {Spent(noise=planned).epsilon(budget.delta):.3g} at δ = {budget.delta:g} for {config.own_rounds} "
            f"sums with noise {config.privacy.dp.noise:g}, one a round; a method or part that asks for more pays for "
            "each"
        )
    if budget.epsilon is None:
        yield "the policy has no budget.epsilon"
        return
    before = sum((one for name, one in spent.items() if name != run), Spent())
    yield f"spent by earlier runs: ε = {before.epsilon(budget.delta):.3g} of {budget.epsilon:g}"
    if planned != math.inf:
        after = Spent(noise=before.noise + planned).epsilon(budget.delta)
        yield f"with this run: ε = {after:.3g} of {budget.epsilon:g}"


def _rules(config: RunConfig, policy: Policy, run: str) -> Iterator[str]:
    assert policy.place is not None
    planned, spent = noise_cost(config, config.own_rounds, 0), spent_by_run(policy.place)
    broken = [*broken_by_run(policy, config, leaving(config)), *broken_by_cost(policy, planned, spent, run)]
    yield from (f"rule '{one.rule}' refuses it: {visible_line(one.why)}" for one in broken)
    if not broken:
        yield "no rule refuses it; bytes, hours and members of sums are checked at every message"


def _bytes(size: float) -> str:
    return f"{size / 2**20:.1f} MiB" if size >= 2**20 else f"{size / 2**10:.1f} KiB"
