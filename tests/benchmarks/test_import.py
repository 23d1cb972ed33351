"""How fast tables become a data folder, and that their texts are never held all at once."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.benchmark

ROWS, LETTERS = 100_000, 2000
PASSES = 2
"""Times that the file is larger in the second measurement, where memory must not grow as it does."""
FASTEST, MOST_GROWTH = 60e6, 0.5
"""Bytes a second of processor time, also on a machine that others use; growth of memory as a share of the file's."""
PROGRAM = """
import json, resource, sys, time
from pathlib import Path
from fedtag.graph.importing.importer import import_folder
from fedtag.graph.importing.recipe import Recipe
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter(), time.process_time()
made = import_folder(Recipe.of(nodes=sys.argv[1], edges=sys.argv[2]), Path(sys.argv[3]))
used = [now - then for now, then in zip((time.perf_counter(), time.process_time()), start)]
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([made.graph.num_nodes, *used, before * 1024, after * 1024]))
"""


def written(folder: Path, rows: int) -> tuple[Path, Path]:
    """Tables of `rows` nodes with texts of 2 kB, and of as many edges."""
    generator = np.random.default_rng(0)
    words = [
        "".join(chr(97 + letter) for letter in generator.integers(0, 26, 3 + place % 8))
        for place in range(4096)
    ]
    text = " ".join(np.array(words)[generator.integers(0, 4096, 400_000)])
    nodes, edges = folder / f"nodes-{rows}.csv", folder / f"edges-{rows}.csv"
    starts = generator.integers(0, len(text) - LETTERS, rows)
    with nodes.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "abstract", "field"))
        writer.writerows(
            (row, text[start : start + LETTERS], f"field {row % 7}") for row, start in enumerate(starts)
        )
    np.savetxt(edges, generator.integers(0, rows, (rows, 2)), "%d", ",", header="src,dst", comments="")
    return nodes, edges


def test_import_of_200_mb(tmp_path: Path) -> None:
    found = []
    for rows in (ROWS, PASSES * ROWS):
        nodes, edges = written(tmp_path, rows)
        command = [sys.executable, "-c", PROGRAM, str(nodes), str(edges), str(tmp_path / f"out-{rows}")]
        answer = subprocess.run(
            command, check=True, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
        count, wall, cpu, before, after = json.loads(answer.stdout.splitlines()[-1])
        assert count == rows
        size = nodes.stat().st_size
        found.append((rows, size, wall, cpu, after - before))
    lines = ["     rows      MB   wall s    CPU s   MB/s (wall)   MB/s (CPU)   memory MB"]
    for rows, size, wall, cpu, memory in found:
        speeds = f"{size / wall / 1e6:>14.0f} {size / cpu / 1e6:>12.0f}"
        lines.append(f"{rows:>9,} {size / 1e6:>7.0f} {wall:>8.1f} {cpu:>8.1f}{speeds} {memory / 1e6:>11.0f}")
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    (_, small, _, cpu, least), (_, large, _, _, most) = found
    assert small / cpu >= FASTEST
    assert most - least <= MOST_GROWTH * (large - small)
