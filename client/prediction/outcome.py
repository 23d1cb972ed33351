"""A released model as a method receives it, and what the method answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jaxtyping import Float, Int
from torch import Tensor, nn

from fedtag.client.evidence.packs import EvidencePack
from fedtag.common.errors import RunError
from fedtag.common.models.parameters import load_parameters

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class ReleasedModel:
    """What a method predicts by.

    Args:
        parameters: of the model.
        round: after which they were taken.
        path: the way of scoring that validation chose; it predicts, unless it needs something that a site keeps to
            itself and that is not at hand.
    """

    parameters: Mapping[str, Tensor]
    round: int
    path: str


@dataclass(frozen=True)
class Prediction:
    """What a model says of every node of a site, in the order of its nodes.

    Args:
        logits: by a way of scoring.
        packs: one a node, None where no evidence was asked for or the method has none. Their predictions are
            those of the path that selects texts, which need not be the way of scoring.
        path: the way of scoring that predicted; None: the model's.
        hidden: what the model makes of every node before it says a class; None where the method has no such thing.
    """

    logits: Float[Tensor, "nodes classes"]
    packs: Sequence[EvidencePack] | None = None
    path: str | None = None
    hidden: Float[Tensor, "nodes hidden"] | None = None

    @property
    def classes(self) -> Int[Tensor, " nodes"]:
        """Position of the predicted class of every node, as scores count it."""
        return self.logits.argmax(1)


def load_released(model: M, released: ReleasedModel) -> M:
    """The model with the released parameters.

    Raises:
        RunError: they are those of another model: names, shapes or number types differ.
    """
    own = {name: (tuple(value.shape), value.dtype) for name, value in model.state_dict().items()}
    given = {name: (tuple(value.shape), value.dtype) for name, value in released.parameters.items()}
    odd = sorted(name for name in own.keys() | given.keys() if own.get(name) != given.get(name))
    if odd:
        more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
        raise RunError(
            f"the parameters do not fit the model that its settings describe ({odd[0]}{more}): "
            "restore model.safetensors and model.json from one run"
        )
    load_parameters(model, released.parameters)
    return model
