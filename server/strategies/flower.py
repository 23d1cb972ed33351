"""Flower's own strategies on tensors: updates take the form of replies, and arrays come back."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MessageType, Metadata, MetricRecord, RecordDict
from flwr.app.message import make_message
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray
from torch import Tensor

WEIGHT = "num-examples"

Arrays = dict[str, NDArray[np.float64]]


def float64_arrays(tensors: Mapping[str, Tensor], names: Sequence[str]) -> Arrays:
    """The named tensors in this order, in the precision in which the server computes."""
    return {name: tensors[name].detach().cpu().double().numpy() for name in names}


def array_record(arrays: Mapping[str, NDArray[np.float64]]) -> ArrayRecord:
    """The arrays as Flower keeps a model."""
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})


def aggregated(strategy: Strategy, number: int, updates: Sequence[Arrays]) -> Arrays:
    """What the strategy makes of updates that count equally.

    Args:
        strategy: one of `flwr.serverapp.strategy`; it may remember.
        number: of the step, from 1.
        updates: at least one; all with the same names, in the same order, and finite.
    """
    replies = [_reply(place, update) for place, update in enumerate(updates)]
    with _quiet(), _little_garbage():
        record, _ = strategy.aggregate_train(number, replies)
    # A strategy skips a round with too few replies, which callers have refused before.
    assert record is not None
    return {name: array.numpy() for name, array in record.items()}


def _reply(place: int, update: Arrays) -> Message:
    # Metadata of its own, because Flower's default comes from the process of a running ServerApp.
    metadata = Metadata(
        run_id=0,
        message_id="",
        src_node_id=place,
        dst_node_id=0,
        reply_to_message_id="",
        group_id="",
        created_at=0.0,
        ttl=1.0,
        message_type=MessageType.TRAIN,
    )
    content = RecordDict({"arrays": array_record(update), "metrics": MetricRecord({WEIGHT: 1.0})})
    return make_message(metadata, content)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Flower's lines about numbers of replies, which the round loop reports itself."""

    def matters(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING

    logger = logging.getLogger("flwr")
    logger.addFilter(matters)
    try:
        yield
    finally:
        logger.removeFilter(matters)


@contextmanager
def _little_garbage() -> Iterator[None]:
    """Keeps what exists out of collections: Bulyan forces one a client, 0.2 s each over all modules of torch."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
