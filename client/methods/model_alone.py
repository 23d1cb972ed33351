"""What is asked about the release of a method that releases a model and nothing beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from fedtag.client.attacks.population import Population
from fedtag.client.attacks.targets import Target
from fedtag.client.attacks.transcript import Seen, Transcript
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.side import Sites
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError


class ModelAlone:
    """The answers of such a method, of which any data make sense.

    Attributes:
        seen_phases: those of whose contributions `transcripts` makes something.
    """

    seen_phases: tuple[str, ...] = ()

    def check(self, data: SiteData, config: RunConfig) -> None:
        """All data will do."""

    def audited_path(self, path: str) -> str:
        """The same one."""
        return path

    def targets(
        self, tensors: Mapping[str, Tensor], known: Mapping[str, Tensor], sites: Sites, people: Population
    ) -> Sequence[Target]:
        """Nothing is released beside the model."""
        return ()

    def transcripts(self, seen: Sequence[Seen], sites: Sites, people: Population) -> Sequence[Transcript]:
        return ()

    def trained_on(self, tensors: Mapping[str, Tensor], config: RunConfig, classes: int) -> nn.Module:
        raise ConfigError(f"method {config.method} releases nothing that can be trained on")

    def fits(
        self, model: nn.Module, tensors: Mapping[str, Tensor], data: SiteData, context: RunContext[Any]
    ) -> Iterator[tuple[str, Tensor]]:
        yield from ()
