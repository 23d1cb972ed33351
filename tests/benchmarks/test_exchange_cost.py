"""What a message costs a site: the process that Flower starts for it, without and with a worker that is warm.

Both start as Flower starts them: a new Python for every message, which imports Flower and the app. What the
transport adds (a SuperNode asks for work every 3 s) is left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from fedtag.client.worker.handover import ask
from fedtag.common.config import RunConfig
from fedtag.common.wire.protocol import app_versions

pytestmark = pytest.mark.benchmark

REPOSITORY = Path(__file__).resolve().parents[2]
MESSAGES = 5
LEAST_GAIN = 2.0

ONE_MESSAGE = """
import json, sys, time
start = time.perf_counter()
from flwr.app import Context, RecordDict
from fedtag.client.app import at_the_site
from fedtag.common.wire.envelope import opened, sealed
from fedtag.common.wire.serialised import Serialised

imported = time.perf_counter()
told = json.load(sys.stdin)
context = Context(run_id=1, node_id=1, node_config=told["node"], state=RecordDict(), run_config=told["run"])
opened(at_the_site(sealed(Serialised(told["header"])), context))
done = time.perf_counter()
print(json.dumps([imported - start, done - imported, len(sys.modules), "torch" in sys.modules]))
"""


def one_message(node: dict[str, Any], run: dict[str, Any]) -> tuple[float, list[Any]]:
    """Wall seconds of a process for one message, and what it says of itself."""
    table = {"kind": "Instruction", "run": "run", "step": 1, "round": 1, "phase": "train", "values": {}}
    told = json.dumps({"node": node, "run": run, "header": json.dumps(table)})
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", ONE_MESSAGE],
        input=told,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    return time.perf_counter() - start, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("method", ["fedavg", "dance"])
def test_a_message_with_a_warm_worker(method: str, cora_texts: Path, tmp_path: Path) -> None:
    run = {**app_versions(), **RunConfig.from_flat({"method": method, "device": "cpu"}).to_flat()}
    node = {"data": str(cora_texts), "workspace": str(tmp_path), "name": "site", "device": "cpu"}
    node["cache"] = os.environ["FEDTAG_CACHE"]

    def several(choice: str) -> tuple[float, list[Any]]:
        results = [one_message({**node, "worker": choice}, run) for _ in range(MESSAGES)]
        return median(seconds for seconds, _ in results), results[-1][1]

    cold, about_cold = several("off")
    try:
        first, _ = one_message({**node, "worker": "on"}, run)
        warm, about_warm = several("on")
    finally:
        ask(tmp_path, "stop", 10.0)
    lines = [
        f"{method}, Cora (2708 texts, encoded before) at one site, one message of training a process",
        f"  {'':<24}{'wall s':>8}{'imports s':>11}{'the rest s':>12}{'modules':>9}",
        *(
            f"  {name:<24}{seconds:8.2f}{about[0]:11.2f}{about[1]:12.2f}{about[2]:9d}"
            for name, seconds, about in (("no worker", cold, about_cold), ("warm worker", warm, about_warm))
        ),
        f"  {'the first, which starts it':<24}{first:8.2f}",
        f"  {'gain':<24}{cold / warm:8.1f}x",
    ]
    print("\n" + "\n".join(lines))  # noqa: T201
    assert not about_warm[3]
    assert about_cold[3]
    assert cold / warm >= LEAST_GAIN
