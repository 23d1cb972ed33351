"""What came of rounds in which all clients are trained at once, told as exchanges with each would tell it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from fedtag.client.run.site_run import SiteRun
from fedtag.client.run.together import concluded
from fedtag.client.train.optimisation import Training, normaliser
from fedtag.common.errors import DivergenceError
from fedtag.common.numerics.scores import LOCAL
from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.runs.stacked.foresight import Foreseen, Foresight
from fedtag.server.exchange.ledger import disclosures
from fedtag.server.exchange.participation import CLOSE
from fedtag.server.exchange.phases import Phases
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.round import Round
from fedtag.server.strategies.aggregation import Aggregation
from fedtag.server.sums.outcome import Outcome, contributed
from fedtag.server.sums.plain import note_cut

SUBSETS = ("val", "test")


class StackedSums:
    """Contributions of clients that are trained at once, of which the mean alone was ever made.

    Args:
        clients: of the simulation.
        phases: of the run, in whose first exchange all clients introduced themselves.
        aggregation: of the run.
    """

    def __init__(self, clients: Sequence[SiteRun], phases: Phases, aggregation: Aggregation) -> None:
        self.clients = {client.site.name: client for client in clients}
        self.phases, self.aggregation = phases, aggregation
        self.foresight = Foresight(self.clients, phases, aggregation)

    def exchange(self, current: Round, phase: Phase) -> Outcome:
        """A round, or the scores of the last model.

        Raises:
            DivergenceError: a loss, or an update, is not finite.
        """
        self.phases.run_state.step += 1
        deadline = self.phases.config.exchange.deadline
        self.phases.monitor.asked(current.number, phase.name, self.phases.names, deadline)
        if phase.name == CLOSE.name:
            found = self.foresight.scores(current.number, phase)
            return self._told(current, phase, dict.fromkeys(self.clients, phase), found, {})
        began = time.monotonic()
        round_ = self.foresight.round(current.number, phase)
        current.seconds["train"] = current.seconds.get("train", 0.0) + round_.seconds
        current.ahead += time.monotonic() - began - round_.seconds
        asked = self.foresight.asked(current.number, phase, current.due)
        return self._told(current, phase, asked, round_.found, self._trained(current.number, round_))

    def _trained(self, number: int, round_: Foreseen) -> dict[str, Training]:
        """What each client that trained did."""
        train, found = self.phases.config.train, round_.found
        momentum = train.momentum if train.optimizer == "sgd" else None
        steps = normaliser([round_.plan.rate] * train.epochs, momentum, train.prox_mu)
        columns = found["loss"].tolist(), found["norm"].tolist(), found["cut"].tolist(), round_.plan.trains
        training, cut = {}, {}
        for name, loss, norm, times, trains in zip(self.clients, *columns, strict=True):
            if not trains:
                continue
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise DivergenceError(
                    f"training diverged at {name} in round {number} (the loss is {loss}): lower "
                    "train.learning-rate, train.weight-decay or train.prox-mu, or scale the features down"
                )
            training[name] = Training(loss, train.epochs, steps)
            if times:
                cut[name] = times
        note_cut(self.phases.progress, number, cut)
        return training

    def _told(
        self,
        current: Round,
        phase: Phase,
        asked: Mapping[str, Phase],
        found: Mapping[str, Tensor],
        training: Mapping[str, Training],
    ) -> Outcome:
        """The outcome of a round, as if each client had told its part."""
        replies = {}
        for place, name in enumerate(self.clients):
            if name not in asked:
                continue
            sizes = {**self.clients[name].data.sizes, "val_nodes": self.foresight.shares[name].judging}
            values: dict[str, Any] = {"sizes": sizes, "seconds": {}}
            if asked[name].name == phase.name != CLOSE.name:
                values |= self._done(current, phase, name, place, found, training.get(name))
            scores = _scores(place, found, current.due, name in training)
            run, step, number = self.phases.run_state.run, self.phases.run_state.step, current.number
            replies[name] = Reply(run, step, number, asked[name].name, name, Content(scores, values))
        replies = dict(sorted(replies.items()))
        self._disclose(current, phase, replies, training)
        if phase.gathers == "nothing":
            return Outcome(replies, {}, reported=replies)
        learned, weights = (
            self.foresight.learned(list(training)),
            self.foresight.weights(phase, list(training)),
        )
        contributions = {name: reply for name, reply in replies.items() if reply.phase == phase.name}
        scale, declared = self.aggregation.similarity_scale, self.phases.inbox.declared
        rows = contributed(contributions, learned, {}, scale, declared)
        step_ = Content(found).section("step") if weights else {}
        return Outcome(replies, {}, step_, weights, replies, rows)

    def _done(
        self,
        current: Round,
        phase: Phase,
        name: str,
        place: int,
        found: Mapping[str, Tensor],
        training: Training | None,
    ) -> Mapping[str, Any]:
        """What a client says of its training, and keeps of it where it goes on with its own model."""
        reported = self.foresight.shares[name].reported
        if training is None:
            return reported
        if phase.gathers != "nothing":
            return {**reported, "training": vars(training)}
        own = {key: value[place] for key, value in Content(found).section("own").items()}
        instruction = self.foresight.instruction(current.number, phase)
        return {**reported, **concluded(self.clients[name], instruction, own, training).values}

    def _disclose(
        self, current: Round, phase: Phase, replies: Mapping[str, Reply], training: Mapping[str, Training]
    ) -> None:
        """Write what would have crossed in exchanges with each client, by the same records."""
        state, method, context = self.phases.run_state.state, self.phases.method, self.phases.context
        assert state is not None
        update = prefixed("update", {name: value.to("meta") for name, value in self.foresight.model.items()})
        sent = dict(replies)
        for name in training:
            content = replies[name].content
            sent[name] = replace(
                replies[name], content=Content({**content.tensors, **update}, content.values)
            )
        told = {
            name: self.foresight.instruction(
                current.number, phase, method.instruct(state, phase, name, context)
            )
            for name in replies
        }
        rows = disclosures(current.number, phase.name, told, sent, self.phases.inbox.declared, {})
        self.phases.directory.append_disclosures(rows)
        current.traffic.down += sum(row.bytes for row in rows if row.from_server)
        current.traffic.up += sum(row.bytes for row in rows if row.to_server)


def _scores(place: int, found: Mapping[str, Tensor], due: bool, trained: bool) -> dict[str, Tensor]:
    """A client's counts, as it would send them."""
    tensors: dict[str, Tensor] = {}
    for name, value in Content(found).section("scores").items():
        path, field = name.split("/")
        if trained if path == LOCAL else due:
            tensors |= {
                f"{path}/{subset}/{field}": counts
                for subset, counts in zip(SUBSETS, value[place], strict=True)
            }
    return prefixed("scores", tensors)


def stacked(clients: Sequence[SiteRun]) -> Callable[[Phases, Aggregation], StackedSums]:
    """The engine of a run over such clients."""
    return lambda phases, aggregation: StackedSums(clients, phases, aggregation)
