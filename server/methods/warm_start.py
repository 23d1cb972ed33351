"""Training on from a released model: the state before round 1 with its parameters in place of the initial ones."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fedtag.common.errors import ConfigError
from fedtag.common.wire.records import prefixed
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.state import Agreement, ServerState
from fedtag.server.tracking.release import Release

SECTIONS = ("model", "average")
SIZES = ("model.backbone", "model.hidden", "model.layers")


def warmed(state: ServerState, parameters: Mapping[str, Tensor]) -> ServerState:
    """A state that begins with released parameters.

    Args:
        state: as its method makes it.
        parameters: that were released.

    Raises:
        ConfigError: they are those of another model; with the first difference.
    """
    own = state.section("model")
    shapes = {name: (tuple(value.shape), value.dtype) for name, value in own.items()}
    given = {name: (tuple(value.shape), value.dtype) for name, value in parameters.items()}
    odd = sorted(name for name in shapes.keys() | given.keys() if shapes.get(name) != given.get(name))
    if odd:
        first = odd[0]
        there, here = (f"{list(one[first][0])}" if first in one else "missing" for one in (given, shapes))
        raise ConfigError(
            f"the model to train on from does not fit this run: {first} is {there} there and {here} here ({len(odd)} "
            "tensors differ); use the method, parts, backbone and sizes that it was trained with"
        )
    there_are = [section for section in SECTIONS if state.section(section)]
    begun = {name: value for section in there_are for name, value in prefixed(section, parameters).items()}
    return ServerState({**state.tensors, **begun}, state.values)


def begun(
    method: ServerMethod, agreement: Agreement, context: ServerContext, parent: Release | None
) -> ServerState:
    """The state before round 1, with the parameters of a released model if there is one.

    Raises:
        ConfigError: the run is about other classes or features, or has another model; with the difference.
    """
    state = method.begin(agreement, context)
    if parent is None:
        return state
    card, there, here = parent.card, parent.config.to_flat(), context.settings.to_flat()
    backbone = here["model.backbone"]
    same = there["model.backbone"] == backbone
    # Of some settings of a backbone's own, such as hops, nothing is seen in its parameters.
    own = [key for key in here if same and key.startswith(f"{backbone}.")]
    compared = {
        "classes": (", ".join(agreement.classes), ", ".join(card.classes)),
        "features": (agreement.features, card.features),
        "numbers of a node's features": (agreement.dimension, card.dimension),
        **{key: (here[key], there[key]) for key in (*SIZES, *own)},
    }
    differing = [
        f"{what}: {ours} here, {theirs} there" for what, (ours, theirs) in compared.items() if ours != theirs
    ]
    if differing:
        raise ConfigError(
            f"the model to train on from does not fit this run: {'; '.join(differing)}; use the same"
        )
    return warmed(state, method.predicting(parent.parameters, context))
