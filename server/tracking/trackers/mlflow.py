"""Runs in MLflow: settings as parameters, numbers of rounds as metrics, those of the released round at the end."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any

from fedtag.server.tracking.trackers.spec import TrackedRun

EXPERIMENT = "fedtag"
RUN_TAG = "fedtag.run"
MOST_PARAMETERS = 100
"""That MLflow takes at once."""
# Nothing but what is tracked goes anywhere; and what MLflow tells of its tables is no warning.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
# A server that is gone costs a run seconds, where by default it would be minutes.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
_STRANGE = re.compile(r"[^\w.:/ -]")


def opened(run: TrackedRun) -> MlflowRun:
    """The run in MLflow; one that was resumed goes on there.

    The environment says where MLflow is, as MLflow itself has it: MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME, and the
    names and passwords of a server.
    """
    return MlflowRun(run)


class MlflowRun:
    """One run of an MLflow server, file or database.

    Args:
        run: that is tracked.
    """

    def __init__(self, run: TrackedRun) -> None:
        # Takes seconds to import.
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._metric: Any = Metric
        store = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{run.folder / 'mlflow.db'}"
        self._client: Any = MlflowClient(tracking_uri=store)
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT, run)
        found = self._client.search_runs([experiment], filter_string=f"tags.`{RUN_TAG}` = '{run.run}'")
        if found:
            self.id: str = found[0].info.run_id
            self._client.update_run(self.id, status="RUNNING")
        else:
            made = self._client.create_run(experiment, run_name=run.folder.name, tags={RUN_TAG: run.run})
            self.id = made.info.run_id
            params = [Param(name, str(value)) for name, value in run.settings.items()]
            for first in range(0, len(params), MOST_PARAMETERS):
                self._client.log_batch(self.id, params=params[first : first + MOST_PARAMETERS])
        logged = self._client.get_metric_history(self.id, "seconds/round")
        self._last: int = max((one.step for one in logged), default=0)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        """Numbers of a round; MLflow has those of a round that is done again already."""
        if step > self._last:
            self._log(step, scalars)
            self._last = step

    def close(self, summary: Mapping[str, Any] | None) -> None:
        """End the run, with the numbers of the summary as metrics `released/...`."""
        if summary is not None:
            numbers = {name: value for name, value in summary.items() if type(value) in (int, float)}
            self._log(summary["rounds"], {f"released/{name}": value for name, value in numbers.items()})
        self._client.set_terminated(self.id, "KILLED" if summary is None else "FINISHED")

    def _log(self, step: int, scalars: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        metrics = [self._metric(_STRANGE.sub("_", name), value, now, step) for name, value in scalars.items()]
        self._client.log_batch(self.id, metrics=metrics)

    def _experiment(self, name: str, run: TrackedRun) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        # Where models would go, which MLflow makes a folder of where the run was started.
        place = None if os.environ.get("MLFLOW_TRACKING_URI") else (run.folder / "mlruns").as_uri()
        return str(self._client.create_experiment(name, artifact_location=place))
