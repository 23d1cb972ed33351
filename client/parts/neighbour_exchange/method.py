"""Any method on features to which linked nodes at other institutions have added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from fedtag.client.attacks.population import Population
from fedtag.client.attacks.targets import Target
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.side import ClientSide, Sites
from fedtag.client.parts.neighbour_exchange.bundles import refuse_directed
from fedtag.client.parts.neighbour_exchange.exchange import NAME, alone, take_part
from fedtag.client.parts.part import ClientPart
from fedtag.client.prediction.outcome import Prediction, ReleasedModel
from fedtag.client.site.state import Remembered, newest_kept
from fedtag.common.config import RunConfig
from fedtag.common.errors import DataError
from fedtag.common.parts.neighbour_exchange.names import PHASES
from fedtag.common.parts.neighbour_exchange.settings import NeighbourExchangeConfig
from fedtag.common.settings.run_settings import RunSettings
from fedtag.common.wire.records import Content

Context = RunContext[Any]


class Exchanging(ClientPart):
    """Phases: those of the exchange, before all others, and those of the method.

    A site that was not there when sums came, and one that predicts without what it kept of a run, has ÂX of its own
    nodes.
    """

    def respond(self, data: SiteData, context: Context) -> Content:
        if context.phase in PHASES:
            return take_part(data, context)
        return self.method.respond(exchanged(data, context), context)

    def predict(
        self, released: ReleasedModel, data: SiteData, context: Context, evidence: bool = False
    ) -> Prediction:
        """By the features that the site kept of a run, where its memory is that of one.

        Raises:
            DataError: it has kept none, or those of other nodes.
        """
        return self.method.predict(released, exchanged(data, context), context, evidence)

    def check(self, data: SiteData, config: RunConfig) -> None:
        refuse_directed(data.site.name, data.directed)
        self.method.check(data, config)

    def targets(
        self, tensors: Mapping[str, Tensor], known: Mapping[str, Tensor], sites: Sites, people: Population
    ) -> Sequence[Target]:
        """With the features that the sites keep, as far as they are at hand."""
        asked = [(with_kept(data, context), context) for data, context in sites]
        return self.method.targets(tensors, known, asked, people)

    def fits(
        self, model: nn.Module, tensors: Mapping[str, Tensor], data: SiteData, context: Context
    ) -> Iterator[tuple[str, Tensor]]:
        return self.method.fits(model, tensors, exchanged(data, context), context)


def with_kept(data: SiteData, context: Context) -> SiteData:
    """The site's data with the features that it kept of its newest run; those of its own nodes alone without any.

    Raises:
        DataError: what it kept is of other nodes.
    """
    kept = newest_kept(data.site.state_in_folder, NAME)
    if kept is None:
        return exchanged(data, context)
    check_rows(kept.tensors["x"], data)
    return data.with_features(kept.tensors["x"].to(data.device))


def exchanged(data: SiteData, context: Context) -> SiteData:
    """The site's data with the features after the exchange: ÂX with what came of the others' nodes.

    Raises:
        DataError: the site has kept none of the run whose memory it is, or those of other nodes.
    """

    def made() -> SiteData:
        hops = context.config.own(NeighbourExchangeConfig).hops
        kept = context.memory.derived(NAME, lambda: Remembered({"x": alone(data, hops)}, {}))
        x = kept.tensors["x"]
        check_rows(x, data)
        return data.with_features(x.to(data.device))

    return context.cached(data, NAME, made)


def check_rows(x: Float[Tensor, "nodes dim"], data: SiteData) -> None:
    """Raise DataError where features that a site has kept are not those of its folder's nodes."""
    wanted = tuple(data.graph.x.shape)
    if tuple(x.shape) != wanted:
        raise DataError(
            f"{data.site.name} has kept features of {tuple(x.shape)} (nodes, numbers), but {data.site.folder} has "
            f"{wanted}: give the folder with which the run was made"
        )


def around(method: ClientSide, settings: RunSettings) -> ClientSide:
    """A method on exchanged features."""
    return Exchanging(method)
