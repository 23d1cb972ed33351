"""Calls of a SuperNode that were recorded, sent to the SuperLink again by another program."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.common.constant import PUBLIC_KEY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.fleet_pb2_grpc import FleetStub
from flwr.proto.node_pb2 import Node
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message

from tests.system.breakable import Breakable

Metadata = list[tuple[str, str | bytes]]
Call = Callable[[int, Metadata], str]
TOLERATED_SECONDS = 300


@pytest.fixture(scope="module")
def call(encrypted: Breakable) -> Iterator[Call]:
    """Asks the SuperLink for a node's messages as a program that has no key; returns the answer's code and words."""
    authority = encrypted.transport.authority
    assert authority is not None
    credentials = grpc.ssl_channel_credentials(authority.read_bytes())
    with grpc.secure_channel(f"{encrypted.address}:{encrypted.fleet_port}", credentials) as channel:
        stub = FleetStub(channel)

        def ask(node: int, metadata: Metadata) -> str:
            request = PullMessagesRequest(node=Node(node_id=node))
            try:
                stub.PullMessages(request, metadata=metadata, timeout=30)
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"
            return "OK"

        yield ask


def recorded(federation: Breakable, site: str, age: float) -> Metadata:
    """What a site's SuperNode put beside a call, `age` seconds ago: its key, the time, and the time signed."""
    key = load_ssh_private_key(key_file(federation, site).read_bytes(), None)
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age)
    public = public_key_to_bytes(key.public_key())
    signature = sign_message(key, moment.isoformat().encode("ascii"))
    return [
        (PUBLIC_KEY_HEADER, public),
        (TIMESTAMP_HEADER, moment.isoformat()),
        (SIGNATURE_HEADER, signature),
    ]


def key_file(federation: Breakable, site: str) -> Path:
    options = federation.transport.sites[list(federation.sites).index(site)]
    return Path(options[options.index("--keys") + 1]) / "node.key"


def node_id(federation: Breakable, site: str) -> int:
    return int(re.findall(r"SuperNode ID: (\d+)", federation.log(site))[-1])


def test_a_record_is_worth_nothing_after_five_minutes(encrypted: Breakable, call: Call) -> None:
    node = node_id(encrypted, "site-a")
    old = recorded(encrypted, "site-a", TOLERATED_SECONDS + 10)
    assert call(node, old) == "UNAUTHENTICATED: Invalid timestamp"
    # The very same call in time is understood: nothing but its age is wrong with the record.
    assert call(node, recorded(encrypted, "site-a", 0)) == "OK"


@pytest.mark.parametrize("ahead", [10, 600])
def test_a_clock_that_is_ahead_is_refused(encrypted: Breakable, call: Call, ahead: int) -> None:
    early = recorded(encrypted, "site-a", -ahead)
    assert call(node_id(encrypted, "site-a"), early) == "UNAUTHENTICATED: Invalid timestamp"


def test_a_record_cannot_be_dated_anew(encrypted: Breakable, call: Call) -> None:
    node = node_id(encrypted, "site-a")
    old, new = (recorded(encrypted, "site-a", age) for age in (TOLERATED_SECONDS + 10, 0))
    dated = [entry if entry[0] != TIMESTAMP_HEADER else new[1] for entry in old]
    assert call(node, dated) == "UNAUTHENTICATED: Invalid signature"


def test_a_record_serves_no_other_node(encrypted: Breakable, call: Call) -> None:
    other = node_id(encrypted, "site-b")
    assert call(other, recorded(encrypted, "site-a", 0)) == "UNAUTHENTICATED: Invalid node ID"


def test_without_a_record_nobody_is_heard(encrypted: Breakable, call: Call) -> None:
    node = node_id(encrypted, "site-a")
    assert call(node, []) == "UNAUTHENTICATED: Missing authentication metadata"
