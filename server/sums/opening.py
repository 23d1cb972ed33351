"""The exchanges after masked uploads: who survived is signed, shares are released, and the sums are opened."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedtag.common.config import RunConfig
from fedtag.common.errors import ProtocolError, QuorumError
from fedtag.common.logs import Event, fields
from fedtag.common.secure.block import Block
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.groups import Groups, opened_groups
from fedtag.common.secure.phases import SIGN, UNMASK
from fedtag.common.secure.upload import MASKED, VECTOR, Layout, Opened
from fedtag.common.wire.records import Content, Reply
from fedtag.server.exchange.phases import Phases
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.round import Round
from fedtag.server.state.run_state import RunState
from fedtag.server.strategies.secure import check_release, open_groups, open_sum

SIGN_LIST = Phase(SIGN, "clients with a roster sign who survived, so that all are told the same")
UNMASK_SUM = Phase(UNMASK, "survivors release the shares that take the masks off a sum")
UPLOAD = f"{MASKED}/{VECTOR}"

Sums = Mapping[tuple[str, ...], Opened]
"""Sums by those who are in them, sorted."""


class Opening:
    """Takes the masks off sums.

    Args:
        phases: carry out exchanges.
        run_state: of the run; it remembers over whom sums of groups were opened.
        config: of the run.
    """

    def __init__(self, phases: Phases, run_state: RunState, config: RunConfig) -> None:
        self.phases = phases
        self.run_state = run_state
        self.signs = config.privacy.roster
        self.fixed = FixedPoint(config.privacy.scale_bits, config.privacy.limit)
        self.hostile = max(1, config.aggregation.hostile)

    def opened(
        self,
        current: Round,
        block: Block,
        index: int,
        layout: Layout,
        contributions: Mapping[str, Reply],
        weights: Mapping[str, float],
        groups: Groups,
    ) -> tuple[Sums, Opened]:
        """The sums of groups, or the one of all, and what all groups together say of statistics.

        Args:
            current: the round.
            block: of the sum.
            index: which sum.
            layout: of uploads.
            contributions: of those whose uploads arrived.
            weights: of the members.
            groups: those that are opened one by one; none for one sum over all.

        Raises:
            QuorumError: too few survivors, in all or in every group, or too few released shares.
            ProtocolError: what they released opens nothing.
        """
        told, survivors = self.phases.told(), sorted(contributions)
        opened = opened_groups(groups, survivors, self.run_state.opened, weights) if groups else ()
        if groups:
            self._note_groups(current, groups, opened)
        released = self._released(current, block, index, survivors, opened)
        before = time.monotonic()
        uploads: dict[str, NDArray[np.uint64]] = {
            client: reply.content.tensors[UPLOAD].numpy().view(np.uint64)
            for client, reply in contributions.items()
        }
        releases = {client: reply.content.values.get(UNMASK) for client, reply in released.items()}
        self._note_releases(
            current, block, releases, [name for group in opened for name in group] or survivors
        )
        sums, whole = self._sums(block, index, layout, uploads, releases, told, opened, groups)
        self.run_state.opened = tuple(dict.fromkeys((*self.run_state.opened, *opened)))
        current.seconds["unmask"] = current.seconds.get("unmask", 0.0) + time.monotonic() - before
        return sums, whole

    def _sums(
        self,
        block: Block,
        index: int,
        layout: Layout,
        uploads: Mapping[str, NDArray[np.uint64]],
        releases: Mapping[str, Any],
        told: bytes,
        opened: Groups,
        groups: Groups,
    ) -> tuple[Sums, Opened]:
        if not opened:
            whole = layout.opened(open_sum(block, index, uploads, releases, self.fixed, told))
            return {tuple(sorted(uploads)): whole}, whole
        head, nothing = layout.open_size, np.zeros(layout.size)
        totals, tail = open_groups(block, index, uploads, releases, self.fixed, told, opened, groups, head)
        sums = {
            group: layout.opened(np.concatenate([total, nothing[head:]]))
            for group, total in zip(opened, totals, strict=True)
        }
        return sums, layout.opened(np.concatenate([nothing[:head], tail]))

    def _released(
        self, current: Round, block: Block, index: int, survivors: list[str], opened: Groups
    ) -> Mapping[str, Reply]:
        asked = [node for node, name in self.phases.names.items() if name in survivors]
        question: dict[str, Any] = {
            "index": index,
            "survivors": survivors,
            "opened": [list(one) for one in opened],
        }
        signatures: dict[str, Any] | None = None
        if self.signs:
            signed, _ = self.phases.run(
                current,
                SIGN_LIST,
                dict.fromkeys(asked, SIGN_LIST),
                lambda client: Content({}, {SIGN: question}),
                wanted=block.threshold,
            )
            signatures = {client: reply.content.values.get(SIGN) for client, reply in signed.items()}
        released, _ = self.phases.run(
            current,
            UNMASK_SUM,
            dict.fromkeys(asked, UNMASK_SUM),
            lambda client: Content({}, {UNMASK: {**question, "signatures": signatures}}),
            wanted=block.threshold,
        )
        return released

    def _note_releases(
        self, current: Round, block: Block, releases: Mapping[str, Any], summed: list[str]
    ) -> None:
        """Name those whose answers are of no use."""
        others = sorted(block.members.keys() - set(summed))
        for client, release in releases.items():
            try:
                check_release(client, summed, others, release)
            except ProtocolError as error:
                self.phases.progress.note(
                    f"round {current.number}, an answer is of no use: {error}",
                    fields(Event.SECURE_SUM, round=current.number, client=client, error="ProtocolError"),
                )

    def _note_groups(self, current: Round, groups: Groups, opened: Groups) -> None:
        """Name the groups that are left out, and say when too few are left to outvote the hostile ones.

        Raises:
            QuorumError: none is left.
        """
        kept = {name for group in opened for name in group}
        left_out = [group for group in groups if not kept.intersection(group)]
        if not opened:
            raise QuorumError(
                f"none of {len(groups)} groups can be opened: in each of them fewer than 3 members answered, one has "
                "nearly all weight, or a sum over those who answered would give somebody away"
            )
        if not left_out:
            return
        few = len(opened) < 2 * self.hostile + 1
        warning = f"; {len(opened)} groups cannot outvote {self.hostile} hostile ones" if few else ""
        names = "; ".join(", ".join(group) for group in left_out)
        self.phases.progress.note(
            f"round {current.number}: left out {names}, groups in which too few members answered, or of whom a sum "
            f"would give somebody away{warning}",
            fields(Event.SECURE_SUM, round=current.number, clients=len(kept)),
        )
