"""A Flower grid in one process: every message is serialised, opened again and handled in turn.

The clients keep their data between messages, which is what a warm worker does at an institution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fedtag.client.app import client_app, in_this_process
from fedtag.client.run.site_run import SiteRun
from fedtag.common.wire.codec import Parcel, pack, pack_all

SERVER_NODE = 1

Tap = Callable[[Parcel], None]


class InProcessGrid(Grid):
    """Clients in this process behind Flower's grid interface.

    Args:
        clients: their node ids count from 2.
        tap: sees every message as it would cross the network.
    """

    def __init__(self, clients: Sequence[SiteRun], tap: Tap | None = None) -> None:
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, SERVER_NODE
        by_node = dict(enumerate(clients, start=SERVER_NODE + 1))
        self.called = {node: client.site.name for node, client in by_node.items()}
        self.contexts = {
            node: Context(
                run_id=1,
                node_id=node,
                node_config={"name": client.site.name},
                state=RecordDict(),
                run_config={},
            )
            for node, client in by_node.items()
        }
        self.app = client_app(in_this_process(lambda context: by_node[context.node_id]))
        self.tap = tap
        self.replies: dict[str, Message] = {}

    def set_run(self, run: Run) -> None:
        raise NotImplementedError("an in-process grid serves one run only")

    @property
    def run(self) -> Run:
        raise NotImplementedError("an in-process grid has no SuperLink that keeps a run")

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Deliver each message and keep the reply until it is pulled."""
        identifiers = []
        messages = list(messages)
        for message, parcel in zip(messages, pack_all(messages), strict=True):
            arrived = self._deliver(parcel)
            reply = self.app(arrived, self.contexts[message.metadata.dst_node_id])
            self.replies[parcel.root] = self._deliver(pack(reply))
            identifiers.append(parcel.root)
        return identifiers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self.replies.pop(identifier) for identifier in message_ids if identifier in self.replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        return self.pull_messages(self.push_messages(messages))

    def _deliver(self, parcel: Parcel) -> Message:
        if self.tap is not None:
            self.tap(parcel)
        message = parcel.open()
        message.metadata.__dict__["_message_id"] = parcel.root
        return message
