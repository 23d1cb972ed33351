"""Any method on a graph that is mended with generated neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.side import ClientSide
from fedtag.client.parts.neighbour_generator.training import (
    fresh_generator,
    generator_of_its_own,
    mended_graph,
    train_generator,
)
from fedtag.client.parts.part import ClientPart
from fedtag.client.prediction.outcome import Prediction, ReleasedModel
from fedtag.client.site.state import Remembered
from fedtag.common.errors import RunError
from fedtag.common.models.parameters import difference, fingerprint, load_parameters, parameters_of
from fedtag.common.parts.neighbour_generator.names import EXCHANGE, GENERATE_PHASE, GENERATOR
from fedtag.common.settings.run_settings import RunSettings
from fedtag.common.wire.records import Content, prefixed

Context = RunContext[Any]


class Mending(ClientPart):
    """Phases: `generate` (train the received generator), and those of the method, on the mended graph.

    The generator comes with the first instruction after its training and stays in the site's state folder. Where a
    method sums nothing over clients, each trains one alone.
    """

    def respond(self, data: SiteData, context: Context) -> Content:
        if context.phase == GENERATE_PHASE:
            return self._generate(data, context)
        return self.method.respond(self._mended(data, context), context)

    def may_lack(self, name: str, context: Context) -> bool:
        return context.phase != GENERATE_PHASE and self.method.may_lack(name, context)

    def predict(
        self, released: ReleasedModel, data: SiteData, context: Context, evidence: bool = False
    ) -> Prediction:
        """By the released model on the graph that the released generator mends, for the folder's own nodes."""
        own = f"{GENERATOR}/"
        model = {name: value for name, value in released.parameters.items() if not name.startswith(own)}
        mended = mended_by(Content(released.parameters).section(GENERATOR), data, context)
        prediction = self.method.predict(replace(released, parameters=model), mended, context, evidence)
        nodes = data.graph.num_nodes
        hidden = None if prediction.hidden is None else prediction.hidden[:nodes]
        return replace(prediction, logits=prediction.logits[:nodes], hidden=hidden)

    def _generate(self, data: SiteData, context: Context) -> Content:
        received = context.content.section("model")
        model = fresh_generator(data, context)
        if received:
            load_parameters(model, received)
        start = parameters_of(model)
        values: dict[str, object] = {"sizes": data.sizes}
        if not received:
            values["initial"] = fingerprint(start)
        # Whoever has no training node has no weight in any sum.
        if not data.sizes["train_nodes"]:
            return Content({}, values)
        exchange, until = context.content.values[EXCHANGE], context.training_deadline()
        training = train_generator(model, exchange, data, context, until)
        update = difference(parameters_of(model), start)
        return Content(prefixed("update", update), {**values, "training": vars(training)})

    def _mended(self, data: SiteData, context: Context) -> SiteData:
        def made() -> SiteData:
            kept = context.memory.derived(GENERATOR, lambda: self._generator(data, context))
            return mended_by(kept.tensors, data, context)

        return context.cached(data, "mended", made)

    def _generator(self, data: SiteData, context: Context) -> Remembered:
        if not context.config.spec.traits.sums:
            return Remembered(generator_of_its_own(data, context), {})
        received = context.content.section(GENERATOR)
        if not received:
            raise RunError(
                f"{data.site.state} no longer holds the generator of neighbours that this site got in run "
                f"{context.run}: restart the site's SuperNode, which then gets it anew"
            )
        return Remembered(received, {})


def mended_by(generator: Mapping[str, Tensor], data: SiteData, context: Context) -> SiteData:
    """The site's data with generated neighbours behind its nodes."""
    return data.with_graph(mended_graph(generator, data, context))


def around(method: ClientSide, settings: RunSettings) -> ClientSide:
    """A method on mended graphs."""
    return Mending(method)
