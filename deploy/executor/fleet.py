"""A link's side towards its nodes that answers when there is something to be said.

Flower's own answers at once that nothing is there, and is asked again: with fifty sites that was half of its work. Here
a node that asks for a message, or for a part of one that is on its way, waits at the link for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse
from flwr.proto.message_pb2 import ObjectTree, PullObjectRequest, PullObjectResponse
from flwr.server.superlink.fleet.grpc_rere.fleet_servicer import FleetServicer
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState

from fedtag.deploy.executor.arrivals import Arrivals

MESSAGE_SECONDS = 4.0
"""For which a node waits at most; its health tells of a link that is silent for longer."""
PART_SECONDS = 2.0
MOST_WAITING = 500
"""Half of the threads with which Flower answers nodes."""
EXPIRY_SECONDS = 1.0
"""Between two looks for tasks whose process is silent, which Flower takes at each question; they expire after many."""

Answer = TypeVar("Answer")
ARRIVALS = Arrivals(MOST_WAITING)
"""What comes to the state, for which the servicer waits: one of each in a process."""


class AttentiveState(SqlLinkState):
    """Flower's state, which tells of messages and their parts as they come."""

    _looked = float("-inf")

    def store_message_and_object_tree(
        self, message: Any, object_tree: ObjectTree, session_id: str
    ) -> tuple[bool, list[str]]:
        """As Flower's."""
        done = super().store_message_and_object_tree(message, object_tree, session_id)
        ARRIVALS.tell(message.metadata.dst_node_id)
        return done

    def store_object(self, run_id: int, session_id: str, object_id: str, object_content: bytes) -> bool:
        """As Flower's."""
        done: bool = super().store_object(run_id, session_id, object_id, object_content)
        ARRIVALS.tell(object_id)
        return done

    def _cleanup_expired_task_tokens(self) -> None:
        if (now := time.monotonic()) - self._looked >= EXPIRY_SECONDS:
            self._looked = now
            super()._cleanup_expired_task_tokens()


class AttentiveFleet(FleetServicer):
    """Flower's servicer, at which nodes wait."""

    def PullMessages(  # noqa: N802
        self, request: PullMessagesRequest, context: grpc.ServicerContext
    ) -> PullMessagesResponse:
        """The next message for a node."""

        def ask() -> PullMessagesResponse:
            return super(AttentiveFleet, self).PullMessages(request, context)

        return answered(
            ask, lambda one: not one.messages_list, request.node.node_id, MESSAGE_SECONDS, context, False
        )

    def PullObject(self, request: PullObjectRequest, context: grpc.ServicerContext) -> PullObjectResponse:  # noqa: N802
        """A part of a message."""

        def ask() -> PullObjectResponse:
            return super(AttentiveFleet, self).PullObject(request, context)

        def comes(one: PullObjectResponse) -> bool:
            return one.object_found and not one.object_available

        return answered(ask, comes, request.object_id, PART_SECONDS, context, True)


def answered(
    ask: Callable[[], Answer],
    comes: Callable[[Answer], bool],
    what: int | str,
    seconds: float,
    context: grpc.ServicerContext,
    shared: bool,
) -> Answer:
    """An answer that waits for what is asked for.

    Args:
        ask: for the answer.
        comes: whether an answer says that it may come yet.
        what: is waited for: a node with a message, or a part.
        seconds: to wait at most.
        context: of the call; nothing is handed to a peer that is known to be gone.
        shared: whether all who wait for the same get it; else the one that asked last.
    """
    with ARRIVALS.expecting(what) as arrival:
        answer = ask()
        if arrival is None or not comes(answer) or not context.add_callback(arrival.set):
            return answer
        came = arrival.wait(seconds) and context.is_active()
        # A node that asks anew has lost the connection by which it asked before, whether or not that is known here.
        return ask() if came and (shared or ARRIVALS.is_latest(what, arrival)) else answer
