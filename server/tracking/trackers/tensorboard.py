"""Scalars for TensorBoard."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedtag.common.wording.visible import visible_line
from fedtag.server.tracking.trackers.spec import TrackedRun

FOLDER = "tensorboard"
"""In a run directory."""


def opened(run: TrackedRun) -> ScalarLog:
    """The log of a run, in its directory."""
    return ScalarLog(run.folder / FOLDER, first_round=run.first_round)


class ScalarLog:
    """An event file that TensorBoard reads, flushed after every round.

    The protocol buffers are TensorBoard's own; they are imported when the first log is opened, without
    torch and without TensorFlow.

    Args:
        folder: usually `tensorboard/` of a run directory; made where absent.
        first_round: rounds from here on that an earlier file holds are dropped by TensorBoard, as after a
            resume; None for a new run.
    """

    def __init__(self, folder: Path, *, first_round: int | None = None) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        self.event_type: Any = event_pb2.Event
        self.value_type: Any = summary_pb2.Summary.Value
        self.summary_type: Any = summary_pb2.Summary
        now = time.time()
        # TensorBoard reads the files of a folder in the order of their names.
        self.path = folder / f"events.out.tfevents.{time.time_ns():020d}.{os.getpid()}"
        self.records: Any = RecordWriter(self.path.open("ab"))
        self.write(self.event_type(wall_time=now, file_version="brain.Event:2"))
        if first_round is not None:
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self.write(self.event_type(wall_time=now, step=first_round, session_log=start))

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write numbers at a step."""
        values = [
            self.value_type(tag=visible_line(tag), simple_value=value) for tag, value in scalars.items()
        ]
        self.write(self.event_type(wall_time=time.time(), step=step, summary=self.summary_type(value=values)))

    def write(self, event: Any) -> None:
        """Append one event and flush."""
        self.records.write(event.SerializeToString())
        self.records.flush()

    def close(self, summary: Mapping[str, Any] | None = None) -> None:
        """Close the file."""
        self.records.close()
