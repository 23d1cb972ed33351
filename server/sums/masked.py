"""Sums under masks: the server learns what the updates of a phase come to, and no single one of them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedtag.common.config import RunConfig
from fedtag.common.errors import ProtocolError, QuorumError, WireError
from fedtag.common.logs import Event, fields
from fedtag.common.secure.block import Block
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.names import JOIN
from fedtag.common.secure.phases import FEWEST_USERS, SIGN, UNMASK, USE
from fedtag.common.secure.upload import MASKED, VECTOR, Layout, Opened
from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.server.exchange.participation import SCORE
from fedtag.server.exchange.phases import Phases
from fedtag.server.exchange.screening import check_sum, check_users
from fedtag.server.protocol.forms import TensorForm
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.round import Round
from fedtag.server.state.run_state import RunState
from fedtag.server.strategies.aggregation import Aggregation, masked_mean
from fedtag.server.strategies.secure import check_release, open_sum
from fedtag.server.strategies.use import layout_of, partial_tensors, used_by_enough
from fedtag.server.sums.key_blocks import KeyBlocks
from fedtag.server.sums.outcome import Gathered, Outcome, contributed, due_statistics

SIGN_LIST = Phase(SIGN, "clients with a roster sign who survived, so that all are told the same")
UNMASK_SUM = Phase(UNMASK, "survivors release the shares that take the masks off a sum")
COUNT_USERS = Phase(
    USE,
    "clients count, under masks and once a run, how many of them have which tensors of their updates",
    gathers="sum",
)
EVERYBODY = "all clients together"
UPLOAD = f"{MASKED}/{VECTOR}"


class MaskedSums:
    """Secure summation (Bonawitz et al., 2017) around the phases of a method.

    A block of members prepares many sums at once (`KeyBlocks`). A sum takes the phase of the method, in which members
    upload under masks, and an exchange that unmasks it; with rosters one more, in which survivors sign who they are.
    Where clients may lack tensors, a sum before it says how many use which: what fewer than three use is left out of
    all that follow, and stays as it was.

    Args:
        phases: carry out exchanges.
        run_state: of the run.
        method: says what an update looks like.
        aggregation: gives the weights.
        config: of the run.
    """

    def __init__(
        self,
        phases: Phases,
        run_state: RunState,
        method: ServerMethod,
        aggregation: Aggregation,
        config: RunConfig,
    ) -> None:
        self.phases = phases
        self.run_state = run_state
        self.method = method
        self.aggregation = aggregation
        self.config = config
        self.hidden = config.privacy.hide_statistics
        self.fixed = FixedPoint(config.privacy.scale_bits, config.privacy.limit)
        self.key_blocks = KeyBlocks(phases, run_state, config)

    def exchange(self, current: Round, phase: Phase) -> Outcome:
        if not phase.sums and not self.hidden:
            replies, failures = self.phases.run(current, phase)
            return Outcome(replies, failures, reported=replies)
        attempts = self.config.exchange.retries + 1
        for attempt in range(1, attempts + 1):
            try:
                return self._sum(current, phase)
            except (QuorumError, ProtocolError) as error:
                self.key_blocks.given_up()
                if attempt == attempts:
                    raise QuorumError(
                        f"round {current.number} stopped, since its sum could not be opened: {error}. "
                        f"Complete rounds are safe: continue with --resume {self.phases.directory.path}"
                    ) from error
                self.phases.progress.note(
                    f"round {current.number} is repeated with a new block: {error}",
                    fields(Event.SECURE_SUM, round=current.number, error=type(error).__name__),
                )
        raise AssertionError("unreachable")

    def _sum(self, current: Round, phase: Phase) -> Outcome:
        if self.run_state.state is None:
            # What an update looks like follows from the clients' introductions, which come with their keys.
            self.phases.introduced(current)
        forms = self._forms(phase)
        layout = self._layout(phase, forms, self._users(current, forms), current.due)
        return self._outcome(current, phase, forms, self._gathered(current, phase, layout, current.due))

    def _users(self, current: Round, forms: Mapping[str, TensorForm]) -> Mapping[str, int]:
        """How many clients use each tensor that only some have; they are asked once a run."""
        names = partial_tensors(forms)
        if not names:
            return {}
        if self.run_state.users is None:
            gathered = self._gathered(current, COUNT_USERS, Layout({}, used=names), False)
            counts = gathered.opened.users
            try:
                check_users(counts, len(gathered.contributions))
            except WireError as error:
                self.phases.progress.note(
                    f"round {current.number} moves only what all clients use, since one of them did not keep to the "
                    f"protocol: {error}",
                    fields(Event.SECURE_SUM, round=current.number, error="WireError"),
                )
                return {}
            self.run_state.users = dict(counts)
            few = sum(0 < count < FEWEST_USERS for count in counts.values())
            self.phases.progress.note(
                f"round {current.number}: {few} of {len(names)} tensors that not all clients use have fewer than "
                f"{FEWEST_USERS} users and stay as they are",
                fields(Event.SECURE_SUM, round=current.number),
            )
        return self.run_state.users

    def _gathered(self, current: Round, phase: Phase, layout: Layout, due: bool) -> Gathered:
        block, index, online = self.key_blocks.begun(current)
        statistics = due_statistics(self.aggregation, self.run_state, {})
        weights = self._weights(phase, block, statistics)
        members = {node: phase for node in online if self.phases.names.get(node) in block.members}
        others = [node for node in online if node not in members]
        spectators = dict.fromkeys(others, SCORE) if due and not self.hidden else {}

        def request(client: str | None) -> Content:
            assert client is not None
            asked: dict[str, Any] = {
                "index": index,
                "layout": layout.as_json(),
                "weights": weights,
                "gathers": phase.gathers,
            }
            if client in self.key_blocks.joined:
                return Content({}, {"sum": asked})
            letters = self.key_blocks.letters.get(client, ())
            return Content({}, {"sum": asked, JOIN: block.as_json()}, letters)

        replies, failures = self.phases.run(
            current,
            phase,
            {**members, **spectators},
            request,
            {UPLOAD: TensorForm((layout.size,), torch.int64)},
            wanted=block.threshold,
        )
        contributions = {
            client: reply
            for client, reply in replies.items()
            if reply.phase == phase.name and client in block.members and UPLOAD in reply.content.tensors
        }
        self.key_blocks.welcome(contributions)
        opened = self._opened(current, block, index, layout, contributions)
        return Gathered(replies, failures, contributions, weights, opened)

    def _forms(self, phase: Phase) -> dict[str, TensorForm]:
        """The tensors that can be summed, by their names in the model."""
        assert self.run_state.state is not None
        forms = self.method.expected(self.run_state.state, phase, self.phases.context) if phase.sums else {}
        return {
            name.removeprefix("update/"): form for name, form in forms.items() if form.dtype.is_floating_point
        }

    def _layout(
        self, phase: Phase, forms: Mapping[str, TensorForm], users: Mapping[str, int], due: bool
    ) -> Layout:
        assert self.run_state.agreement is not None
        if not self.hidden:
            return layout_of(forms, users)
        paths = self.method.scoring_paths(self.phases.context) if due else ()
        local = ("local",) if phase.sums and self.config.evaluation.local else ()
        return layout_of(forms, users, (*paths, *local), len(self.run_state.agreement.classes), True)

    def _weights(self, phase: Phase, block: Block, statistics: Mapping[str, Any]) -> dict[str, float]:
        """w_i of every member, sum 1; zero for those that cannot train, equal ones where nobody can."""
        equal = dict.fromkeys(sorted(block.members), 1 / len(block.members))
        known = {client: self.key_blocks.train_nodes.get(client, 0) for client in block.members}
        weights = self.aggregation.weights(phase, known, statistics)
        return {client: weights.get(client, 0.0) for client in equal} if weights else equal

    def _opened(
        self, current: Round, block: Block, index: int, layout: Layout, contributions: Mapping[str, Reply]
    ) -> Opened:
        told = self.phases.told()
        survivors = sorted(contributions)
        asked = [node for node, name in self.phases.names.items() if name in contributions]
        signatures: dict[str, Any] | None = None
        if self.config.privacy.roster:
            signed, _ = self.phases.run(
                current,
                SIGN_LIST,
                dict.fromkeys(asked, SIGN_LIST),
                lambda client: Content({}, {SIGN: {"index": index, "survivors": survivors}}),
                wanted=block.threshold,
            )
            signatures = {client: reply.content.values.get(SIGN) for client, reply in signed.items()}
        question = {"index": index, "survivors": survivors, "signatures": signatures}
        released, _ = self.phases.run(
            current,
            UNMASK_SUM,
            dict.fromkeys(asked, UNMASK_SUM),
            lambda client: Content({}, {UNMASK: question}),
            wanted=block.threshold,
        )
        before = time.monotonic()
        uploads: dict[str, NDArray[np.uint64]] = {
            client: reply.content.tensors[UPLOAD].numpy().view(np.uint64)
            for client, reply in contributions.items()
        }
        releases = {client: reply.content.values.get(UNMASK) for client, reply in released.items()}
        dropped = sorted(block.members.keys() - contributions.keys())
        for client, release in releases.items():
            try:
                check_release(client, survivors, dropped, release)
            except ProtocolError as error:
                self.phases.progress.note(
                    f"round {current.number}, an answer is of no use: {error}",
                    fields(Event.SECURE_SUM, round=current.number, client=client, error="ProtocolError"),
                )
        total = open_sum(block, index, uploads, releases, self.fixed, told)
        current.seconds["unmask"] = current.seconds.get("unmask", 0.0) + time.monotonic() - before
        return layout.opened(total)

    def _outcome(
        self, current: Round, phase: Phase, forms: Mapping[str, TensorForm], gathered: Gathered
    ) -> Outcome:
        replies, contributions = gathered.replies, gathered.contributions
        opened, weights = gathered.opened, gathered.weights
        for client, reply in replies.items():
            self.key_blocks.note_sizes(client, reply.content.values)
        absent = {client: why for client, why in self.key_blocks.absent.items() if client not in replies}
        failures = {**absent, **gathered.failures}
        try:
            assert self.run_state.agreement is not None
            classes = len(self.run_state.agreement.classes)
            most = math.fsum(weights[client] for client in contributions)
            check_sum(opened, most, classes, len(contributions))
        except WireError as error:
            names = ", ".join(sorted(contributions))
            self.phases.progress.note(
                f"round {current.number}, the sum of {names} is not used, since one of them did not keep to "
                f"the protocol: {error}",
                fields(Event.SECURE_SUM, round=current.number, error="WireError"),
            )
            return Outcome(replies, failures, reported={} if self.hidden else replies)
        statistics = due_statistics(self.aggregation, self.run_state, contributions)
        step, shares = self._step(forms, opened, weights, contributions)
        reported = replies
        if self.hidden:
            values: dict[str, Any] = {"sizes": dict(opened.sizes)}
            if opened.loss is not None:
                values["training"] = {"loss": opened.loss}
            content = Content(prefixed("scores", opened.scores), values)
            reported = {
                EVERYBODY: Reply(
                    self.run_state.run, self.run_state.step, current.number, phase.name, EVERYBODY, content
                )
            }
        train_nodes = {client: self.key_blocks.train_nodes.get(client, 0) for client in contributions}
        scaling, declared = self.aggregation.similarity_scale, self.phases.inbox.declared
        rows = contributed(contributions, train_nodes, statistics, scaling, declared)
        return Outcome(replies, failures, step, shares, reported, rows)

    def _step(
        self,
        forms: Mapping[str, TensorForm],
        opened: Opened,
        weights: Mapping[str, float],
        contributions: Mapping[str, Reply],
    ) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
        if not opened.update:
            return {}, {}
        if self.config.privacy.dp.mode == "distributed":
            mean = {name: value / self.config.clients for name, value in opened.update.items()}
        else:
            fednova = self.config.aggregation.normalise == "fednova"
            enough = used_by_enough(opened)
            mean = masked_mean(enough, opened.weight, opened.steps, fednova, opened.shares)
        if not mean:
            return {}, {}
        step = {name: value.to(forms[name].dtype) for name, value in mean.items()}
        kept = {client: weights[client] for client in contributions if weights[client]}
        total = sum(kept.values())
        return step, {client: weight / total for client, weight in sorted(kept.items())}
