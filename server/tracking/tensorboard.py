"""Scalars for TensorBoard."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from fedtag.common.wording.visible import visible_line
from fedtag.server.tracking.rows import RoundRow


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

    def add_round(self, row: RoundRow) -> None:
        """Write every number of a row; what is None is left out."""
        scalars: dict[str, float | None] = {
            "loss/train": row.train_loss,
            "accuracy/val": row.val_accuracy,
            "accuracy/test": row.test_accuracy,
            "accuracy/local_val": row.local_val_accuracy,
            "accuracy/local_test": row.local_test_accuracy,
            "macro_f1/val": row.val_macro_f1,
            "macro_f1/test": row.test_macro_f1,
            "calibration/test_ece": row.test_ece,
            "condensation/effective_ratio": row.effective_ratio,
            "seconds/round": row.seconds,
            "bytes/up": row.bytes_up,
            "bytes/down": row.bytes_down,
            "clients/ok": row.clients_ok,
            "clients/failed": row.clients_failed,
        }
        scalars |= {f"seconds/{phase}": seconds for phase, seconds in row.seconds_by_phase.items()}
        self.add_scalars(row.round, scalars)

    def add_scalars(self, step: int, scalars: Mapping[str, float | None]) -> None:
        """Write numbers at a step; what is None is left out."""
        values = [
            self.value_type(tag=visible_line(tag), simple_value=value)
            for tag, value in scalars.items()
            if value is not None
        ]
        self.write(self.event_type(wall_time=time.time(), step=step, summary=self.summary_type(value=values)))

    def write(self, event: Any) -> None:
        """Append one event and flush."""
        self.records.write(event.SerializeToString())
        self.records.flush()

    def close(self) -> None:
        """Close the file."""
        self.records.close()

    def __enter__(self) -> ScalarLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
