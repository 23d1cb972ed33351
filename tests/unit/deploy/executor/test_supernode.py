"""The SuperNode of our own rests on what Flower does inside."""

from __future__ import annotations

import hashlib
import inspect
import sys
import time

from flwr.supercore.version import package_version
from flwr.supernode import start_client_internal as flower
from flwr.supernode.cli import flower_supernode
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

from fedtag.deploy.executor.beat import Beat
from fedtag.deploy.executor.supernode import KNOWN, AwaitedObjects, AwaitedState

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
)
"""What the loop stands in for, and what it uses, as it was read."""
DIGEST = "863079ea852a7ca21008b0d806b81c9d798180ba66fcd1b2ce6c061bf9e1d36e"


def digest() -> str:
    return hashlib.sha256("\n".join(inspect.getsource(one) for one in READ).encode()).hexdigest()


def test_flower_is_as_it_was_read() -> None:
    """Where this fails, read Flower's loop again, adapt `supernode.py`, and put release and digest right."""
    assert (package_version, digest()) == (KNOWN, DIGEST)


def test_replies_and_objects_are_waited_for_without_flowers_pauses() -> None:
    class Late:
        """A store that has something at the third look."""

        looks = 0

        def get_messages(self, *, is_reply: bool) -> list[str]:
            assert is_reply
            self.looks += 1
            return ["reply"] if self.looks == 3 else []

        def get(self, object_id: str) -> bytes | None:
            self.looks += 1
            return None if object_id == "gone" else b"content" if self.looks == 3 else b""

        def delete(self, object_id: str) -> str:
            return f"deleted {object_id}"

    start = time.monotonic()
    assert AwaitedState(Late(), Beat(None)).get_messages(is_reply=True) == ["reply"]
    objects = AwaitedObjects(Late(), Beat(None))
    assert (objects.get("here"), objects.get("gone"), objects.delete("a")) == (b"content", None, "deleted a")
    assert time.monotonic() - start < 0.4
