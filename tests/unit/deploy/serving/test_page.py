from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from fedtag.common.errors import DeploymentError
from fedtag.deploy.cli import app
from fedtag.deploy.federation.ports import free_ports
from fedtag.deploy.serving import page as module
from fedtag.deploy.serving.page import Page, ProgramState, served

WORKS = ProgramState("executor", True, "working", "run 1, 3 s", 60.0, 0.5, 0, "")
RUNS = ProgramState("SuperLink", True, "running", "", 60.0, 0.0, 0, "")
DEAD = replace(
    WORKS, running=False, state="waiting", detail="was ended by signal 9; starts again", restarts=2
)


def asked(port: int, path: str) -> tuple[int, str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_service_is_ready_while_all_of_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    page = Page("link", "", port)
    with served(page):
        assert asked(port, "/ready")[0] == 503
        page.show([RUNS, WORKS])
        for path in ("/live", "/ready", "/status", "/metrics"):
            assert asked(port, path)[0] == 200, path
        assert asked(port, "/secret")[0] == 404
        page.show([RUNS, DEAD])
        code, text = asked(port, "/ready")
        assert (code, asked(port, "/live")[0]) == (503, 200)
        told = json.loads(text)
        assert (told["service"], told["ready"], told["programs"][1]["restarts"]) == ("link", False, 2)
        metrics = asked(port, "/metrics")[1]
        assert 'fedtag_program_up{program="executor"} 0.0' in metrics
        assert 'fedtag_program_up{program="SuperLink"} 1.0' in metrics
        assert 'fedtag_program_restarts{program="executor"} 2.0' in metrics
        # A supervisor that looks no more is not alive, whatever it showed last.
        monkeypatch.setattr(module, "SILENCE_SECONDS", -1.0)
        assert asked(port, "/live")[0] == 503


def test_status_shows_what_is_stuck_and_why() -> None:
    (port,) = free_ports(1)
    page = Page("site", "hospital-a", port)
    with served(page):
        page.show([RUNS, WORKS])
        good = CliRunner().invoke(app, ["status", "--service", str(port)], env={"COLUMNS": "200"})
        page.show([RUNS, DEAD])
        bad = CliRunner().invoke(app, ["status", "--service", str(port)], env={"COLUMNS": "200"})
        told = json.loads(CliRunner().invoke(app, ["status", "--service", str(port), "--json"]).stdout)
    assert (good.exit_code, bad.exit_code) == (0, 1)
    assert "site hospital-a, ready" in good.stdout
    assert "run 1, 3 s" in good.stdout
    assert "site hospital-a, not ready" in bad.stdout
    assert "executor: was ended by signal 9; starts again" in bad.stdout
    assert told["programs"][1]["restarts"] == 2
    gone = CliRunner().invoke(app, ["status", "--service", str(port)])
    assert (gone.exit_code, "start fedtag serve" in gone.output) == (1, True)
    both = CliRunner().invoke(app, ["status", "runs", "--service", str(port)])
    assert both.exit_code == 2


def test_a_port_that_is_taken_is_said() -> None:
    (port,) = free_ports(1)
    with (
        served(Page("site", "a", port)),
        pytest.raises(DeploymentError, match=rf"port {port} .* --watch"),
        served(Page("site", "b", port)),
    ):
        pytest.fail("two pages on one port")
