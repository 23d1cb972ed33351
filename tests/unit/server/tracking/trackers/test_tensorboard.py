"""Event files, read back by TensorBoard's own reader."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.trackers.scalars import round_scalars
from fedtag.server.tracking.trackers.tensorboard import ScalarLog

READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
log = EventAccumulator(sys.argv[1]); log.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in log.Scalars(tag)] for tag in log.Tags()["scalars"]}))
"""


def row(number: int, accuracy: float | None) -> RoundRow:
    return RoundRow(number, 0.5, accuracy, None, None, 1.5, {"train": 1.25}, 10, 20, 2, 1)


def test_tensorboard_reads_the_scalars_and_forgets_what_a_resume_repeats(tmp_path: Path) -> None:
    log = ScalarLog(tmp_path / "tb")
    for number in (1, 2, 3):
        log.log(number, round_scalars(row(number, 0.25 * number)))
    log.close()
    log = ScalarLog(tmp_path / "tb", first_round=3)
    log.log(3, round_scalars(row(3, 0.5)))
    log.log(4, round_scalars(row(4, None)))
    log.close()
    result = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path / "tb")], capture_output=True, text=True, check=True
    )
    scalars = json.loads(result.stdout.splitlines()[-1])
    assert scalars["accuracy/val"] == [[1, 0.25], [2, 0.5], [3, 0.5]]
    assert scalars["seconds/train"] == [[step, 1.25] for step in (1, 2, 3, 4)]
    assert scalars["clients/failed"] == [[step, 1.0] for step in (1, 2, 3, 4)]
    assert "accuracy/test" not in scalars


def test_opening_a_log_imports_neither_torch_nor_tensorflow(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; "
        "from fedtag.server.tracking.trackers.tensorboard import ScalarLog; "
        "ScalarLog(Path(sys.argv[1])).close(); assert not {'torch', 'tensorflow'} & set(sys.modules)"
    )
    root = Path(__file__).resolve().parents[5]
    subprocess.run([sys.executable, "-W", "error", "-c", code, str(tmp_path)], check=True, cwd=root)
