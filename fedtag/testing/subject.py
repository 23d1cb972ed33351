"""What is checked: settings of a run, with the tiny runs that are made of them, each once for all checks."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn
from unittest import SkipTest

from fedtag.client.data.text_graph import TextGraph
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import completed_settings
from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS
from fedtag.common.models.parameters import fingerprint
from fedtag.runs.prediction import Predicted
from fedtag.testing.graphs import federation, odd_federation, of_one_class, relabelled
from fedtag.testing.trial import Trial, Watch, tried

ROUNDS = 3
SMALL = {
    "rounds": ROUNDS,
    "ratio": 0.2,
    "device": "cpu",
    "model.hidden": 8,
    "exchange.poll": 0.001,
    "privacy.block-rounds": 4,
    "condenser.hidden": 8,
    "condenser.outer-loops": 2,
    "condenser.inner-loops": 4,
    "condenser.expert-steps": 30,
}
"""What makes a run quick; settings of a subject come before it."""


@dataclass
class Subject:
    """What is checked.

    Args:
        what: how a person calls it.
        settings: that choose it, and further ones.
        folder: for runs.
        predicted: with what the plain run released, by site, once it was asked for.
    """

    what: str
    settings: Mapping[str, Any]
    folder: Path
    predicted: dict[str, Predicted] = field(default_factory=dict, repr=False)
    _runs: int = field(default=0, repr=False)

    @cached_property
    def config(self) -> RunConfig:
        """Of its runs over plain institutions."""
        return self.configured(len(self.graphs))

    @cached_property
    def graphs(self) -> Sequence[TextGraph]:
        """Plain institutions."""
        return federation(METHODS.get(completed_settings(self.settings)["method"]).traits.pooled)

    @property
    def releases(self) -> bool:
        """Whether its runs leave a model."""
        return self.config.spec.traits.releases != "nothing"

    def configured(self, clients: int, **changes: Any) -> RunConfig:
        """Settings of a run of some clients; in names of settings, two underscores stand for a point."""
        changed = {key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()}
        return RunConfig.from_flat({**self._flat(clients), **changed})

    def run(
        self,
        graphs: Sequence[TextGraph] | None = None,
        watch: Watch | None = None,
        stopped: bool = False,
        resumed: bool = True,
        **changes: Any,
    ) -> Trial:
        """A run; over plain institutions where no others are given."""
        graphs = self.graphs if graphs is None else graphs
        self._runs += 1
        config = self.configured(len(graphs), **changes)
        return tried(config, graphs, self.folder / f"run-{self._runs}", watch or Watch(), stopped, resumed)

    @cached_property
    def plain(self) -> Trial:
        """A run with nothing special."""
        return self.run()

    @cached_property
    def again(self) -> Trial:
        """The same with all that must not matter: order of clients, a stop after a round, processes of a message."""
        return self.run(watch=Watch(reverse=True, anew=True), stopped=True)

    @cached_property
    def seeded(self) -> Trial:
        """With another seed: its first round, or all of them where only what clients keep tells what they learned."""
        return self.run(stopped=self.releases, resumed=False, seed=1)

    @cached_property
    def tested(self) -> Trial:
        """Test nodes have other labels."""
        return self.run([of_one_class(graph) for graph in self.graphs])

    @cached_property
    def validated(self) -> Trial:
        """Validation nodes by which models are judged have other labels."""
        judging = self.plain.watch.notes.judging
        if self.config.spec.traits.pooled:
            # What is all in one place is called otherwise there.
            judging = dict(zip([self.graphs[0].name], judging.values(), strict=True))
        return self.run([relabelled(graph, judging) for graph in self.graphs])

    @cached_property
    def odd(self) -> Trial:
        """Clients that lack something.

        Raises:
            SkipTest: it has one client, which has its own check.
        """
        if self.config.spec.traits.pooled:
            self.waive("has one client, which has its own check")
        return self.run(odd_federation(), rounds=self.fewer)

    @cached_property
    def fewest(self) -> int:
        """Of how many rounds a run may be, at the least."""
        for rounds in range(1, ROUNDS):
            with contextlib.suppress(ConfigError):
                return self.configured(len(self.graphs), rounds=rounds).rounds
        return ROUNDS

    @property
    def fewer(self) -> int:
        """Of how many rounds a run is that needs one after another and no more."""
        return max(2, self.fewest)

    def waive(self, reason: str) -> NoReturn:
        """Raise SkipTest: a check makes no sense of the subject."""
        raise SkipTest(f"{self.what} {reason}")

    def _flat(self, clients: int) -> dict[str, Any]:
        return {**SMALL, "clients": clients, **self.settings}


def require(holds: object, subject: Subject, sentence: str) -> None:
    """Raise AssertionError with what a subject breaks."""
    if not holds:
        raise AssertionError(f"{subject.what} {sentence}")


def same_parameters(one: Trial, other: Trial) -> bool:
    """Whether two runs came to the same, on the server and at the clients, and validation chose the same."""
    return one.parameters() == other.parameters() and fingerprint(one.best) == fingerprint(other.best)
