"""Rounds carried out some at a time, before the round loop asks for them.

They go from the model that the server has to those that it will have if it moves by the mean update alone; what it has
else, such as after a server optimiser's step, is taken up before the next one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from fedtag.client.run.site_run import SiteRun
from fedtag.client.run.together import share_of
from fedtag.client.train.capacity import memory_explained
from fedtag.client.train.optimisation import scheduled_rate
from fedtag.client.train.stacked.ahead import Ahead, Planned
from fedtag.client.train.stacked.parameters import check_stacks
from fedtag.client.train.stacked.rounds import StackedRounds
from fedtag.client.train.stacked.shares import Share, Together
from fedtag.client.train.threads import limited_threads
from fedtag.common.wire.records import Content, Instruction
from fedtag.server.exchange.participation import participants
from fedtag.server.exchange.phases import Phases
from fedtag.server.protocol.phases import Phase
from fedtag.server.state.round import scores_due
from fedtag.server.strategies.aggregation import Aggregation

AHEAD = 10
"""Rounds between two looks at what came of them."""


@dataclass(frozen=True)
class Foreseen:
    """A round that was carried out.

    Args:
        plan: what was decided of it.
        found: what came of it, as `StackedRounds.carry_out` says.
        seconds: that it took.
    """

    plan: Planned
    found: Mapping[str, Tensor]
    seconds: float


class Foresight:
    """The training of all clients at once, as far as it was carried out.

    Args:
        clients: of the simulation, by name.
        phases: of the run, in whose first exchange all of them introduced themselves.
        aggregation: of the run.
    """

    def __init__(self, clients: Mapping[str, SiteRun], phases: Phases, aggregation: Aggregation) -> None:
        self.clients, self.phases, self.aggregation = clients, phases, aggregation
        self.config, self.run_state = phases.config, phases.run_state
        self.shares: dict[str, Share] = {}
        self._foreseen: dict[int, Foreseen] = {}
        self._ahead: Ahead | None = None

    @property
    def model(self) -> dict[str, Tensor]:
        """The model that all clients receive; empty where each goes on with its own."""
        assert self.run_state.state is not None
        return self.run_state.state.section("model")

    def round(self, number: int, phase: Phase) -> Foreseen:
        """What came of a round that begins with the server's model of now; carried out where it was not foreseen."""
        ahead, found = self._begun(number, phase), self._foreseen.pop(number, None)
        begun = {} if found is None else Content(found.found).section("received")
        if found is None or any(not torch.equal(begun[name], value) for name, value in self.model.items()):
            self._take_up(ahead)
            self._foresee(number, phase, ahead)
            found = self._foreseen.pop(number)
        return found

    def scores(self, number: int, phase: Phase) -> Mapping[str, Tensor]:
        """Those of the server's model of now, or of the clients' own ones."""
        ahead = self._begun(number, phase)
        self._take_up(ahead)
        with self._at_work():
            return ahead.score()

    def asked(self, number: int, phase: Phase, due: bool) -> dict[str, Phase]:
        """The phase of each client that takes part in a round, as exchanges with each would have it."""
        names = self.phases.names
        # In these nobody is known by name in round 1, unless a released model had to fit everybody before.
        known = {} if number == 1 and not self.config.parent.model else names
        asked = participants(list(names), known, self.config, number, phase, due)
        return {names[node]: own for node, own in asked.items()}

    def weights(self, phase: Phase, trained: Sequence[str]) -> Mapping[str, float]:
        """Of the updates of those who trained; empty where these do not come together."""
        if phase.gathers != "step":
            return {}
        return self.aggregation.weights(phase, self.learned(trained), {})

    def learned(self, names: Sequence[str]) -> dict[str, int]:
        """Numbers of training nodes."""
        return {name: self.clients[name].data.sizes["train_nodes"] for name in names}

    def instruction(self, number: int, phase: Phase, content: Content | None = None) -> Instruction:
        """That of an exchange with a client."""
        return Instruction(self.run_state.run, self.run_state.step, number, phase.name, content or Content())

    def _begun(self, number: int, phase: Phase) -> Ahead:
        if self._ahead is None:
            with self._at_work():
                self._ahead = self._begin(self.instruction(number, phase))
        return self._ahead

    def _begin(self, instruction: Instruction) -> Ahead:
        config, averaged = self.config, bool(self.model)
        self.shares = {name: share_of(client, instruction) for name, client in self.clients.items()}
        first = next(iter(self.shares.values()))
        check_stacks(first.model)
        rounds = StackedRounds(
            Together.of(self.shares),
            first.model,
            config.train,
            config.seed,
            averaged,
            config.aggregation.norm_factor,
            averaged and config.evaluation.local,
            self.phases.method.scoring_paths(self.phases.context)[0],
        )
        own = {
            name: torch.stack([share.start[name] for share in self.shares.values()]) for name in first.start
        }
        return Ahead(rounds, self.model or own, captured=rounds.device.type == "cuda")

    def _take_up(self, ahead: Ahead) -> None:
        assert self.run_state.state is not None
        if self.model:
            ahead.set(self.model, self.run_state.state.section("average") or None)

    def _foresee(self, number: int, phase: Phase, ahead: Ahead) -> None:
        settings = self.config.aggregation
        plain = (
            settings.server_optimiser == "none" and settings.server_rate == 1 and not settings.average_decay
        )
        last = min(self.config.rounds, number + AHEAD - 1) if plain else number
        plans, begun = [self._plan(one, phase) for one in range(number, last + 1)], time.monotonic()
        with self._at_work():
            results = ahead.run(plans)
        seconds = (time.monotonic() - begun) / len(plans)
        self._foreseen = {
            plan.number: Foreseen(plan, found, seconds) for plan, found in zip(plans, results, strict=True)
        }

    def _plan(self, number: int, phase: Phase) -> Planned:
        train, due = self.config.train, scores_due(number, self.config.evaluation.every)
        asked = self.asked(number, phase, due)
        trained = [
            name
            for name, share in self.shares.items()
            if asked.get(name) == phase and share.examples is not None
        ]
        weights = self.weights(phase, trained)
        return Planned(
            number,
            scheduled_rate(train.learning_rate, train.schedule, train.final_rate, number, self.config.rounds),
            [name in trained for name in self.clients],
            [weights.get(name, 0.0) for name in self.clients],
            due,
        )

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """One thread for small work; and what to do where the memory of the device does not do."""
        data = [client.data for client in self.clients.values()]
        size = sum(one.graph.x.numel() for one in data)
        with limited_threads(size), memory_explained(self.config, data[0].device):
            yield
