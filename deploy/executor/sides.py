"""What the two sides of a federation do with a task, and what they have loaded before one comes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from flwr.supercore.constant import TaskType

from fedtag.deploy.executor.child import Tell
from fedtag.deploy.executor.runtime import Runtime

LOGGER = logging.getLogger("fedtag")
SideName = Literal["site", "link"]


@dataclass(frozen=True)
class Side:
    """One side of a federation.

    Args:
        kind: of the tasks that it takes.
        load: imports what its tasks need, once.
        carry_out: a task, given where it comes from, its token, and how to tell the executor what was taken.
        graceful: whether a task is finished when the executor is to end.
    """

    kind: TaskType
    load: Callable[[], None]
    carry_out: Callable[[Runtime, str, Tell], None]
    graceful: bool


def load_site() -> None:
    """Flower's client runtime and what hands a message to the site's worker; torch stays out, the worker has it."""

    import fedtag.client.app
    import fedtag.client.run.refusal
    import fedtag.client.site.site
    import fedtag.client.worker.handover
    import fedtag.common.logs
    import fedtag.common.wire.envelope
    import fedtag.common.wire.protocol  # noqa: F401


def load_link() -> None:
    """Flower's server runtime, and all of a run."""

    import fedtag.server.app
    import fedtag.server.run.rounds
    import fedtag.server.tracking.meters  # noqa: F401


def answer_message(runtime: Runtime, token: str, tell: Tell) -> None:
    """Carry out a site's message by the client that is installed here; the bundle lends settings and no code.

    Args:
        runtime: of the SuperNode.
        token: of the task.
        tell: told which message was taken.
    """
    from flwr.app import Error, Message
    from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
    from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message

    from fedtag.client.app import app
    from fedtag.client.run.refusal import CLIENT_EXCEPTION, reason, signed
    from fedtag.common.errors import BundleError
    from fedtag.common.logs import Event, fields
    from fedtag.deploy.executor.bundle import check_bundle
    from fedtag.deploy.executor.runtime import end_task, headline

    client = runtime.working(token)
    heart = HeartbeatSender(make_task_heartbeat_fn_http(client))
    heart.start()
    message, context, _, bundle = pull_task_input(client)
    tell(headline(message))
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


def conduct_run(runtime: Runtime, token: str, tell: Tell) -> None:
    """Carry out a run by Flower's own program for a ServerApp, in this process.

    Args:
        runtime: of the SuperLink.
        token: of the task.
        tell: told nothing; a run whose process is gone has failed.
    """
    from flwr.superlink.cli.flwr_serverapp import flwr_serverapp

    tell(b"")
    trust = ["--insecure"] if runtime.authority is None else ["--root-certificates", str(runtime.authority)]
    sys.argv = ["flwr-serverapp", "--runtime-api-address", runtime.address, "--token", token, *trust]
    flwr_serverapp()


SIDES: dict[SideName, Side] = {
    "site": Side(TaskType.CLIENT_APP, load_site, answer_message, graceful=True),
    "link": Side(TaskType.SERVER_APP, load_link, conduct_run, graceful=False),
}
