"""The numbers of a round by the names that all trackers know them by."""

from __future__ import annotations

from fedtag.common.wording.scoring import METRICS, column
from fedtag.server.tracking.rows import RoundRow


def round_scalars(row: RoundRow) -> dict[str, float]:
    """Every number of a row; what is None is left out."""
    scalars: dict[str, float | None] = {
        "loss/train": row.train_loss,
        **{
            f"{column(metric)}/{subset}": getattr(row, f"{subset}_{column(metric)}")
            for metric in METRICS
            for subset in ("val", "test")
        },
        "accuracy/local_val": row.local_val_accuracy,
        "accuracy/local_test": row.local_test_accuracy,
        "calibration/test_ece": row.test_ece,
        "condensation/effective_ratio": row.effective_ratio,
        "seconds/round": row.seconds,
        "bytes/up": row.bytes_up,
        "bytes/down": row.bytes_down,
        "clients/ok": row.clients_ok,
        "clients/failed": row.clients_failed,
        **{f"seconds/{phase}": seconds for phase, seconds in row.seconds_by_phase.items()},
    }
    return {name: value for name, value in scalars.items() if value is not None}
