"""What clients of every method report beside tensors: the forms of these values, and their bounds."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

MOST_NODES = 10**12
MOST_SECONDS = 1e9
MOST_PHASES = 64
MOST_EFFECTIVE_STEPS = 1e9

Number = Annotated[int, Field(ge=0, le=MOST_NODES)]
Share = Annotated[float, Field(ge=0, le=1)]
Duration = Annotated[float, Field(ge=0, le=MOST_SECONDS)]
Durations = Annotated[dict[str, Duration], Field(max_length=MOST_PHASES)]
"""Seconds by phase of the local work."""
Shown = dict[str, dict[str, Number]]
"""Numbers of records by kind and recipient."""


class Sizes(TypedDict):
    """Numbers of nodes; see `NodeCounts`."""

    nodes: Number
    train_nodes: Number
    val_nodes: Number
    test_nodes: Number


class Training(TypedDict):
    """Local work: the loss of the last step, steps, and what these amount to in steps of plain descent."""

    loss: Annotated[float, Field(allow_inf_nan=False)]
    steps: Annotated[int, Field(ge=0)]
    normaliser: NotRequired[Annotated[float, Field(ge=0, le=MOST_EFFECTIVE_STEPS)]]


class Condensation(TypedDict):
    """Nodes of the condensed and of the original graph, shares of the former that are near to real ones, and whether
    its links are among candidates of an approximate index."""

    core: Number
    nodes: Number
    copied: NotRequired[Share]
    close: NotRequired[Share]
    approximate: NotRequired[bool]


def _split(sizes: Sizes) -> Sizes:
    if sizes["train_nodes"] + sizes["val_nodes"] + sizes["test_nodes"] > sizes["nodes"]:
        raise ValueError("names more training, validation and test nodes than nodes")
    return sizes


def _condensed(reported: Condensation) -> Condensation:
    if reported["core"] > reported["nodes"]:
        raise ValueError("names more condensed nodes than nodes")
    return reported


NodeCounts = Annotated[Sizes, AfterValidator(_split)]
CondensedNodes = Annotated[Condensation, AfterValidator(_condensed)]
