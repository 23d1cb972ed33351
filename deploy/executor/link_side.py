"""A link's runs, carried out by Flower's own program for a ServerApp in a process that has torch and fedtag loaded."""

from __future__ import annotations

import importlib
import sys
from typing import cast

from flwr.supercore.constant import TaskType
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.cli.flwr_serverapp import flwr_serverapp
from flwr.superlink.grid import HttpGrid

# What the server's app imports when a run comes.
import fedtag.server.app
import fedtag.server.run.rounds
import fedtag.server.tracking.meters  # noqa: F401
from fedtag.deploy.executor.flower import is_known
from fedtag.deploy.executor.objects import PromptClient
from fedtag.deploy.executor.runtime import Runtime
from fedtag.deploy.executor.side import Side


class PromptGrid(HttpGrid):
    """Flower's grid, whose replies are read as soon as they are there."""

    @property
    def _runtime_client(self) -> RuntimeHttpClient:
        return cast(RuntimeHttpClient, PromptClient(super()._runtime_client))


def conduct_run(runtime: Runtime, token: str) -> None:
    """Carry out a run, in this process and nothing else.

    Args:
        runtime: of the SuperLink.
        token: of the task.
    """
    if is_known():
        # The package of this module has a function of its name.
        importlib.import_module("flwr.superlink.runtime.run_serverapp").__dict__["HttpGrid"] = PromptGrid
    trust = ["--insecure"] if runtime.authority is None else ["--root-certificates", str(runtime.authority)]
    sys.argv = ["flwr-serverapp", "--runtime-api-address", runtime.address, "--token", token, *trust]
    flwr_serverapp()


SIDE = Side(TaskType.SERVER_APP, conduct_run, graceful=False)
