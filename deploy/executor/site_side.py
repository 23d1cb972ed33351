"""A site's messages, carried out by the client that is installed; torch stays out, the site's worker has it."""

from __future__ import annotations

import logging
from typing import cast

import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401
from flwr.app import Error, Message
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message

# What the client's app imports when a message comes.
import fedtag.client.site.site
import fedtag.client.worker.handover
import fedtag.client.worker.settings
import fedtag.common.logs
import fedtag.common.wire.envelope
import fedtag.common.wire.protocol  # noqa: F401
from fedtag.client.app import app
from fedtag.client.run.refusal import CLIENT_EXCEPTION, reason, signed
from fedtag.common.errors import BundleError
from fedtag.common.logs import Event, fields
from fedtag.deploy.executor.bundle import check_bundle
from fedtag.deploy.executor.objects import PromptClient
from fedtag.deploy.executor.runtime import Runtime, end_task
from fedtag.deploy.executor.side import Side

LOGGER = logging.getLogger("fedtag")


def answer_message(runtime: Runtime, token: str) -> None:
    """Carry out a message; its bundle lends settings and no code.

    Args:
        runtime: of the SuperNode.
        token: of the task.
    """
    client = runtime.working(token)
    heart = HeartbeatSender(make_task_heartbeat_fn_http(client))
    heart.start()
    message, context, _, bundle = pull_task_input(cast(RuntimeHttpClient, PromptClient(client)))
    failure = None
    try:
        check_bundle(bundle.content)
        reply = app(message, context)
    except BundleError as error:
        failure = signed(reason(error), context.node_config)
        LOGGER.error("%s", error, extra=fields(Event.INSTRUCTION_FAILED, error=type(error).__name__))
        reply = Message(Error(CLIENT_EXCEPTION, failure), reply_to=message)
    push_message(client, reply, context)
    end_task(client, failure)
    heart.stop()
    client.close()


SIDE = Side(TaskType.CLIENT_APP, answer_message, graceful=True)
