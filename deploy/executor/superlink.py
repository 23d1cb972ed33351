"""A SuperLink that waits for its database: `python -m fedtag.deploy.executor.superlink`, as flower-superlink.

Flower's own gives a locked file up after 5 s and answers with errors, which end runs; a backup may hold it for longer.
"""

from __future__ import annotations

import sys

from flwr.supercore import sql_mixin
from flwr.supercore.constant import SQLITE_PRAGMAS
from flwr.superlink.cli.flower_superlink import flower_superlink

from fedtag.deploy.executor.flower import is_known

PATIENCE = {"busy_timeout": "60000"}
"""Milliseconds, as SQLite's pragma wants them."""


def main() -> None:
    """Parse the command line as flower-superlink does, and serve."""
    if is_known():
        # A name of the module's own, taken from elsewhere: replaced where it is read.
        vars(sql_mixin)["SQLITE_PRAGMAS"] = tuple({**dict(SQLITE_PRAGMAS), **PATIENCE}.items())
    sys.argv[0] = "flower-superlink"
    flower_superlink()


if __name__ == "__main__":
    main()
