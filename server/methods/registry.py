"""Methods on the server's side: their interface, and how they are found by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

import torch
from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.methods.spec import METHODS
from fedtag.common.settings.registry import resolved
from fedtag.common.wire.records import Content, Reply

Protection = Literal["none", "masked", "encrypted", "noised"]


@dataclass(frozen=True)
class Phase:
    """One exchange of a round.

    Args:
        name: by which the client's method knows it.
        why: the reason for the exchange, since each costs seconds in a deployment.
        sums: whether clients contribute updates that are combined into one; under secure aggregation the
            server then learns their sum only.
        moves: whether what they combine to is a step of the global model, which the server optimiser takes; what
            else it is, the method alone knows.
        letters: whether clients exchange sealed records with one another, which come with the instruction and go
            out with the reply; what is sent in one such phase arrives in the next.
    """

    name: str
    why: str
    sums: bool = False
    moves: bool = True
    letters: bool = False


@dataclass(frozen=True)
class Aggregate:
    """What the updates of a phase came to.

    Args:
        step: the combined update; in a phase that moves the global model, by the names of its tensors.
        model: the global model after the server optimiser took the step; empty where the phase moves none.
        weights: w_i of those who contributed.
    """

    step: Mapping[str, Tensor]
    model: Mapping[str, Tensor]
    weights: Mapping[str, float]


@dataclass(frozen=True)
class TensorForm:
    """The only form in which a tensor of a reply is accepted.

    Args:
        shape: of the tensor.
        dtype: of its values.
        optional: a client that makes no use of the tensor leaves it out.
        any_length: the first dimension is what the client makes it; exchange.max-message-mb bounds it.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    optional: bool = False
    any_length: bool = False

    def fits(self, shape: tuple[int, ...], dtype: torch.dtype) -> bool:
        """Whether a tensor has this form."""
        free = 1 if self.any_length else 0
        same = len(shape) == len(self.shape) and shape[free:] == self.shape[free:]
        return same and dtype == self.dtype


def update_forms(model: Mapping[str, Tensor]) -> dict[str, TensorForm]:
    """The forms of an update that moves all of a model."""
    return {f"update/{name}": TensorForm(tuple(value.shape), value.dtype) for name, value in model.items()}


@dataclass(frozen=True)
class Agreement:
    """What all clients of a run have in common, from their introductions in their first reply."""

    classes: tuple[str, ...]
    dimension: int
    features: str


@dataclass(frozen=True)
class Kind:
    """A kind of record that crosses the network, and what its reader learns."""

    reveals: str
    protected: Protection = "none"


@dataclass(frozen=True)
class ServerState:
    """All that a method knows between exchanges; it is the checkpoint.

    Args:
        tensors: named by paths, "model/..." being the global model.
        values: JSON-able.
    """

    tensors: Mapping[str, Tensor]
    values: Mapping[str, Any] = field(default_factory=dict)

    def section(self, kind: str) -> dict[str, Tensor]:
        """The tensors of one kind, without the prefix."""
        return Content(self.tensors).section(kind)


class ServerMethod(Protocol):
    """The server's part of a method: a plain object without memory.

    `begin` needs what only the clients know (classes, feature dimension), so it is called when the first
    replies have come; until then the state is None and clients start from the seed.

    `condenses`: whether `ratio` matters, whatever the condenser.
    `keeps_evidence`: whether clients write evidence for the released model, so that it goes to them at the end.
    `kinds`: what the method's records reveal, by the first part of their tensors' names, and by letters' kinds.
    """

    condenses: bool
    keeps_evidence: bool
    kinds: Mapping[str, Kind]

    def phases(self, round_number: int, config: RunConfig) -> tuple[Phase, ...]:
        """The exchanges of a round, in order; scores of the last round's model come with the first."""
        ...

    def releasable(self, round_number: int, config: RunConfig) -> bool:
        """Whether the model of a round may be the one that is chosen by validation and released."""
        ...

    def scoring_paths(self, config: RunConfig) -> tuple[str, ...]:
        """The ways of scoring that clients report; the better one on validation counts, the first of equals."""
        ...

    def begin(self, agreement: Agreement, config: RunConfig) -> ServerState:
        """The state before round 1."""
        ...

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, config: RunConfig
    ) -> Content:
        """What a client gets; `client` is None while its name is unknown."""
        ...

    def expected(self, state: ServerState, phase: Phase) -> Mapping[str, TensorForm]:
        """The tensors of a contribution to the phase: all but the optional ones, or none at all.

        Under secure aggregation the phase `use` (common/secure/phases.py) comes before the first sum that has optional
        ones; clients answer it with an update of the same names.
        """
        ...

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        config: RunConfig,
    ) -> ServerState:
        """The state after a phase.

        `replies` are the contributions; under secure aggregation they hold no update. `aggregate` is what the
        updates came to, empty where none came; then the state stays as it is.
        """
        ...

    def released(self, state: ServerState) -> Mapping[str, Tensor]:
        """The model that is scored and released; empty if models stay with the clients."""
        ...

    def condensed(self, state: ServerState, config: RunConfig) -> Mapping[str, Tensor]:
        """The condensed graph behind the model that is scored, as it is released; empty where there is none."""
        ...

    def history(self, state: ServerState, config: RunConfig) -> Mapping[str, Tensor]:
        """What the run directory keeps of a scored round for audits over rounds; empty where that is not asked for."""
        ...

    def is_personal(self, config: RunConfig) -> bool:
        """Whether what a client is told in its first exchange depends on who it is.

        A server that goes on with a run then asks all for their names first.
        """
        ...

    def remark(self, state: ServerState, config: RunConfig) -> str:
        """What a person should know of a state that is complete but not as intended; empty where it is."""
        ...

    def documents(self, state: ServerState) -> Mapping[str, str]:
        """What the method adds to the directory of a finished run: texts by their relative paths."""
        ...


def server_method(name: str) -> ServerMethod:
    """The server's side of a method.

    Raises:
        ConfigError: the method is not installed, or cannot be used.
    """
    return cast(ServerMethod, resolved(METHODS.get(name).server, METHODS.origin(name).package))
