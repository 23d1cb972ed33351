"""`fedtag serve site` whose executor sends back what it gets: what is left of an exchange when nothing is done.

python echo_site.py site ...         the service
python echo_site.py supernode ...    its SuperNode, started by the service, which lets the echo's bundle pass
python echo_site.py executor ...     its executor, started by the service
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from flwr.app import Message
from flwr.supercore.constant import TaskType
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message

from fedtag.deploy.executor import service, site_side, supernode
from fedtag.deploy.executor.objects import PromptClient
from fedtag.deploy.executor.runtime import Runtime, end_task
from fedtag.deploy.executor.side import Side
from fedtag.deploy.serving.services import Ports, SiteService
from fedtag.deploy.serving.supervisor import Part


def echo(runtime: Runtime, token: str) -> None:
    """Send back a message's content."""
    client = runtime.working(token)
    message, context, _, _ = pull_task_input(PromptClient(client))  # type: ignore[arg-type]
    push_message(client, Message(message.content, reply_to=message), context)
    end_task(client)
    client.close()


class EchoSite(SiteService):
    """A site's service with this file as its SuperNode and its executor."""

    def parts(self, secret: Path) -> list[Part]:
        names = {"SuperNode": "supernode", "executor": "executor"}
        return [
            replace(part, command=echoing(names[part.name], part.command)) for part in super().parts(secret)
        ]


def echoing(name: str, command: tuple[str, ...]) -> tuple[str, ...]:
    """The same arguments for this file in place of a module of fedtag."""
    return (sys.executable, __file__, name, *command[command.index("-m") + 2 :])


def main() -> None:
    """Be the service, its SuperNode or its executor."""
    what, *words = sys.argv[1:]
    if what == "supernode":
        supernode.check_bundle = lambda content: None
        sys.argv[1:] = words
        supernode.main()
        return
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
