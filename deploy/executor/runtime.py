"""Flower's Runtime API, of which executors take tasks: over HTTP on loopback, from a SuperLink or a SuperNode."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Context, Error, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.constant import SubStatus
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as MessageProto
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullAppMessagesRequest, PushTaskOutputRequest
from flwr.proto.task_pb2 import Task
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.runtime.run_clientapp import push_message

NAME = "fedtag-executor"
PROMPT_SECONDS = 5.0
"""Until an executor that asks for tasks asks again; it tells nothing meanwhile."""
PATIENT_SECONDS = 30.0
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"


@dataclass(frozen=True)
class Runtime:
    """Where tasks come from.

    Args:
        address: HOST:PORT.
        authority: the certificate that vouches for it; None in clear.
        secret: by which it knows this executor; None where it asks nobody.
    """

    address: str
    authority: Path | None = None
    secret: bytes | None = None

    def acquiring(self) -> RuntimeHttpClient:
        """A connection for an executor; what fails is told at once."""
        signing = (
            []
            if self.secret is None
            else [SuperExecAuthHttpInterceptor(master_secret=self.secret, protected_methods={ACQUIRE})]
        )
        return self._client(signing, patient=False)

    def working(self, token: str, patient: bool = True) -> RuntimeHttpClient:
        """A connection for one task.

        Args:
            token: of the task.
            patient: try again for as long as nobody answers.
        """
        return self._client([RuntimeTokenHttpInterceptor(token)], patient)

    def _client(self, interceptors: Sequence[ProtobufClientInterceptor], patient: bool) -> RuntimeHttpClient:
        trust = None if self.authority is None else ssl.create_default_context(cafile=self.authority)
        return RuntimeHttpClient(
            f"{'http' if trust is None else 'https'}://{self.address}",
            interceptors=[RuntimeVersionHttpInterceptor(component_name=NAME), *interceptors],
            verify=trust or False,
            timeout=PATIENT_SECONDS if patient else PROMPT_SECONDS,
            retry_invoker=make_simple_http_retry_invoker() if patient else None,
        )


def acquired(client: RuntimeHttpClient, kinds: list[str]) -> tuple[Task, str] | None:
    """The next task of these kinds, with its token; None if there is none."""
    answer = client.AcquireTask(AcquireTaskRequest(supported_task_types=kinds))
    return (answer.task, answer.token) if answer.HasField("task") and answer.token else None


def headline(message: Message) -> bytes:
    """All of a message but its content, as bytes."""
    return message_to_proto(remove_content_from_message(message)).SerializeToString()


def answer_in_place(runtime: Runtime, task: Task, token: str, taken: bytes, error: Error) -> None:
    """Answer a site's message with an error, in place of the process that was to carry it out and is gone.

    Args:
        runtime: that gave the task.
        task: of the message.
        token: of the task.
        taken: the message's headline; empty if the process had not taken the message.
        error: the answer.
    """
    client = runtime.working(token, patient=False)
    try:
        if taken:
            proto = MessageProto.FromString(taken)
        else:
            waiting = client.PullMessages(PullAppMessagesRequest()).messages_list
            if not waiting:
                return
            proto = waiting[0]
        message = message_from_proto(proto)
        meta = message.metadata
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = (
            task.task_id,
            meta.run_id,
            meta.dst_node_id,
        )
        context = Context(meta.run_id, meta.dst_node_id, {}, RecordDict(), {})
        push_message(client, Message(error, reply_to=message), context)
    finally:
        end_task(client, error.reason)
        client.close()


def end_task(client: RuntimeHttpClient, failure: str | None = None) -> None:
    """Say that a task is over; with what went wrong, if anything did."""
    status = SubStatus.COMPLETED if failure is None else SubStatus.FAILED
    client.PushTaskOutput(PushTaskOutputRequest(context=None, sub_status=status, details=failure or ""))
