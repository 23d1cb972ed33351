"""The trackers that come with fedtag."""

from __future__ import annotations

from fedtag.common.settings.registry import INTERFACE
from fedtag.server.tracking.trackers.spec import TrackerSpec

TENSORBOARD = TrackerSpec(
    name="tensorboard",
    title="Event files in the run directory, which TensorBoard shows",
    interface=INTERFACE,
    opened="fedtag.server.tracking.trackers.tensorboard:opened",
)
MLFLOW = TrackerSpec(
    name="mlflow",
    title="MLflow at MLFLOW_TRACKING_URI, by default mlflow.db in the run directory; MLFLOW_EXPERIMENT_NAME names the "
    "experiment",
    interface=INTERFACE,
    opened="fedtag.server.tracking.trackers.mlflow:opened",
    needs={"mlflow": "pip install 'fedtag[mlflow]'"},
)
