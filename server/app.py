"""The Flower ServerApp: settings from the run configuration, results in a run directory."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

LOGGER = logging.getLogger("fedtag")
TEXT_FORMAT = "fedtag %(levelname)s: %(message)s"

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the configured method over the nodes of the grid."""
    from flwr.superlink.grid import InMemoryGrid

    from fedtag.common.config import RunConfig
    from fedtag.common.config.places import check_travels
    from fedtag.common.homes import home_folder
    from fedtag.common.logs import Event, fields, start_log
    from fedtag.common.wire.protocol import app_settings, installed_release
    from fedtag.server.run.extension import opened
    from fedtag.server.run.rounds import Rounds, planned
    from fedtag.server.state.progress import LineProgress
    from fedtag.server.tracking.meters import exposed_meters
    from fedtag.server.tracking.run_log import coordinator_log

    start_log(TEXT_FORMAT)
    settings, release = app_settings(context.run_config)
    config = RunConfig.from_flat(settings)
    check_travels(config.to_flat())
    planned(config)
    home = home_folder()
    name = config.out or f"{config.method}-{context.run_id}"
    path = Path(os.environ.get("FEDTAG_RUN") or home / "runs" / name)
    LOGGER.info("results go to %s", path)
    # Flower's simulation and `fedtag up` divide what the settings name; elsewhere each site has a folder of its own.
    divided = isinstance(grid, InMemoryGrid) or "FEDTAG_RUN" in os.environ
    progress = LineProgress()
    if not divided:
        if config.data.source:
            progress.note(
                f"data.source = {config.data.source} is for simulations: the sites of this run read graphs of their own"
            )
        config = config.of_own_data()
    if release != installed_release():
        progress.note(
            f"the app was written by fedtag {release}, and this is {installed_release()}; both have one protocol",
            fields(Event.OTHER_RELEASE, release=release),
        )
    with exposed_meters(progress.note) as meters:
        directory = opened(path, config, home / "runs")
        log = coordinator_log(home)
        Rounds(grid, config, directory, progress, meters, log=log, flower_run=str(context.run_id)).run()
