"""The notebooks of examples/: executed as a reader would, their outputs held against the files that runs left."""

from __future__ import annotations

import json
import os
import signal
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from jupyter_client.manager import KernelManager, start_new_kernel
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from tests.audited import page_blocks
from tests.crossings import crossings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))
LONGEST = 600
KILLED_AFTER = 3
LONGER = 20

Outputs = dict[str, list[Any]]


@pytest.fixture(autouse=True)
def jupyter_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels read and write nothing of the user's, and have a thread like other runs of tests."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        (tmp_path / name.lower()).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def cells(name: str) -> dict[str, str]:
    """Sources of a notebook's cells of code, by their tags."""
    book = nbformat.read(EXAMPLES / name, as_version=4)
    return {cell.metadata.tags[0]: cell.source for cell in book.cells if cell.cell_type == "code"}


def executed(name: str, place: Path, further: str) -> Outputs:
    """What a notebook shows, by the tags of its cells; `further` code is executed behind it, as `told`."""
    book = nbformat.read(EXAMPLES / name, as_version=4)
    book.cells.append(new_code_cell(further, metadata={"tags": ["told"]}))
    NotebookClient(
        book, timeout=LONGEST, kernel_name="python3", resources={"metadata": {"path": str(place)}}
    ).execute()
    return {cell.metadata.tags[0]: cell.outputs for cell in book.cells if cell.cell_type == "code"}


def shown(outputs: list[Any], kind: str = "text/plain") -> str:
    """The last value that a cell shows."""
    return next(one.data[kind] for one in reversed(outputs) if one.output_type == "execute_result")


