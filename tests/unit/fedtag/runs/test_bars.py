"""A bar is drawn where a person sees it, and nowhere else."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("ipykernel")
CELL = "from fedtag.runs.bars import in_notebook; print(in_notebook())"


def said(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_kernel_is_a_notebook_and_a_process_that_has_loaded_one_is_none() -> None:
    assert said(CELL) == "False"
    assert said(f"import ipykernel.zmqshell, IPython; {CELL}") == "False"
    kernel = (
        "from jupyter_client.manager import run_kernel\n"
        "with run_kernel() as client:\n"
        f"    client.execute_interactive({CELL!r}, timeout=60)\n"
    )
    assert said(kernel) == "True"
