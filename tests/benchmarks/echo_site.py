"""`fedtag serve site` whose executor sends back what it gets: what is left of an exchange when nothing is done.

python echo_site.py site ...        the service
python echo_site.py executor ...    its executor, started by the service
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from flwr.app import Message
from flwr.supercore.constant import TaskType
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message

from fedtag.deploy.executor import service, site_side
from fedtag.deploy.executor.child import Tell
from fedtag.deploy.executor.objects import PromptClient
from fedtag.deploy.executor.runtime import Runtime, end_task, headline
from fedtag.deploy.executor.side import Side
from fedtag.deploy.serving.services import Ports, SiteService
from fedtag.deploy.serving.supervisor import Part


def echo(runtime: Runtime, token: str, tell: Tell) -> None:
    """Send back a message's content."""
    client = runtime.working(token)
    message, context, _, _ = pull_task_input(PromptClient(client))  # type: ignore[arg-type]
    tell(headline(message))
    push_message(client, Message(message.content, reply_to=message), context)
    end_task(client)
    client.close()


class EchoSite(SiteService):
    """A site's service with this file as its executor."""

    def parts(self, secret: Path) -> list[Part]:
        supernode, executor = super().parts(secret)
        place = executor.command.index("fedtag.deploy.executor.service")
        own = (sys.executable, __file__, "executor", *executor.command[place + 1 :])
        return [supernode, replace(executor, command=own)]


def main() -> None:
    """Be the service or its executor."""
    what, *words = sys.argv[1:]
    if what == "executor":
        site_side.SIDE = Side(TaskType.CLIENT_APP, echo, graceful=True)
        service.main(words)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--insecure", action="store_true", required=True)
    for name, kind in (("superlink", str), ("config", Path), ("port", int), ("watch", int)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    given = parser.parse_args(words)
    EchoSite(given.superlink, given.config, Ports(given.port, given.watch), None).serve()


if __name__ == "__main__":
    main()
