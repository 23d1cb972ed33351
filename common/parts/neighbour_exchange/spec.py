"""The exchange of neighbour sums as one specification."""

from __future__ import annotations

from pydantic import ConfigDict
from typing_extensions import TypedDict

from fedtag.common.methods.records import Record
from fedtag.common.methods.reported import Number
from fedtag.common.methods.spec import METHODS, Exclusion
from fedtag.common.parts.neighbour_exchange.names import KEY, NEIGHBOURS, PARTS, REQUEST
from fedtag.common.parts.neighbour_exchange.settings import NeighbourExchangeConfig
from fedtag.common.parts.spec import PartSpec
from fedtag.common.settings.registry import INTERFACE
from fedtag.common.settings.run_settings import RunSettings


class NeighbourCounts(TypedDict):
    """How many nodes of a client got a sum; see `COUNTS`."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    boundary: Number
    added: Number
    small: Number
    missing: Number


def _no_mode(settings: RunSettings) -> str:
    if settings.own(NeighbourExchangeConfig).mode != "off":
        return ""
    return f"parts has {SPEC.name}, and {SPEC.name}.mode = off: set mode = summed or encrypted"


def _apart(settings: RunSettings) -> str:
    traits = METHODS.get(settings.method).traits
    if traits.pooled:
        return f"method {settings.method} holds the whole graph, in which no neighbour is missing: {_off()}"
    return (
        ""
        if traits.sums
        else f"method {settings.method} keeps clients apart, and {SPEC.name} joins them: {_off()}"
    )


def _texts(settings: RunSettings) -> str:
    if METHODS.get(settings.method).traits.texts == "no":
        return ""
    return (
        f"method {settings.method} selects evidence among texts, and a sum over neighbours has none: {_off()}"
    )


def _inductive(settings: RunSettings) -> str:
    if not settings.train.inductive:
        return ""
    return (
        f"{SPEC.name} brings the features of test nodes to those that train, which train.inductive forbids: set one of "
        "them off"
    )


def _copies(settings: RunSettings) -> str:
    if not settings.data.overlap:
        return ""
    return f"{SPEC.name} would add copied nodes twice, as copies and as neighbours elsewhere: set data.overlap = 0"


def _hidden(settings: RunSettings) -> str:
    if not settings.privacy.hide_statistics:
        return ""
    return (
        f"privacy.hide-statistics lets masked sums alone through, and {SPEC.name} has parts of other sums: set one of "
        "them off"
    )


def _off() -> str:
    return f"set {SPEC.name}.mode = off"


SPEC = PartSpec(
    name="neighbour-exchange",
    title="Features join sums over linked nodes at other institutions, which no one sees singly",
    source="FedGC, section 3.1; FedGCN, Yao et al., NeurIPS 2023",
    interface=INTERFACE,
    settings=NeighbourExchangeConfig,
    renamed={
        "fedgc.exchange": "neighbour-exchange.mode",
        "fedgc.exchange-hops": "neighbour-exchange.hops",
        "fedgc.min-neighbours": "neighbour-exchange.min-neighbours",
    },
    switch="mode",
    records=(
        Record(
            PARTS,
            "to the server: for which institution a sum is, how many take part in it, its size; to the client: sums "
            "of features over at least neighbour-exchange.min-neighbours foreign neighbours of a node, divided by the "
            "roots of their degrees; where most features are zero, the others may tell by their size whose they are",
            "encrypted",
            schema=list[list[str | int]],
        ),
        Record(
            REQUEST,
            "nodes that have neighbours at the peer, who else has neighbours of them, and how many everybody has",
            form="letter",
        ),
        Record(
            KEY,
            "the key of the homomorphic encryption, which every client holds: one that works together with the server "
            "opens every part of every sum",
            form="letter",
        ),
        Record(
            NEIGHBOURS,
            "how many nodes have neighbours elsewhere, got a sum over them, have too few, miss it",
            form="value",
            schema=NeighbourCounts,
        ),
    ),
    excluded=(
        Exclusion("no mode", _no_mode),
        Exclusion("methods whose clients are one, or apart", _apart),
        Exclusion("methods that read texts", _texts),
        Exclusion("inductive training", _inductive),
        Exclusion("copied nodes", _copies),
        Exclusion("hidden statistics", _hidden),
    ),
    keeps=lambda settings: True,
    client="fedtag.client.parts.neighbour_exchange.method:around",
    server="fedtag.server.parts.neighbour_exchange.method:around",
    report="fedtag.server.parts.neighbour_exchange.report:sections",
)
