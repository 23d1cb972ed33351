from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fedtag.deploy.federation.ports import free_ports
from fedtag.deploy.health import main, trouble

SCRIPT = Path(__file__).resolve().parents[3] / "deploy" / "health.py"


class Page(BaseHTTPRequestHandler):
    """Well at /health, ill elsewhere."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_program_that_answers_is_well(address: str) -> None:
    assert trouble(f"{address}/health", None) is None
    assert main([f"{address}/health"]) == 0


def test_program_that_answers_wrongly_is_not(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{address}/other"]) == 1
    assert "503" in capsys.readouterr().err


def test_silence_is_no_health() -> None:
    (port,) = free_ports(1)
    assert "refused" in str(trouble(f"http://127.0.0.1:{port}/health", None))


def test_script_needs_nothing_but_python(address: str) -> None:
    done = subprocess.run([sys.executable, "-I", "-S", str(SCRIPT), f"{address}/health"], check=False)
    assert done.returncode == 0
