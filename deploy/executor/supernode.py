"""A SuperNode that waits little: `python -m fedtag.deploy.executor.supernode`, with the options of flower-supernode.

Flower's own looks for messages every 3 s and for a reply every 0.5 s, and no option changes that. Here is its main
loop with pauses that follow the work; pulling and sending are Flower's. What is used of Flower is private to it, so
this module knows one release; with another one it starts Flower's own SuperNode and says so.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from flwr.app import Error, Message
from flwr.common.constant import ISOLATION_MODE_PROCESS, ErrorCode, Status
from flwr.supercore import log
from flwr.supercore.constant import HTTP_SERVER_SHUTDOWN_TIMEOUT
from flwr.supercore.exit import add_exit_handler, register_signal_handlers
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.object_store import ObjectStore, ObjectStoreFactory
from flwr.supercore.telemetry import EventType
from flwr.supercore.version import package_version
from flwr.supernode.cli.flower_supernode import (
    SuperNodeLifespanConfig,
    _parse_supernode_lifespan_config,
    _start_supernode_http_api,
    flower_supernode,
)
from flwr.supernode.nodestate import NodeState, NodeStateFactory
from flwr.supernode.start_client_internal import (
    _init_connection,
    _insert_message,
    _pull_and_store_message,
    _push_messages,
)

from fedtag.client.run.refusal import reason, signed
from fedtag.common.errors import BundleError
from fedtag.common.logs import Event, fields
from fedtag.deploy.executor.beat import Beat, Pace, Pulse, Sign
from fedtag.deploy.executor.bundle import check_bundle
from fedtag.deploy.executor.flower import KNOWN, is_known
from fedtag.deploy.executor.objects import promptly

LOGGER = logging.getLogger("fedtag")
MESSAGES = (0.05, 3.0)
"""Shortest and longest pause between two looks for a message, in seconds."""
REPLIES = (0.02, 0.5)


def serve(config: SuperNodeLifespanConfig, beat: Pulse) -> None:
    """Run a SuperNode until it is told to end; its tasks are taken by an executor.

    Args:
        config: from Flower's command line.
        beat: told what it does.
    """
    state_factory = NodeStateFactory(objectstore_factory=ObjectStoreFactory())
    server, thread = _start_supernode_http_api(config, state_factory)

    def stop() -> None:
        server.should_exit = True
        thread.join(timeout=HTTP_SERVER_SHUTDOWN_TIMEOUT)

    add_exit_handler(stop)
    register_signal_handlers(
        event_type=EventType.RUN_SUPERNODE_LEAVE,
        exit_message="SuperNode terminated gracefully.",
        grpc_servers=[],
    )
    state, objects = state_factory.state(), state_factory.objectstore_factory.store()
    beat.tell(Sign("waiting", f"for the SuperLink at {config.server_address}"))
    in_clear = config.root_certificates is None if config.insecure is None else config.insecure
    connection = _init_connection(
        transport=config.transport,
        server_address=config.server_address,
        insecure=in_clear,
        root_certificates=config.root_certificates,
        authentication_keys=config.authentication_keys,
        max_retries=config.max_retries,
        max_wait_time=config.max_wait_time,
    )
    with connection as (node_id, receive, send, get_run, get_fab, pull_object, push_object, confirm):
        state.set_node_id(node_id)
        log(logging.INFO, "SuperNode ID: %s", node_id)
        reception = Reception(state, objects, config.node_config, beat)
        pull = partial(
            _pull_and_store_message,
            state=cast(NodeState, reception),
            object_store=objects,
            node_config=config.node_config,
            receive=reception.receiving(receive),
            get_run=get_run,
            get_fab=reception.checked(get_fab),
            pull_object=promptly(told(pull_object, beat)),
            confirm_message_received=confirm,
            trusted_entities=config.trusted_entities,
        )
        push = partial(
            _push_messages,
            state=cast(NodeState, reception),
            object_store=objects,
            send=send,
            push_object=told(push_object, beat),
        )
        turn(partial(reception.pull, pull), push, beat)


def told(move: Callable[..., Any], beat: Pulse) -> Callable[..., Any]:
    """The same way to move a part of a message, told of: large ones take their time."""

    def moved(*arguments: Any) -> Any:
        beat.tell(Sign("working", "moves a message"))
        return move(*arguments)

    return moved


class Reception:
    """A SuperNode's state, in which each message that is taken gets one whole reply.

    Flower's loop waits for ever for what a process that was killed did not push, be it the reply or a part of it. Here
    a reply goes out once its task is over, and in place of one that is missing or cut goes what the task ended with.

    Args:
        state: of the SuperNode.
        objects: of the SuperNode.
        node: the site's settings, with its name.
        beat: told that there is work.
    """

    def __init__(
        self, state: NodeState, objects: ObjectStore, node: Mapping[str, object], beat: Pulse
    ) -> None:
        self._state = state
        self._objects = objects
        self._node = node
        self._beat = beat
        self._last: Message | None = None
        self._task: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def create_task(self, **told: Any) -> int | None:
        """As the state does; the task is remembered."""
        self._task = self._state.create_task(**told)
        return self._task

    def get_messages(self, **wanted: Any) -> Sequence[Message]:
        """The reply to the message that was taken last, when its task is over."""
        pace, since = Pace(*REPLIES), time.monotonic()
        while (ended := self._ended()) is None:
            self._beat.tell(Sign("working", f"{time.monotonic() - since:.0f} s"))
            time.sleep(pace.pause)
        replies = self._state.get_messages(**wanted)
        if whole := [reply for reply in replies if self._is_whole(reply)]:
            return whole
        assert self._last is not None
        # What the process left: a part of a reply, or the message, which is nobody else's.
        for left in [
            *replies,
            *self._state.get_messages(run_ids=[self._last.metadata.run_id], is_reply=False),
        ]:
            self._objects.delete(left.metadata.message_id)
            self._state.delete_messages(message_ids=[left.metadata.message_id])
        self._answer(Error(ErrorCode.CLIENT_APP_CRASHED, ended or "the process ended without a reply"))
        return self._state.get_messages(**wanted)

    def receiving(self, receive: Callable[[], Any]) -> Callable[[], Any]:
        """The same way to receive, of which the last message is remembered."""

        def received() -> Any:
            found = receive()
            self._last, self._task = None if found is None else found[0], None
            return found

        return received

    @staticmethod
    def checked(get_fab: Callable[[str, int], Fab]) -> Callable[[str, int], Fab]:
        """The same way to get a bundle, which is looked at before Flower unpacks it."""

        def got(digest: str, run_id: int) -> Fab:
            fab = get_fab(digest, run_id)
            check_bundle(fab.content)
            return fab

        return got

    def pull(self, pull: Callable[[], int | None]) -> int | None:
        """Take a message, or refuse it for its bundle; returns its run."""
        try:
            return pull()
        except BundleError as error:
            assert self._last is not None
            LOGGER.error("%s", error, extra=fields(Event.INSTRUCTION_FAILED, error=type(error).__name__))
            self._answer(Error(ErrorCode.INVALID_FAB, signed(reason(error), self._node)))
            return self._last.metadata.run_id

    def _ended(self) -> str | None:
        """What the task of the last message ended with; None while it goes on, and empty for a message without one."""
        if self._task is None:
            return ""
        tasks = self._state.get_tasks(task_ids=[self._task])
        over = not tasks or tasks[0].status.status == Status.FINISHED
        return (tasks[0].status.details if tasks else "") if over else None

    def _is_whole(self, reply: Message) -> bool:
        tree = self._objects.get_object_tree(reply.metadata.message_id)
        return all(self._objects.get(part.object_id) for part in iterate_object_tree(tree))

    def _answer(self, error: Error) -> None:
        assert self._last is not None
        _insert_message(Message(error, reply_to=self._last), self._state, self._objects)


def turn(pull: Any, push: Any, beat: Pulse) -> None:
    """Take messages and send their replies, one after another, for ever."""
    pace = Pace(*MESSAGES)
    while True:
        asked = time.monotonic()
        if pull() is None:
            beat.tell(Sign("idle"))
            # A link of ours has waited with its answer already.
            time.sleep(max(0.0, asked + pace.pause - time.monotonic()))
            continue
        push()
        pace.worked()


def main() -> None:
    """Parse the command line as flower-supernode does, and serve."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--beat", type=int, help="descriptor for signs of life")
    given, rest = own.parse_known_args()
    sys.argv = ["flower-supernode", *rest]
    if not is_known():
        LOGGER.warning(
            "Flower is %s here, and %s is known: its own SuperNode is started, which waits up to 3 s for a message",
            package_version, KNOWN, extra=fields(Event.OTHER_FLOWER, release=package_version),
        )  # fmt: skip
        Pulse(Beat(given.beat), "Flower's own SuperNode", Sign("running"))
        flower_supernode()
        return
    config = _parse_supernode_lifespan_config()
    if config.isolation != ISOLATION_MODE_PROCESS:
        sys.exit("this SuperNode has no executor of its own: start it with --isolation process")
    serve(config, Pulse(Beat(given.beat), f"the SuperLink at {config.server_address}"))


if __name__ == "__main__":
    main()
