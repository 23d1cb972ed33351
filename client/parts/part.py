"""The client's side of a part, which stands around a method."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from fedtag.client.attacks.population import Population
from fedtag.client.attacks.targets import Target
from fedtag.client.attacks.transcript import Seen, Transcript
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.side import ClientSide, Sites
from fedtag.client.prediction.outcome import Prediction, ReleasedModel
from fedtag.common.config import RunConfig
from fedtag.common.wire.records import Content


class ClientPart:
    """A method with something around it: the same interface, and whatever a part does not override is the method's."""

    def __init__(self, method: ClientSide) -> None:
        self.method = method

    def respond(self, data: SiteData, context: RunContext[Any]) -> Content:
        return self.method.respond(data, context)

    def may_lack(self, name: str, context: RunContext[Any]) -> bool:
        return self.method.may_lack(name, context)

    def predict(
        self, released: ReleasedModel, data: SiteData, context: RunContext[Any], evidence: bool = False
    ) -> Prediction:
        return self.method.predict(released, data, context, evidence)

    def check(self, data: SiteData, config: RunConfig) -> None:
        self.method.check(data, config)

    def audited_path(self, path: str) -> str:
        return self.method.audited_path(path)

    def targets(
        self, tensors: Mapping[str, Tensor], known: Mapping[str, Tensor], sites: Sites, people: Population
    ) -> Sequence[Target]:
        return self.method.targets(tensors, known, sites, people)

    def transcripts(self, seen: Sequence[Seen], sites: Sites, people: Population) -> Sequence[Transcript]:
        return self.method.transcripts(seen, sites, people)

    @property
    def seen_phases(self) -> tuple[str, ...]:
        return self.method.seen_phases

    def trained_on(self, tensors: Mapping[str, Tensor], config: RunConfig, classes: int) -> nn.Module:
        return self.method.trained_on(tensors, config, classes)

    def fits(
        self, model: nn.Module, tensors: Mapping[str, Tensor], data: SiteData, context: RunContext[Any]
    ) -> Iterator[tuple[str, Tensor]]:
        return self.method.fits(model, tensors, data, context)
