"""Nodes wait at a link: answered when something comes, and no worse off than with Flower's when nothing does."""

from __future__ import annotations

import hashlib
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from flwr.app import ConfigRecord, Message, Metadata, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.fleet_pb2 import PullMessagesRequest, PullMessagesResponse
from flwr.proto.fleet_pb2_grpc import FleetStub, add_FleetServicer_to_server
from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse
from flwr.proto.node_pb2 import Node
from flwr.server.superlink.fleet.grpc_rere.fleet_servicer import FleetServicer
from flwr.server.superlink.fleet.message_handler import message_handler
from flwr.server.superlink.linkstate import LinkStateFactory, linkstate_factory
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.corestate.sql_corestate import SqlCoreState
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager

from fedtag.deploy.executor import fleet
from fedtag.deploy.executor.arrivals import Arrivals
from fedtag.deploy.executor.fleet import AttentiveFleet, AttentiveState, answered

# Flower's own database wants it so.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator found:DeprecationWarning")
READ = (
    message_handler.pull_messages,
    message_handler.pull_object,
    FleetServicer.PullMessages,
    FleetServicer.PullObject,
    SqlLinkState.store_message_and_object_tree,
    SqlCoreState.store_object,
    SqlCoreState._cleanup_expired_task_tokens,
    LinkStateFactory,
)
"""What is extended, and what it relies on, as it was read."""
DIGEST = "c0a61e024d0d15f312f06591cfb4f820c614097bea0579592f11e90360694bbb"
SOON = 1.0
"""Far below what a node waits at most."""


def test_flower_is_as_it_was_read() -> None:
    """Where this fails, read Flower's servicer again, adapt `fleet.py`, and put the digest right."""
    assert hashlib.sha256("\n".join(inspect.getsource(one) for one in READ).encode()).hexdigest() == DIGEST


