"""Rounds in which all clients of a simulation are trained at once, as the round loop sees them.

Rounds are carried out some at a time, from the model that the server has then to those that it will have if it moves
by the mean update alone; what it has else, such as after a server optimiser's step, is taken up before the next one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedtag.client.run.site_run import SiteRun
from fedtag.client.run.together import concluded, share_of
from fedtag.client.train.capacity import memory_explained
from fedtag.client.train.optimisation import Training, normaliser, scheduled_rate
from fedtag.client.train.stacked.ahead import Ahead, Planned
from fedtag.client.train.stacked.parameters import trained_parameters
from fedtag.client.train.stacked.rounds import StackedRounds
from fedtag.client.train.stacked.shares import Share, Together
from fedtag.client.train.threads import limited_threads
from fedtag.common.errors import DivergenceError
from fedtag.common.numerics.scores import LOCAL
from fedtag.common.wire.records import Content, Instruction, Reply, prefixed
from fedtag.server.exchange.ledger import disclosures
from fedtag.server.exchange.participation import CLOSE, SCORE, participants
from fedtag.server.exchange.phases import Phases
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.round import Round, scores_due
from fedtag.server.strategies.aggregation import Aggregation
from fedtag.server.sums.outcome import Outcome, contributed
from fedtag.server.sums.plain import note_cut

AHEAD = 10
"""Rounds between two looks at what came of them."""
SUBSETS = ("val", "test")


@dataclass(frozen=True)
class Foreseen:
    """A round that was carried out, and the seconds that it took."""

    plan: Planned
    found: Mapping[str, Tensor]
    seconds: float


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
        self.method, self.context, self.config = phases.method, phases.context, phases.config
        self.run_state = phases.run_state
        self.foreseen: dict[int, Foreseen] = {}
        self.shares: dict[str, Share] = {}
        self.ahead: Ahead | None = None

    def exchange(self, current: Round, phase: Phase) -> Outcome:
        """A round, or the scores of the last model; it raises DivergenceError where a loss is not finite."""
        self.run_state.step += phase is not SCORE
        ahead = self._begun(current, phase)
        self.phases.monitor.asked(current.number, phase.name, self.phases.names, self.config.exchange.deadline)
        if phase.name == CLOSE.name:
            self._take_up(ahead)
            with self._at_work():
                found = ahead.score()
            everyone = dict.fromkeys(self.clients, phase)
            return self._told(current, phase, everyone, found, {})
        round_ = self._carried_out(current, phase, ahead)
        current.seconds["train"] = current.seconds.get("train", 0.0) + round_.seconds
        asked = self._asked(current.number, phase, current.due)
        training = self._trained(current.number, asked, round_)
        return self._told(current, phase, asked, round_.found, training)

    def _begun(self, current: Round, phase: Phase) -> Ahead:
        if self.ahead is not None:
            return self.ahead
        config = self.config
        with self._at_work():
            for name, client in self.clients.items():
                self.shares[name] = share_of(client, self._instruction(current.number, phase))
            together = Together.of(self.shares)
            first = next(iter(self.shares.values()))
            trained_parameters(first.model)
            averaged = bool(self._model)
            rounds = StackedRounds(
                together,
                first.model,
                config.train,
                config.seed,
                averaged,
                config.aggregation.norm_factor,
                averaged and config.evaluation.local,
                self.method.scoring_paths(self.context)[0],
            )
            own = {
                name: torch.stack([share.start[name] for share in self.shares.values()])
                for name in first.start
            }
            self.ahead = Ahead(rounds, self._model or own, captured=rounds.device.type == "cuda")
        return self.ahead

    @property
    def _model(self) -> dict[str, Tensor]:
        """The model that all clients receive; empty where each goes on with its own."""
        assert self.run_state.state is not None
        return self.run_state.state.section("model")

    def _take_up(self, ahead: Ahead) -> None:
        assert self.run_state.state is not None
        if self._model:
            ahead.set(self._model, self.run_state.state.section("average") or None)

    def _carried_out(self, current: Round, phase: Phase, ahead: Ahead) -> Foreseen:
        found = self.foreseen.pop(current.number, None)
        begun = {} if found is None else Content(found.found).section("received")
        if found is None or any(not torch.equal(begun[name], value) for name, value in self._model.items()):
            self._take_up(ahead)
            self._foresee(current, phase, ahead)
            found = self.foreseen.pop(current.number)
        return found

    def _foresee(self, current: Round, phase: Phase, ahead: Ahead) -> None:
        settings = self.config.aggregation
        plain = (
            settings.server_optimiser == "none" and settings.server_rate == 1 and not settings.average_decay
        )
        last = self.config.rounds if plain else current.number
        numbers = range(current.number, min(last, current.number + AHEAD - 1) + 1)
        plans, begun = [self._plan(number, phase) for number in numbers], time.monotonic()
        with self._at_work():
            results = ahead.run(plans)
        seconds = (time.monotonic() - begun) / len(plans)
        self.foreseen = {
            plan.number: Foreseen(plan, found, seconds) for plan, found in zip(plans, results, strict=True)
        }

    def _plan(self, number: int, phase: Phase) -> Planned:
        train, due = self.config.train, scores_due(number, self.config.evaluation.every)
        trains = self._training(self._asked(number, phase, due), phase)
        weights = self._weights(phase, trains)
        rate = scheduled_rate(
            train.learning_rate, train.schedule, train.final_rate, number, self.config.rounds
        )
        return Planned(
            number,
            rate,
            [name in trains for name in self.clients],
            [weights.get(name, 0.0) for name in self.clients],
            due,
        )

    def _asked(self, number: int, phase: Phase, due: bool) -> dict[str, Phase]:
        """The phase of each client that takes part in a round, as exchanges with each would have it."""
        names = self.phases.names
        # In these nobody is known by name in round 1, unless a released model had to fit everybody before.
        known = {} if number == 1 and not self.config.parent.model else names
        asked = participants(list(names), known, self.config, number, phase, due)
        return {names[node]: own for node, own in asked.items()}

    def _training(self, asked: Mapping[str, Phase], phase: Phase) -> list[str]:
        return [
            name
            for name in self.clients
            if asked.get(name) == phase and self.shares[name].examples is not None
        ]

    def _weights(self, phase: Phase, trains: Sequence[str]) -> Mapping[str, float]:
        if phase.gathers != "step":
            return {}
        return self.aggregation.weights(phase, self._counted(trains), {})

    def _counted(self, names: Sequence[str]) -> dict[str, int]:
        return {name: self.clients[name].data.sizes["train_nodes"] for name in names}

    def _trained(self, number: int, asked: Mapping[str, Phase], round_: Foreseen) -> dict[str, Training]:
        """What each client that trained did."""
        train, found, places = self.config.train, round_.found, list(self.clients)
        momentum = train.momentum if train.optimizer == "sgd" else None
        steps = normaliser([round_.plan.rate] * train.epochs, momentum, train.prox_mu)
        training = {
            name: Training(float(loss), train.epochs, steps)
            for name, loss, trains in zip(places, found["loss"].tolist(), round_.plan.trains, strict=True)
            if trains
        }
        norms = dict(zip(places, found["norm"].tolist(), strict=True))
        for name, one in training.items():
            if not (math.isfinite(one.loss) and math.isfinite(norms[name])):
                raise DivergenceError(
                    f"training diverged at {name} in round {number} (the loss is {one.loss}): lower "
                    "train.learning-rate, train.weight-decay or train.prox-mu, or scale the features down"
                )
        cut = zip(places, found["cut"].tolist(), strict=True)
        note_cut(self.phases.progress, number, {name: times for name, times in cut if times})
        return training

    def _told(
        self,
        current: Round,
        phase: Phase,
        asked: Mapping[str, Phase],
        found: Mapping[str, Tensor],
        training: Mapping[str, Training],
    ) -> Outcome:
        """What came of a round, as if each client had told its part."""
        replies = {}
        for place, name in enumerate(self.clients):
            if name in asked:
                took_part = asked[name] == phase and phase.name != CLOSE.name
                done = self._done(current.number, phase, name, place, found, training.get(name)) if took_part else {}
                scores = self._scores(place, found, current.due, name in training)
                share = self.shares[name]
                sizes = {**self.clients[name].data.sizes, "val_nodes": int(share.judges.sum())}
                values = {"sizes": sizes, "seconds": {}, **done}
                replies[name] = self._reply(current.number, asked[name], name, Content(scores, values))
        replies = dict(sorted(replies.items()))
        self._disclose(current, phase, replies, training)
        if phase.gathers == "nothing":
            return Outcome(replies, {}, reported=replies)
        counted, weights = self._counted(list(training)), self._weights(phase, list(training))
        contributions = {name: reply for name, reply in replies.items() if reply.phase == phase.name}
        scale, declared = self.aggregation.similarity_scale, self.phases.inbox.declared
        rows = contributed(contributions, counted, {}, scale, declared)
        step = Content(found).section("step") if weights else {}
        return Outcome(replies, {}, step, weights, replies, rows)

    def _done(
        self,
        number: int,
        phase: Phase,
        name: str,
        place: int,
        found: Mapping[str, Tensor],
        training: Training | None,
    ) -> dict[str, Any]:
        """What a client says of its training, and keeps of it where it goes on with its own model."""
        if training is None:
            return dict(self.shares[name].reported)
        values: Mapping[str, Any] = {"training": vars(training)}
        if phase.gathers == "nothing":
            own = {key: value[place] for key, value in Content(found).section("own").items()}
            values = concluded(self.clients[name], self._instruction(number, phase), own, training).values
        return {**self.shares[name].reported, **values}

    def _scores(self, place: int, found: Mapping[str, Tensor], due: bool, trained: bool) -> dict[str, Tensor]:
        tensors = {}
        for name, value in Content(found).section("scores").items():
            path, field = name.split("/")
            if trained if path == LOCAL else due:
                for subset, counts in zip(SUBSETS, value[place], strict=True):
                    tensors[f"{path}/{subset}/{field}"] = counts
        return prefixed("scores", tensors)

    def _disclose(
        self, current: Round, phase: Phase, replies: Mapping[str, Reply], training: Mapping[str, Training]
    ) -> None:
        """Write what would have crossed in exchanges with each client, by the same records."""
        assert self.run_state.state is not None
        update = prefixed("update", {name: value.to("meta") for name, value in self._model.items()})
        sent = {
            name: replace(reply, content=Content({**reply.content.tensors, **update}, reply.content.values))
            if name in training
            else reply
            for name, reply in replies.items()
        }
        told = {
            name: self._instruction(
                current.number,
                phase,
                self.method.instruct(self.run_state.state, phase, name, self.context),
            )
            for name in replies
        }
        rows = disclosures(current.number, phase.name, told, sent, self.phases.inbox.declared, {})
        self.phases.directory.append_disclosures(rows)
        current.traffic.down += sum(row.bytes for row in rows if row.from_server)
        current.traffic.up += sum(row.bytes for row in rows if row.to_server)

    def _instruction(self, number: int, phase: Phase, content: Content | None = None) -> Instruction:
        return Instruction(self.run_state.run, self.run_state.step, number, phase.name, content or Content())

    def _reply(self, number: int, phase: Phase, name: str, content: Content) -> Reply:
        return Reply(self.run_state.run, self.run_state.step, number, phase.name, name, content)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """One thread for small work; and what to do where the memory of the device does not do."""
        data = [client.data for client in self.clients.values()]
        size = sum(one.graph.x.numel() for one in data)
        with limited_threads(size), memory_explained(self.config, data[0].device):
            yield


def stacked(clients: Sequence[SiteRun]) -> Callable[[Phases, Aggregation], StackedSums]:
    """The engine of a run over such clients."""
    return lambda phases, aggregation: StackedSums(clients, phases, aggregation)
