from __future__ import annotations

import io

import pytest
from rich.console import Console

from fedtag.common.logs import LOGGER
from fedtag.deploy.terminal import display as module
from fedtag.deploy.terminal.display import display, resumable
from fedtag.deploy.terminal.interruption import TerminatedError
from fedtag.server.tracking.rows import RoundRow


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal of 100 columns has got."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100, highlight=False, color_system=None)
    monkeypatch.setattr(module, "notices", lambda: console)
    return text


def test_a_terminal_without_work_stays_empty(terminal: io.StringIO) -> None:
    with display():
        pass
    assert terminal.getvalue() == ""


def test_bars_of_finished_runs_stay_and_those_of_finished_work_go(terminal: io.StringIO) -> None:
    with display() as progress:
        for run in range(2):
            progress.rounds.begin(4, run)
            progress.work("north")("encoding", 1, 2)
            progress.work("north")("encoding", 2, 2)
            progress.rounds.scored(RoundRow(4, 1.0, 0.5, 0.5, 0.5, 1.0, {}, 1, 1, 2, 0))
            progress.rounds.advance(RoundRow(4, 1.0, 0.5, 0.5, 0.5, 1.0, {}, 1, 1, 2, 0))
        LOGGER.info("a line")
    lines = terminal.getvalue().replace("\r", "\n").splitlines()
    assert [line for line in lines if "a line" in line]
    last = [line for line in lines[-3:] if "rounds" in line]
    assert len(last) == 2
    assert all("4/4" in line and "validation accuracy 50.0%" in line for line in last)
    assert not [line for line in lines[-3:] if "encoding" in line]


def test_the_log_is_shown_while_a_display_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    before = LOGGER.level, list(LOGGER.handlers)
    with display() as progress:
        progress.rounds.begin(3, 0)
        LOGGER.info("results go to [out]")
        LOGGER.debug("not this")
        progress.work("north")("encoding", 2, 2)
    assert capsys.readouterr().err == "3 rounds\nresults go to [out]\nnorth: encoding, 2 of 2\n"
    assert (LOGGER.level, LOGGER.handlers) == before


@pytest.mark.parametrize("stop", [KeyboardInterrupt, TerminatedError])
def test_who_stops_work_learns_how_it_goes_on(
    stop: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(stop), resumable(lambda: "call it again"):
        raise stop
    assert capsys.readouterr().err == "stopped; call it again\n"
    with pytest.raises(ValueError, match="x"), resumable(lambda: "call it again"):
        raise ValueError("x")
    assert capsys.readouterr().err == ""
