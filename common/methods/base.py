"""What all methods send: the records of the base, of secure sums, and of models that are averaged."""

from __future__ import annotations

from typing import Any

from fedtag.common.methods.records import Record
from fedtag.common.methods.reported import (
    CondensedNodes,
    Durations,
    NodeCounts,
    Number,
    Shown,
    Training,
)
from fedtag.common.secure.names import DRAW, PEERS, SHOWN, UNOPENED, UNREAD
from fedtag.common.secure.phases import KEYS, SHARES, SIGN, UNMASK

WORKING = "working"
"""The signs of a site that works for longer than its patience; no value of a reply."""
Table = dict[str, Any]
"""Of which its reader checks more than a schema can say."""

BASE_RECORDS = (
    Record("best", "the global model of the best round so far", told=True),
    Record(
        "scores",
        "right and wrong predictions by class, confidences in 15 bins, and how many nodes of each class, and how many "
        "others, score in each of 128 bins for it",
        summed=True,
    ),
    Record("sizes", "numbers of nodes: all, training, validation, test", form="value", schema=NodeCounts),
    Record(
        "training",
        "the loss of the last local step, the number of steps and of effective steps",
        form="value",
        schema=Training,
    ),
    Record(
        "statistics",
        "mean predicted class distribution, norm of attention, validation accuracy",
        form="value",
        schema=Table,
    ),
    Record("masked", "the update and what is hidden with it, under masks that only sums lose", "masked"),
    Record(KEYS, "public keys", form="value", schema=Any),
    Record(DRAW, "what a client committed to for the drawing of groups", form="value", schema=str),
    Record(PEERS, "public keys of all clients", form="value"),
    Record(UNOPENED, "whose letters could not be opened", form="value", schema=list[str]),
    Record(SHOWN, "how many records were shown to whom", form="value", schema=Shown),
    Record("trains", "whether the client has any training node", form="value", schema=bool),
    Record(
        SHARES,
        "who is asked, public keys and commitments of coming masks; in letters, sealed shares of secrets",
        form="value",
        schema=Any,
    ),
    Record(
        "sum",
        "which sum, its members with their public keys, their weights, and what is summed",
        form="value",
    ),
    Record(
        UNREAD,
        "members whose letters with shares of secrets could not be read",
        form="value",
        schema=list[str],
    ),
    Record(SIGN, "who survived, and signatures of that", form="value", schema=Any),
    Record(
        UNMASK, "who survived, and the shares that take the masks off their sum", form="value", schema=Any
    ),
    Record(
        "introduction",
        "names of the classes, kind and dimension of features, chunks and tokens encoded",
        form="value",
        schema=Table,
    ),
    Record("initial", "fingerprint of the parameters that the seed gives", form="value", schema=str),
    Record("seconds", "durations of the local phases", form="value", schema=Durations),
    Record(WORKING, "that it is at work, since how many seconds, and what share of it is done", form="value"),
    Record(
        "condensation",
        "share of nodes that was trained on; how many synthetic ones are near to real ones",
        form="value",
        schema=CondensedNodes,
    ),
    Record(
        "tokens", "numbers of language model tokens and of summaries", form="value", schema=dict[str, Number]
    ),
)
"""What every method may send; a method names what comes beside them, or what one of them means in its case.

What the protocol of secure sums sends is checked by its own rules.
"""


def averaged_records(update: str) -> tuple[Record, ...]:
    """The records of a method whose clients move a global model.

    Args:
        update: what an update reveals.
    """
    return (
        Record("model", "the global model", told=True),
        Record("average", "the running average of the global model", told=True),
        Record("update", update, summed=True),
    )
