"""The Flower ServerApp: settings from the run configuration, results in a run directory."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

LOGGER = logging.getLogger("fedtag")

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the configured method over the nodes of the grid."""
    from common.config import RunConfig
    from server.progress import LineProgress
    from server.rounds import Rounds
    from server.tracking.run_directory import RunDirectory

    log_to_stderr()
    config = RunConfig.from_flat(context.run_config)
    home = Path(os.environ.get("FEDTAG_HOME") or Path.home() / ".fedtag")
    path = Path(config.out) if config.out else home / "runs" / f"{config.method}-{context.run_id}"
    LOGGER.info("results go to %s", path)
    Rounds(grid, config, RunDirectory(path, resume=config.resume), LineProgress()).run()


def log_to_stderr() -> None:
    """Lines of our own log only: Flower sends stderr to the SuperLink by HTTP, whose client logs each request."""
    if not LOGGER.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("fedtag %(levelname)s: %(message)s"))
        LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
