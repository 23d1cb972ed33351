"""The SuperNode of our own rests on what Flower does inside."""

from __future__ import annotations

import hashlib
import inspect
import sys
import threading
import time
from typing import Any, cast

import pytest
from flwr.app import ConfigRecord, Message, Metadata, RecordDict
from flwr.common.constant import SubStatus
from flwr.supercore.constant import TaskType
from flwr.supercore.corestate.in_memory_corestate import InMemoryCoreState
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.version import package_version
from flwr.superlink.grid import HttpGrid
from flwr.superlink.runtime import run_serverapp
from flwr.supernode import start_client_internal as flower
from flwr.supernode.cli import flower_supernode
from flwr.supernode.nodestate import NodeStateFactory
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState
from flwr.supernode.runtime.run_clientapp import pull_task_input

from fedtag.common.errors import BundleError
from fedtag.deploy.executor.beat import Beat, Pulse
from fedtag.deploy.executor.flower import KNOWN
from fedtag.deploy.executor.supernode import Reception

command = sys.modules["flwr.supernode.cli.flower_supernode"]
READ = (
    flower.start_client_internal,
    flower._pull_and_store_message,
    flower._push_messages,
    flower._init_connection,
    flower_supernode,
    command._start_supernode_http_api,
    command.SuperNodeLifespanConfig,
    InMemoryNodeState.get_messages,
    InMemoryCoreState.create_task,
    InMemoryCoreState.finish_task,
    InMemoryCoreState.get_tasks,
    pull_objects,
    HttpGrid.pull_messages,
    run_serverapp,
    pull_task_input,
)
"""What the loop stands in for, and what it uses, as it was read."""
NODE, RUN = 7, 3
DIGEST = "ff926f3e40a950dd839da6a6a326390dbd17433e21798de7408af9d3550d2cf3"


def digest() -> str:
    return hashlib.sha256("\n".join(inspect.getsource(one) for one in READ).encode()).hexdigest()


def test_flower_is_as_it_was_read() -> None:
    """Where this fails, read Flower's loop again, adapt `supernode.py`, and put release and digest right."""
    assert (package_version, digest()) == (KNOWN, DIGEST)


def instruction() -> Message:
    told = RecordDict({"told": ConfigRecord({"round": 1})})
    facts = Metadata(RUN, "", 1, NODE, "", "1", time.time(), 60.0, "train", 1, None)
    facts.delivered_at = ""
    message: Message = cast(Any, Message)(told, metadata=facts)
    facts.__dict__["_message_id"] = message.object_id
    return message


class Desk:
    """A SuperNode's stores, with one message that a process has to answer.

    Args:
        taken: the process has taken the message.
    """

    def __init__(self, taken: bool) -> None:
        factory = NodeStateFactory(objectstore_factory=ObjectStoreFactory())
        self.state, self.objects = factory.state(), factory.objectstore_factory.store()
        self.state.set_node_id(NODE)
        self.message = instruction()
        self.reception = Reception(
            self.state, self.objects, {"name": "clinic"}, Pulse(Beat(None), "the link")
        )
        assert self.reception.receiving(lambda: (self.message, None))() is not None
        self.task = cast(int, self.reception.create_task(task_type=TaskType.CLIENT_APP, run_id=RUN))
        self.state.store_message(self.message)
        if taken:
            assert self.state.get_messages(run_ids=[RUN], is_reply=False) == [self.message]

    def end(self, why: str) -> None:
        assert self.state.finish_task(self.task, SubStatus.FAILED, why)

    def push(self, parts: int | None = None) -> Message:
        """Push the reply, or only so many of its parts."""
        reply = Message(
            RecordDict({"a": ConfigRecord({"x": 1}), "b": ConfigRecord({"y": 2})}), reply_to=self.message
        )
        reply.metadata.__dict__["_message_id"] = reply.object_id
        self.state.store_message(reply)
        self.objects.preregister(RUN, get_object_tree(reply))
        for object_id, part in list(get_all_nested_objects(reply).items())[:parts]:
            self.objects.put(object_id, part.deflate())
        return reply

    def sent(self) -> list[Message]:
        return list(self.reception.get_messages(is_reply=True))


@pytest.mark.parametrize("taken", [False, True], ids=["before it took the message", "after it"])
@pytest.mark.parametrize("parts", [None, 0, 1], ids=["no reply", "none of its parts", "one of its parts"])
def test_what_a_killed_process_did_not_push_is_answered_with_how_it_ended(
    taken: bool, parts: int | None
) -> None:
    desk = Desk(taken)
    if parts is not None:
        desk.push(parts)
    desk.end("ended by signal 9")
    (answer,) = desk.sent()
    assert answer.error.reason == "ended by signal 9"
    assert answer.metadata.reply_to_message_id == desk.message.metadata.message_id
    # Nothing of it is left to the next process, or sent with the next reply.
    assert not desk.state.get_messages(run_ids=[RUN])


def test_flowers_own_state_knows_no_end_of_a_task() -> None:
    desk = Desk(taken=True)
    desk.end("ended by signal 9")
    assert not desk.state.get_messages(is_reply=True)


def test_a_reply_goes_out_as_it_was_pushed_and_without_flowers_pause() -> None:
    desk = Desk(taken=True)
    reply = desk.push()
    threading.Timer(
        0.1, lambda: desk.state.finish_task(desk.task, SubStatus.FAILED, "an error of its own")
    ).start()
    start = time.monotonic()
    assert [one.metadata.message_id for one in desk.sent()] == [reply.metadata.message_id]
    assert 0.1 <= time.monotonic() - start < 0.4


def test_a_message_that_came_to_no_task_is_answered_at_once() -> None:
    desk = Desk(taken=True)
    desk.end("")
    assert desk.sent()
    refused = instruction()
    desk.reception.receiving(lambda: (refused, None))()

    def unfit() -> None:
        raise BundleError("it holds code")

    assert desk.reception.pull(unfit) == RUN
    (answer,) = desk.sent()
    assert "it holds code" in str(answer.error.reason)
