"""Flower's Runtime API, of which executors take tasks: over HTTP on loopback, from a SuperLink or a SuperNode."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flwr.common.constant import SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PushTaskOutputRequest
from flwr.proto.task_pb2 import Task
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient

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


def end_task(client: RuntimeHttpClient, failure: str | None = None) -> None:
    """Say that a task is over; with what went wrong, if anything did."""
    status = SubStatus.COMPLETED if failure is None else SubStatus.FAILED
    client.PushTaskOutput(PushTaskOutputRequest(context=None, sub_status=status, details=failure or ""))
