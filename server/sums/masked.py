"""Sums under masks: the server learns what the updates of a phase come to, and no single one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from fedtag.common.config import RunConfig
from fedtag.common.errors import ProtocolError, QuorumError, WireError
from fedtag.common.logs import Event, fields
from fedtag.common.numerics.scores import LOCAL
from fedtag.common.secure.block import Block
from fedtag.common.secure.groups import Groups
from fedtag.common.secure.names import JOIN
from fedtag.common.secure.phases import FEWEST_USERS, USE
from fedtag.common.secure.upload import Layout, Opened
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
from fedtag.server.strategies.use import layout_of, partial_tensors, used_by_enough
from fedtag.server.sums.key_blocks import KeyBlocks
from fedtag.server.sums.opening import UPLOAD, Opening
from fedtag.server.sums.outcome import Gathered, Outcome, contributed, due_statistics
from fedtag.server.tracking.status import safe

COUNT_USERS = Phase(
    USE,
    "clients count, under masks and once a run, how many of them have which tensors of their updates",
    gathers="sum",
)
EVERYBODY = "all clients together"


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
        self.opening = Opening(phases, run_state, config)
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
                        f"{safe(self.run_state.round)}: resume {self.phases.directory.path}"
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
        grouped = self.key_blocks.grouped and phase.gathers == "step" and not layout.used
        groups = self.run_state.groups if grouped else ()
        weights = self._weights(phase, block, statistics, groups)
        asked = {name for group in groups for name in group} & block.members.keys() or block.members.keys()
        members = {node: phase for node in online if self.phases.names.get(node) in asked}
        others = [node for node in online if node not in members]
        spectators = dict.fromkeys(others, SCORE) if due and not self.hidden else {}

        def request(client: str | None) -> Content:
            assert client is not None
            asked: dict[str, Any] = {
                "index": index,
                "layout": layout.as_json(),
                "weights": weights,
                "gathers": phase.gathers,
                "groups": [list(group) for group in groups],
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
        sums, opened = self.opening.opened(current, block, index, layout, contributions, weights, groups)
        return Gathered(replies, failures, contributions, weights, sums, opened)

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
        local = (LOCAL,) if phase.sums and self.config.evaluation.local else ()
        return layout_of(forms, users, (*paths, *local), len(self.run_state.agreement.classes), True)

    def _weights(
        self, phase: Phase, block: Block, statistics: Mapping[str, Any], groups: Groups
    ) -> dict[str, float]:
        """w_i of every member, sum 1; zero for those that cannot train, equal ones where nobody can.

        Groups weigh the same, and a member of one counts among its own group.
        """
        known = {client: self.key_blocks.train_nodes.get(client, 0) for client in sorted(block.members)}
        parts = []
        for group in groups or (tuple(known),):
            own = {client: known.get(client, 0) for client in group}
            weights = self.aggregation.weights(phase, own, statistics)
            # One alone would stand bare in the sum of its group.
            parts += [weights] if len(weights) > 1 or not groups else []
        parts = [weights for weights in parts if weights]
        if not parts:
            return dict.fromkeys(known, 1 / len(known))
        merged = {client: weight / len(parts) for weights in parts for client, weight in weights.items()}
        return {client: merged.get(client, 0.0) for client in known}

    def _outcome(
        self, current: Round, phase: Phase, forms: Mapping[str, TensorForm], gathered: Gathered
    ) -> Outcome:
        replies, contributions = gathered.replies, gathered.contributions
        for client, reply in replies.items():
            self.key_blocks.note_sizes(client, reply.content.values)
        absent = {client: why for client, why in self.key_blocks.absent.items() if client not in replies}
        failures = {**absent, **gathered.failures}
        usable = {
            names: one for names, one in gathered.sums.items() if self._usable(current, names, one, gathered)
        }
        reported = replies
        if self.hidden:
            apart = all(one is not gathered.opened for one in gathered.sums.values())
            told = not apart or self._usable(current, tuple(sorted(contributions)), gathered.opened, gathered)
            reported = {EVERYBODY: self._together(current, phase, gathered.opened)} if told and usable else {}
        if not usable:
            return Outcome(replies, failures, reported=reported)
        summed = {name: contributions[name] for names in usable for name in names}
        statistics = due_statistics(self.aggregation, self.run_state, summed)
        opened = {names: mean for names, one in usable.items() if (mean := self._mean(one))}
        step, shares = self._step(current, forms, opened, gathered.weights)
        train_nodes = {client: self.key_blocks.train_nodes.get(client, 0) for client in summed}
        scaling, declared = self.aggregation.similarity_scale, self.phases.inbox.declared
        rows = contributed(summed, train_nodes, statistics, scaling, declared)
        return Outcome(replies, failures, step, shares, reported, rows, opened)

    def _usable(self, current: Round, names: tuple[str, ...], opened: Opened, gathered: Gathered) -> bool:
        """Whether a sum is what its clients can come to; where it is not, they are named."""
        assert self.run_state.agreement is not None
        most = math.fsum(gathered.weights[client] for client in names)
        try:
            check_sum(opened, most, len(self.run_state.agreement.classes), len(names))
        except WireError as error:
            self.phases.progress.note(
                f"round {current.number}, the sum of {', '.join(names)} is not used, since one of them did not keep to "
                f"the protocol: {error}",
                fields(Event.SECURE_SUM, round=current.number, error="WireError"),
            )
            return False
        return True

    def _together(self, current: Round, phase: Phase, opened: Opened) -> Reply:
        """What all clients together tell of counts, losses and scores."""
        values: dict[str, Any] = {"sizes": dict(opened.sizes)}
        if opened.loss is not None:
            values["training"] = {"loss": opened.loss}
        content = Content(prefixed("scores", opened.scores), values)
        return Reply(self.run_state.run, self.run_state.step, current.number, phase.name, EVERYBODY, content)

    def _step(
        self,
        current: Round,
        forms: Mapping[str, TensorForm],
        means: Mapping[tuple[str, ...], Mapping[str, torch.Tensor]],
        weights: Mapping[str, float],
    ) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
        """One update from the mean updates of sums, and the weights that single clients have in it."""
        if not means:
            return {}, {}
        named = {", ".join(names): mean for names, mean in means.items()}
        for group, times in self.aggregation.outlying(named).items():
            self.phases.progress.note(
                f"round {current.number}: left out {group}, whose mean update is {times:.3g} times as long as the "
                "median one (aggregation.norm-factor)",
                fields(Event.UPDATE_CUT, round=current.number),
            )
            del named[group]
        means = {names: mean for names, mean in means.items() if ", ".join(names) in named}
        grouped = len(means) > 1
        mean = self.aggregation.of_groups(named) if grouped else next(iter(named.values()))
        step = {name: value.to(forms[name].dtype) for name, value in mean.items()}
        shares: dict[str, float] = {}
        for names in means:
            kept = {client: weights[client] for client in names if weights[client]}
            total = sum(kept.values()) * (len(means) if grouped else 1)
            shares |= {client: weight / total for client, weight in kept.items()}
        return step, dict(sorted(shares.items()))

    def _mean(self, opened: Opened) -> Mapping[str, torch.Tensor]:
        """The mean update behind a sum; nothing where there is none."""
        if not opened.update:
            return {}
        if self.config.privacy.dp.mode == "distributed":
            return {name: value / self.config.clients for name, value in opened.update.items()}
        fednova = self.config.aggregation.normalise == "fednova"
        return masked_mean(used_by_enough(opened), opened.weight, opened.steps, fednova, opened.shares)
