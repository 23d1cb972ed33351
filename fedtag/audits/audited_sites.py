"""The sites whose folders an audit reads: whether they fit one another and the release, and how many there were."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedtag.audits.artefact import Released
from fedtag.client.run.opened_site import OpenedSite
from fedtag.common.config import RunConfig, flatten
from fedtag.common.errors import ConfigError, DataError, RunError
from fedtag.runs.prediction import check_fit
from fedtag.server.tracking.recorded import check_there
from fedtag.server.tracking.run_directory import RunDirectory, is_run


def sites_of_run(path: Path | None, audited: Sequence[str]) -> int | None:
    """How many sites there were in the run that is audited; None where none is known, or other folders are audited."""
    folder = path.parent if path is not None and path.is_file() else path
    if folder is None or not is_run(folder):
        return None
    names = {row.client for row in RunDirectory.open(folder).read_clients()}
    return len(names) if names.issuperset(audited) else None


def check_sessions(sessions: Sequence[OpenedSite], artefact: Released | None) -> None:
    """Raise DataError where folders do not fit the release or one another."""
    if len({session.site.name for session in sessions}) < len(sessions):
        names = ", ".join(session.site.name for session in sessions)
        raise DataError(f"two folders have the same name ({names}); rename one, names tell sites apart")
    for session in sessions:
        if artefact is not None:
            check_fit(session, artefact.about.features, artefact.about.dimension)
        if session.data.text_graph.classes != sessions[0].data.text_graph.classes:
            raise DataError(
                f"{session.site.folder} has other classes than {sessions[0].site.folder}; "
                "audit folders of one federation"
            )
        if artefact is not None:
            dimension = session.data.graph.x.shape[1]
            if dimension != artefact.about.dimension:
                raise DataError(
                    f"{session.site.folder}: features have {dimension} numbers a node, but what was released reads "
                    f"{artefact.about.dimension}; use the features or the encoder of the training"
                )


def config_of(path: Path) -> RunConfig:
    """The settings of a run.

    Raises:
        RunError: it has none, or they are of another release.
        ConfigError: what it is made of is not there.
    """
    flat = flatten(RunDirectory.open(path).read_config())
    check_there(path, flat)
    try:
        return RunConfig.from_flat(flat)
    except ConfigError as error:
        raise RunError(
            f"{path} has settings that cannot be used ({error}); use the fedtag that made it"
        ) from error
