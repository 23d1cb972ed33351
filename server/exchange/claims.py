"""What clients say of their numbers of nodes: once, and none so much that what is pooled is its word alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtag.common.errors import WireError
from fedtag.common.numerics.shares import BALANCE, outweighing
from fedtag.common.secure.names import COMMITTED

SPLITS = {"train_nodes": "training", "val_nodes": "validation", "test_nodes": "test"}
Stated = Mapping[str, Mapping[str, Any]]
"""By client: its counts of nodes, or under hidden statistics what it committed to."""


def check_claims(client: str, values: Mapping[str, Any], stated: Stated) -> None:
    """Refuse counts of nodes that are others than a client stated first.

    Of its validation nodes it may let fewer judge.

    Raises:
        WireError: naming the count, as it was and as it is.
    """
    before = stated.get(client)
    if before is None:
        return
    for name, count in claimed(values).items():
        if name in before and (count != before[name] and not (name == "val_nodes" and count < before[name])):
            raise WireError(
                f"it stated {name.replace('_', ' ')} = {before[name]} and states {count} now: what a client counts is "
                "fixed for a run, start a new one with other data"
            )


def claimed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of nodes, or what is committed to of them, in the values of a reply."""
    introduction = values.get("introduction")
    committed = introduction.get(COMMITTED) if isinstance(introduction, Mapping) else None
    return {**(values.get("sizes") or {}), **({} if committed is None else {COMMITTED: committed})}


def overclaiming(stated: Stated) -> dict[str, str]:
    """Why clients are left out of a run, by client: of a split that three or more have, one states nearly all."""
    reasons: dict[str, str] = {}
    for name, split in SPLITS.items():
        counts = {client: sizes[name] for client, sizes in stated.items() if sizes.get(name)}
        for client in sorted(outweighing(counts) - reasons.keys()):
            reasons[client] = (
                f"it states {counts[client]} of the {sum(counts.values())} {split} nodes of {len(counts)} clients, so "
                f"that what is pooled would be its word alone (more than {BALANCE:g}): correct its data, or divide "
                "them among several sites"
            )
    return reasons