def told(outputs: Outputs) -> Any:
    return json.loads("".join(one.text for one in outputs["told"] if one.get("name") == "stdout"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_kept_without_outputs(name: str) -> None:
    """They would be those of one machine; every cell of code has a tag of its own."""
    book = nbformat.read(EXAMPLES / name, as_version=4)
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert len(cells(name)) == len(code)
    assert all(len(cell.source.splitlines()) <= 20 for cell in code)


def test_a_method_of_ones_own_is_compared(tmp_path: Path) -> None:
    outputs = executed(
        "own-method.ipynb",
        tmp_path,
        "import json\nprint(json.dumps([result.runs.to_dict('records'), run.disclosures.to_dict('records')]))",
    )
    rounds = lines(tmp_path / "runs" / "first" / "metrics.jsonl")
    last = shown(outputs["run"]).splitlines()[-3:]
    for line, row in zip(last, rounds[-3:], strict=True):
        said = [float(value) for value in line.split()[1:]]
        assert said == pytest.approx([row[key] for key in ("round", "train_loss", "test_accuracy")], abs=1e-5)
    runs, disclosed = told(outputs)
    crossed = crossings(tmp_path / "runs" / "first")
    assert sum(one["bytes"] for one in disclosed) == sum(one["bytes"] for one in crossed)
    found: dict[str, list[float]] = {"fedavg": [], "focal": []}
    for one in runs:
        summary = json.loads((Path(one["path"]) / "summary.json").read_text(encoding="utf-8"))
        found[one["method"]].append(summary["test_accuracy"])
    assert {method: len(values) for method, values in found.items()} == {"fedavg": 3, "focal": 3}
    mean = {method: sum(values) / 3 for method, values in found.items()}
    said = {line.split()[0]: line.split()[2:] for line in shown(outputs["table"]).splitlines()[2:]}
    for method, values in found.items():
        seeds, accuracy, spread, difference = map(float, said[method])
        assert seeds == 3
        assert accuracy == pytest.approx(mean[method], abs=1e-5)
        assert spread == pytest.approx(pd.Series(values).std(), abs=1e-5)
        if method == "focal":
            assert difference == pytest.approx(mean["focal"] - mean["fedavg"], abs=1e-5)
    assert min(mean.values()) > 0.5, "ten digits: chance is 0.1"
    assert any("image/png" in one.get("data", {}) for one in outputs["plot"])


@pytest.mark.slow
def test_tables_become_a_report_with_evidence(tmp_path: Path) -> None:
    outputs = executed(
        "own-data.ipynb",
        tmp_path,
        "import json\nprint(json.dumps([nodes.to_dict('records'), quotes.to_dict('records'), asked]))",
    )
    nodes, quotes, asked = told(outputs)
    assert f"repeats an id  [{len(nodes) + 1}]" in shown(outputs["problems"])
    assert "Empty DataFrame" in shown(outputs["graph"])
    assert f"{len(nodes)} nodes" in shown(outputs["graph"])
    texts = {node["function"]: node["docstring"] for node in nodes}
    assert quotes
    for quote in quotes:
        assert quote["text"] == texts[quote["node"]][quote["start"] : quote["end"]]
        assert quote["text"].split()[0] in shown(outputs["evidence"], "text/html")
    assert asked in texts
    first = shown(outputs["predictions"]).splitlines()[1].split()
    assert first[1] in texts
    page = tmp_path / "runs" / "scipy" / "report.html"
    assert page.name in shown(outputs["report"])
    assert "<html" in page.read_text(encoding="utf-8")


def test_a_bibliography_becomes_a_report_and_pages_of_evidence(tmp_path: Path) -> None:
    outputs = executed(
        "bibliography.ipynb",
        tmp_path,
        "import json\n"
        "pages = [str(page) for page in run.audit()]\n"
        "folder = run.path / 'sites' / 'client-00'\n"
        "changed = pd.read_parquet(folder / 'nodes.parquet')\n"
        "changed['text'] = changed['text'] + ' and more'\n"
        "changed.to_parquet(folder / 'nodes.parquet')\n"
        "try:\n    run.audit()\n    said = ''\n"
        "except fedtag.errors.RunError as error:\n    said = str(error)\n"
        "print(json.dumps([papers.to_dict('records'), edges.to_dict('records'), pages, said]))",
    )
    papers, edges, pages, said = told(outputs)
    assert "Empty DataFrame" in shown(outputs["graph"])
    assert f"{len(papers)} nodes" in shown(outputs["graph"])
    authors = [set(paper["authors"].split("; ")) for paper in papers]
    assert {(edge["id_a"], edge["id_b"]): edge["shared"] for edge in edges} == {
        (one, other): len(authors[one] & authors[other])
        for one, other in combinations(range(len(papers)), 2)
        if authors[one] & authors[other]
    }
    rounds = lines(tmp_path / "runs" / "papers" / "metrics.jsonl")
    last = [float(value) for value in shown(outputs["run"]).splitlines()[-1].split()[1:]]
    assert last == pytest.approx(
        [rounds[-1][key] for key in ("round", "train_loss", "val_accuracy", "test_accuracy")], abs=1e-5
    )
    assert max(row["val_accuracy"] for row in rounds) > 0.7, "two fields: chance is 0.5"
    assert "report.html" in shown(outputs["report"])
    assert [Path(page).name for page in pages] == ["audit-client-00.html", "audit-client-01.html"]
    held = [page_blocks(Path(page).read_text(encoding="utf-8")) for page in pages]
    assert sum(overview["total"] for overview, _ in held) == len(papers)
    assert all(any(page in line for page in pages) for line in shown(outputs["pages"]).splitlines())
    assert "does not hold" in said
    assert "another SHA-256" in said


def test_a_kernel_that_is_killed_in_the_middle_is_resumed_in_another(tmp_path: Path) -> None:
    """To the very model of a run that nobody stopped."""
    source = cells("own-method.ipynb")
    assert "rounds=10" in source["run"]
    run = source["run"].replace("rounds=10", f"rounds={LONGER}")
    manager, client = start_new_kernel(cwd=str(tmp_path))
    client.execute_interactive(source["graph"], timeout=LONGEST)
    client.execute(run)
    metrics = tmp_path / "runs" / "first" / "metrics.jsonl"
    deadline = time.monotonic() + LONGEST
    while not metrics.exists() or len(metrics.read_bytes().splitlines()) < KILLED_AFTER:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    kill(manager)
    client.stop_channels()
    assert KILLED_AFTER <= len(lines(metrics)) < LONGER
    again, client = start_new_kernel(cwd=str(tmp_path))
    for cell in (
        'import fedtag\nfedtag.open_run("runs/first").resume()',
        source["graph"],
        run.replace("runs/first", "runs/whole"),
    ):
        reply = client.execute_interactive(cell, timeout=LONGEST, output_hook=lambda message: None)
        assert reply["content"]["status"] == "ok", reply["content"]
    client.stop_channels()
    again.shutdown_kernel(now=True)
    assert [row["round"] for row in lines(metrics)] == list(range(1, LONGER + 1))
    first, whole = (
        (tmp_path / "runs" / name / "model.safetensors").read_bytes() for name in ("first", "whole")
    )
    assert first == whole


def kill(manager: KernelManager) -> None:
    process = manager.provisioner.process  # type: ignore[union-attr]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    # Of a kernel that is gone this closes what the manager holds.
    manager.shutdown_kernel(now=True)
