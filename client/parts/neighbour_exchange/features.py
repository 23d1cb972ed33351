"""The features that a client of FedGC has after the exchange, in a run and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from fedtag.client.parts.neighbour_exchange.exchange import NAME, Exchange
from fedtag.client.site.state import Remembered, newest_kept
from fedtag.common.errors import DataError
from fedtag.common.parts.neighbour_exchange.settings import exchange_settings

if TYPE_CHECKING:
    from pathlib import Path

    from fedtag.client.context.session import Session


def exchanged(session: Session) -> Float[Tensor, "nodes dim"]:
    """The features after the exchange: X itself where there is none, ÂX with what came of the others' nodes.

    A site that was not there when sums came, and one that predicts without what it kept of a run, has ÂX of its own
    nodes.

    Raises:
        DataError: the folder has kept none, or those of other nodes.
    """
    if exchange_settings(session.config).mode == "off":
        return session.graph.x
    return session.kept(NAME, lambda: _restored(session))


def _restored(session: Session) -> Tensor:
    if not session.responds:
        return Exchange(session).alone() if session.past is None else _of_past(session.past, session)
    return (
        session.derived(NAME, lambda: Remembered({"x": Exchange(session).alone()}, {}))
        .tensors["x"]
        .to(session.device)
    )


def _of_past(state: Path, session: Session) -> Tensor:
    kept = kept_exchange(state)
    if kept is None:
        raise DataError(
            f"{state} has no features of an exchange: give the workspace that the site had in the run, or none"
        )
    check_rows(session, kept, state)
    return kept.to(session.device)


def kept_exchange(state: Path) -> Tensor | None:
    """The features after the exchange as a site has kept them of its newest run with one; None without.

    Args:
        state: folder of the site.
    """
    kept = newest_kept(state, NAME)
    return None if kept is None else kept.tensors["x"]


def check_rows(session: Session, x: Tensor, state: Path) -> None:
    """Raise DataError where features that a site has kept in its state are not those of its folder's nodes."""
    wanted = tuple(session.graph.x.shape)
    if tuple(x.shape) != wanted:
        raise DataError(
            f"{state} has features of {tuple(x.shape)} (nodes, numbers), but the folder has {wanted}: give the folder "
            "with which the run was made"
        )
