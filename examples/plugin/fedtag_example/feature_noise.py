"""The part: any method on features with noise."""

from __future__ import annotations

from typing import Any

import torch

from fedtag.extension import (
    ClientPart,
    ClientSide,
    Content,
    Prediction,
    ReleasedModel,
    RunContext,
    RunSettings,
    SiteData,
)
from fedtag_example.settings import FeatureNoiseConfig

Context = RunContext[Any]


class FeatureNoise(ClientPart):
    """The method sees X + σ N(0, I) wherever it looks, the same noise in all of a run; the server has nothing to do.

    It hands the method another SiteData and knows nothing of the method.
    """

    def respond(self, data: SiteData, context: Context) -> Content:
        return self.method.respond(noisy(data, context), context)

    def predict(
        self, released: ReleasedModel, data: SiteData, context: Context, evidence: bool = False
    ) -> Prediction:
        return self.method.predict(released, noisy(data, context), context, evidence)


def noisy(data: SiteData, context: Context) -> SiteData:
    """The site's data with noise on its features, made once for as long as these are kept."""

    def made() -> SiteData:
        x, deviation = data.graph.x, context.config.own(FeatureNoiseConfig).deviation
        # Drawn for a purpose by name, from the run's seed: the same in every process, whatever else is drawn.
        noise = torch.randn(x.shape, generator=context.generator(data.site.name, "feature noise"))
        return data.with_features(x + deviation * noise.to(x))

    return context.cached(data, "feature noise", made)


def around(method: ClientSide, settings: RunSettings) -> ClientSide:
    """A method on noisy features."""
    return FeatureNoise(method)
