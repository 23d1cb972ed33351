"""The client's side of a method as its run sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from fedtag.client.attacks.population import Population
from fedtag.client.attacks.targets import Target
from fedtag.client.attacks.transcript import Seen, Transcript
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.prediction.outcome import Prediction, ReleasedModel
from fedtag.common.config import RunConfig
from fedtag.common.wire.records import Content

Sites = Sequence[tuple[SiteData, RunContext[Any]]]
"""Data of sites, each with a context without an exchange."""


class ClientSide(Protocol):
    """The client's side of a method, with or without parts around it: a plain object without memory.

    What must last from one exchange to the next goes through `context.memory`.
    """

    def respond(self, data: SiteData, context: RunContext[Any]) -> Content:
        """Carry out the exchange and return the contribution."""
        ...

    def may_lack(self, name: str, context: RunContext[Any]) -> bool:
        """Whether some clients' updates of this exchange have no tensor of a name, where others' have one.

        The server's side marks the same ones as optional. All others must be in the sum that a site is asked for.
        """
        ...

    def predict(
        self, released: ReleasedModel, data: SiteData, context: RunContext[Any], evidence: bool = False
    ) -> Prediction:
        """What a released model says of every node of the site, with evidence if asked for and the method has any.

        Nothing is written but the cache of encoded texts.
        """
        ...

    def check(self, data: SiteData, config: RunConfig) -> None:
        """Raise ConfigError where the method makes no sense on a site's data, of which it reads little."""
        ...

    def audited_path(self, path: str) -> str:
        """The way of scoring by which others can ask a released model that validation chose by `path`."""
        ...

    def targets(
        self, tensors: Mapping[str, Tensor], known: Mapping[str, Tensor], sites: Sites, people: Population
    ) -> Sequence[Target]:
        """Every way to ask what was released beside the model, for a privacy audit.

        Args:
            tensors: what was released, or could have been after a round.
            known: what else the server has kept of the run; it is attacked where it is among the tensors.
            sites: in the order of the population.
            people: the audited nodes.

        Raises:
            DataError: what a site has kept is of another folder.
        """
        ...

    def transcripts(self, seen: Sequence[Seen], sites: Sites, people: Population) -> Sequence[Transcript]:
        """Attacks on what a server saw in the phases of `seen_phases`, for a privacy audit; none where there are none.

        Args:
            seen: exchanges of these phases, in their order.
            sites: in the order of the population, with what each has kept of the run.
            people: the audited nodes.
        """
        ...

    @property
    def seen_phases(self) -> tuple[str, ...]:
        """The phases of whose contributions `transcripts` makes something."""
        ...

    def trained_on(self, tensors: Mapping[str, Tensor], config: RunConfig, classes: int) -> nn.Module:
        """A model of the run's backbone that whoever has what was released beside the model trains on it.

        Raises:
            ConfigError: the method releases nothing of that kind.
        """
        ...

    def fits(
        self, model: nn.Module, tensors: Mapping[str, Tensor], data: SiteData, context: RunContext[Any]
    ) -> Iterator[tuple[str, Tensor]]:
        """What such a model says of a site's nodes by way of scoring: as it is, then fitted to the site, if it is.

        The model is on the site's device, and changed.
        """
        ...
