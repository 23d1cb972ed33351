"""Any method on a graph that is mended with generated neighbours."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fedtag.client.methods.registry import ClientMethod, client_method
from fedtag.client.parts.neighbour_generator.training import (
    fresh_generator,
    generator_of_its_own,
    train_generator,
)
from fedtag.client.prediction.outcome import Prediction, ReleasedModel
from fedtag.client.site.state import Remembered
from fedtag.common.errors import RunError
from fedtag.common.models.parameters import difference, fingerprint, load_parameters, parameters_of
from fedtag.common.parts.neighbour_generator.names import EXCHANGE, GENERATE_PHASE, GENERATOR, GENERATOR_PART
from fedtag.common.wire.records import Content, Instruction, prefixed

if TYPE_CHECKING:
    from fedtag.client.context.session import Session
    from fedtag.common.config import RunConfig


class Mending:
    """Phases: `generate` (train the received generator), and those of the method, on the mended graph.

    The generator comes with the first instruction after its training and stays in the site's state folder. Where a
    method sums nothing over clients, each trains one alone.
    """

    def __init__(self, method: ClientMethod) -> None:
        self.method = method

    def respond(self, instruction: Instruction, session: Session) -> Content:
        if instruction.phase == GENERATE_PHASE:
            return self._generate(instruction, session)
        if session.generator is None:
            session.generator = session.derived(GENERATOR, lambda: self._kept(instruction, session)).tensors
        return self.method.respond(instruction, session)

    def predict(self, released: ReleasedModel, session: Session, evidence: bool) -> Prediction:
        """By the released model on the graph that the released generator mends, for the folder's own nodes."""
        parts = Content(released.parameters)
        session.generator = parts.section(GENERATOR)
        model = {
            name: value for name, value in released.parameters.items() if not name.startswith(f"{GENERATOR}/")
        }
        prediction = self.method.predict(replace(released, parameters=model), session, evidence)
        return Prediction(prediction.logits[: session.local_graph.num_nodes], prediction.packs)

    def _generate(self, instruction: Instruction, session: Session) -> Content:
        told, received = instruction.content.values, instruction.content.section("model")
        model = fresh_generator(session)
        if received:
            load_parameters(model, received)
        start = parameters_of(model)
        values: dict[str, object] = {"sizes": session.sizes}
        if not received:
            values["initial"] = fingerprint(start)
        # Whoever has no training node has no weight in any sum.
        if not session.sizes["train_nodes"]:
            return Content({}, values)
        training = train_generator(session, model, told[EXCHANGE], told.get("training_seconds"))
        update = difference(parameters_of(model), start)
        return Content(prefixed("update", update), {**values, "training": vars(training)})

    def _kept(self, instruction: Instruction, session: Session) -> Remembered:
        if not session.config.spec.traits.sums:
            return Remembered(generator_of_its_own(session), {})
        received = instruction.content.section(GENERATOR)
        if not received:
            raise RunError(
                f"{session.site.state} no longer holds the generator of neighbours that this site got in run "
                f"{instruction.run}: restart the site's SuperNode, which then gets it anew"
            )
        return Remembered(received, {})


def method_of(config: RunConfig) -> ClientMethod:
    """The method of a run, with what its settings put around it.

    Raises:
        ConfigError: there is no such method.
    """
    method = client_method(config.method)
    return Mending(method) if GENERATOR_PART in config.part_names else method