class Link:
    """A link's side towards nodes, with one node and a run that goes on."""

    def __init__(self, folder: Path) -> None:
        objects = ObjectStoreFactory(str(folder / "link.db"))
        states = LinkStateFactory(str(folder / "link.db"), NoOpFederationManager(), objects)
        self.state = states.state()
        assert isinstance(self.state, AttentiveState)
        self.node = self.state.create_node("", "", b"key", 30)
        assert self.state.activate_node(self.node, 30)
        self.run = self.state.create_run(
            None, None, None, {}, NOOP_FEDERATION_ID, None, "", TaskType.SERVER_APP
        )
        (task,) = self.state.get_tasks()
        assert self.state.claim_task(task.task_id)
        assert self.state.activate_task(task.task_id)
        self.server = grpc.server(ThreadPoolExecutor(8))
        add_FleetServicer_to_server(AttentiveFleet(states, objects, False), self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def push(self, whole: bool = True) -> tuple[Message, Callable[[], None]]:
        """Send the node a message; its parts with it, or by the function that is returned."""
        facts = Metadata(
            self.run, "", SUPERLINK_NODE_ID, self.node, "", "1", time.time(), 60.0, "train", 1, None
        )
        facts.delivered_at = ""
        message: Message = cast(Any, Message)(RecordDict({"told": ConfigRecord({"x": 1})}), metadata=facts)
        facts.__dict__["_message_id"] = message.object_id
        session = self.state.start_session(self.run)
        stored, _ = self.state.store_message_and_object_tree(message, get_object_tree(message), session)
        assert stored

        def parts() -> None:
            for object_id, part in get_all_nested_objects(message).items():
                assert self.state.store_object(self.run, session, object_id, part.deflate())

        if whole:
            parts()
        return message, parts

    def asking(self, channel: grpc.Channel) -> Future[PullMessagesResponse]:
        asked: Future[PullMessagesResponse] = FleetStub(channel).PullMessages.future(
            PullMessagesRequest(node=Node(node_id=self.node))
        )
        return asked


@pytest.fixture
def link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    monkeypatch.setitem(vars(linkstate_factory), "SqlLinkState", AttentiveState)
    made = Link(tmp_path)
    yield made
    made.server.stop(None).wait()


@pytest.fixture
def channel(link: Link) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{link.port}") as opened:
        yield opened


def waiting(what: object) -> bool:
    return what in fleet.ARRIVALS._awaited


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_message_reaches_a_node_that_waits(link: Link, channel: grpc.Channel) -> None:
    asked = link.asking(channel)
    until(lambda: waiting(link.node))
    start = time.monotonic()
    message, _ = link.push()
    answer = asked.result(10)
    assert time.monotonic() - start < SOON
    assert [one.metadata.message_id for one in answer.messages_list] == [message.metadata.message_id]
    assert not waiting(link.node)


def test_what_is_there_is_handed_over_at_once(link: Link, channel: grpc.Channel) -> None:
    link.push()
    start = time.monotonic()
    assert len(link.asking(channel).result(10).messages_list) == 1
    assert time.monotonic() - start < SOON


def test_a_part_reaches_a_node_when_it_is_there(link: Link, channel: grpc.Channel) -> None:
    message, parts = link.push(whole=False)
    link.asking(channel).result(10)
    wanted = PullObjectRequest(
        node=Node(node_id=link.node), run_id=link.run, object_id=message.metadata.message_id
    )
    asked: Future[PullObjectResponse] = FleetStub(channel).PullObject.future(wanted)
    until(lambda: waiting(wanted.object_id))
    start = time.monotonic()
    parts()
    answer = asked.result(10)
    assert time.monotonic() - start < SOON
    assert answer.object_available
    assert answer.object_content


def test_without_a_message_the_answer_is_flowers(
    link: Link, channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "MESSAGE_SECONDS", 0.2)
    start = time.monotonic()
    assert link.asking(channel).result(10) == PullMessagesResponse()
    assert 0.2 <= time.monotonic() - start < SOON


def test_a_part_that_nobody_announced_is_not_waited_for(link: Link, channel: grpc.Channel) -> None:
    link.push()
    wanted = PullObjectRequest(node=Node(node_id=link.node), run_id=link.run, object_id="0" * 64)
    start = time.monotonic()
    assert not FleetStub(channel).PullObject(wanted).object_found
    assert time.monotonic() - start < SOON


def test_a_node_that_is_gone_takes_no_message(link: Link, channel: grpc.Channel) -> None:
    """The message is there for the node when it comes back."""
    with grpc.insecure_channel(f"127.0.0.1:{link.port}", [("grpc.use_local_subchannel_pool", 1)]) as dying:
        asked = link.asking(dying)
        until(lambda: waiting(link.node))
    until(lambda: not waiting(link.node))
    assert asked.exception(10) is not None
    link.push()
    assert len(link.asking(channel).result(10).messages_list) == 1


class Hanging:
    """The call of a node that goes away while it waits."""

    def add_callback(self, told: Callable[[], None]) -> bool:
        threading.Timer(0.05, told).start()
        return True

    def is_active(self) -> bool:
        return False


class Open(Hanging):
    """A call whose end nobody has noticed, if it has one."""

    def add_callback(self, told: Callable[[], None]) -> bool:
        return True

    def is_active(self) -> bool:
        return True


@pytest.mark.parametrize("shared", [False, True])
def test_who_asked_before_takes_nothing_but_what_is_for_all(shared: bool) -> None:
    asked: list[str] = []

    def ask() -> list[str]:
        asked.append("asked")
        return []

    context = cast(grpc.ServicerContext, Open())
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(answered, ask, lambda found: not found, "what", 10.0, context, shared)
        until(lambda: waiting("what"))
        with fleet.ARRIVALS.expecting("what"):
            fleet.ARRIVALS.tell("what")
            first.result(10)
    assert len(asked) == 1 + shared


def test_nothing_is_taken_for_a_node_that_went_away_while_it_waited() -> None:
    """A message that came at the same moment stays for the node's next question."""
    asked: list[str] = []

    def ask() -> list[str]:
        asked.append("asked")
        return []

    context = cast(grpc.ServicerContext, Hanging())
    assert answered(ask, lambda found: not found, "node", 10.0, context, False) == []
    assert asked == ["asked"]


def test_a_message_goes_where_the_node_asked_last(link: Link, channel: grpc.Channel) -> None:
    """Its connection before may be dead without a word."""
    first = link.asking(channel)
    until(lambda: len(fleet.ARRIVALS._awaited.get(link.node, ())) == 1)
    second = link.asking(channel)
    until(lambda: len(fleet.ARRIVALS._awaited.get(link.node, ())) == 2)
    link.push()
    assert len(second.result(10).messages_list) == 1
    assert not first.result(10).messages_list


def test_where_too_many_wait_others_are_answered_at_once(
    link: Link, channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "ARRIVALS", Arrivals(1))
    first = link.asking(channel)
    until(lambda: waiting(link.node))
    start = time.monotonic()
    assert not link.asking(channel).result(10).messages_list
    assert time.monotonic() - start < SOON
    first.cancel()
    until(lambda: not waiting(link.node))


def test_a_link_that_ends_waits_for_nobody(link: Link, channel: grpc.Channel) -> None:
    asked = link.asking(channel)
    until(lambda: waiting(link.node))
    start = time.monotonic()
    link.server.stop(0.1).wait()
    until(lambda: not waiting(link.node))
    assert time.monotonic() - start < SOON
    assert asked.exception(10) is not None


def test_arrivals_wake_all_who_expect_them_and_keep_nothing() -> None:
    arrivals = Arrivals(40)
    heard: list[int] = []
    ready = threading.Barrier(31)

    def wait(number: int) -> None:
        with arrivals.expecting(number % 3) as arrival:
            ready.wait()
            assert arrival is not None
            if arrival.wait(10):
                heard.append(number)

    with ThreadPoolExecutor(30) as threads:
        for number in range(30):
            threads.submit(wait, number)
        ready.wait()
        arrivals.tell(1)
        until(lambda: len(heard) == 10)
        assert {number % 3 for number in heard} == {1}
        arrivals.tell(0)
        arrivals.tell(2)
    assert sorted(heard) == list(range(30))
    assert not arrivals._awaited
    arrivals.tell(1)


def test_expired_tasks_are_looked_for_once_a_second(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    monkeypatch.setattr(
        SqlCoreState, "_cleanup_expired_task_tokens", lambda _: looks.append(time.monotonic())
    )
    start = time.monotonic()
    while time.monotonic() - start < 1.5:
        link.state.get_run_status({link.run})
    assert 1 <= len(looks) <= 3
