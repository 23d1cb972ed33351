"""A SuperLink with patience: `python -m fedtag.deploy.executor.superlink`, with the options of flower-superlink.

Flower's own gives a locked database up after 5 s and answers with errors, which end runs; a backup may hold it for
longer. And it answers nodes at once that there is nothing for them, so that they ask again and again: see `fleet`.
"""

from __future__ import annotations

import importlib
import sys

from flwr.server.superlink.linkstate import linkstate_factory
from flwr.supercore import sql_mixin
from flwr.supercore.constant import SQLITE_PRAGMAS
from flwr.superlink.cli.flower_superlink import flower_superlink

from fedtag.deploy.executor.fleet import AttentiveFleet, AttentiveState
from fedtag.deploy.executor.flower import is_known

PATIENCE = {"busy_timeout": "60000"}
"""Milliseconds, as SQLite's pragma wants them."""


def main() -> None:
    """Parse the command line as flower-superlink does, and serve."""
    if is_known():
        # Names of the modules' own, taken from elsewhere: replaced where they are read.
        vars(linkstate_factory)["SqlLinkState"] = AttentiveState
        vars(importlib.import_module("flwr.superlink.cli.flower_superlink"))["FleetServicer"] = AttentiveFleet
        vars(sql_mixin)["SQLITE_PRAGMAS"] = tuple({**dict(SQLITE_PRAGMAS), **PATIENCE}.items())
    sys.argv[0] = "flower-superlink"
    flower_superlink()


if __name__ == "__main__":
    main()
