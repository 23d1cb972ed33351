"""Metrics as Prometheus reads them, over HTTP."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedtag.common.errors import ConfigError
from fedtag.deploy.federation.ports import free_ports
from fedtag.server.tracking.meters import Meters, exposed_meters, metrics_address
from fedtag.server.tracking.rows import RoundRow


def scraped(port: int) -> dict[tuple[str, str], float]:
    """The samples by name and labels, as Prometheus' own parser reads them."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def row(number: int, accuracy: float | None = None) -> RoundRow:
    return RoundRow(number, 1.0, accuracy, None, None, 4.0, {}, 100, 50, 2, 1)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", None),
        ("9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_address(text: str, address: tuple[str, int] | None) -> None:
    assert metrics_address(text) == address


@pytest.mark.parametrize("text", ["on", "0", "70000", "host:", ":80", "a b:80", "-1"])
def test_wrong_address(text: str) -> None:
    with pytest.raises(ConfigError, match=r"FEDTAG_METRICS is '.*': give a port, such as 9464"):
        metrics_address(text)


def test_figures_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv("FEDTAG_METRICS", str(port))
    with exposed_meters(pytest.fail) as meters:
        found = scraped(port)
        assert found["fedtag_validation_accuracy", ""] != found["fedtag_validation_accuracy", ""]
        assert found["fedtag_bytes_total", "up"] == 0
        meters.begin(3, 20)
        meters.clients({"asked": 2, "failed": 1})
        meters.exchange("train", 2.5, 1000, 500)
        meters.exchange("train", 4.0, 1000, 500)
        meters.failure("north")
        meters.failure(None)
        meters.round_over(row(4))
        meters.scored(row(4, 0.75))
        meters.scored(row(5))
        found = scraped(port)
    assert (found["fedtag_round", ""], found["fedtag_rounds_planned", ""]) == (4, 20)
    assert found["fedtag_rounds_total", ""] == 1
    assert (found["fedtag_bytes_total", "up"], found["fedtag_bytes_total", "down"]) == (2000, 1000)
    assert (found["fedtag_failures_total", "north"], found["fedtag_failures_total", "unnamed"]) == (1, 1)
    assert (
        found["fedtag_exchange_seconds_count", "train"],
        found["fedtag_exchange_seconds_sum", "train"],
    ) == (2, 6.5)
    assert (found["fedtag_exchange_seconds_bucket", "3.0,train"], found["fedtag_round_seconds_sum", ""]) == (
        1,
        4,
    )
    assert [found["fedtag_clients", state] for state in ("online", "asked", "failed")] == [0, 2, 1]
    assert found["fedtag_validation_accuracy", ""] == 0.75
    with pytest.raises(urllib.error.URLError):
        scraped(port)


def test_loopback_alone_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv("FEDTAG_METRICS", str(port))
    with exposed_meters(pytest.fail), socket.socket() as other:
        # The same port of another address is free.
        other.bind(("127.0.0.2", port))


def test_a_port_that_is_taken_costs_the_metrics_only(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setenv("FEDTAG_METRICS", f"127.0.0.1:{other.getsockname()[1]}")
        with exposed_meters(notes.append) as meters:
            meters.round_over(row(1))
    (note,) = notes
    assert note.startswith("no metrics: 127.0.0.1:")
    assert "Address already in use" in note
    assert note.endswith("set FEDTAG_METRICS to another port")


def test_two_runs_in_a_process_have_figures_of_their_own() -> None:
    one, other = Meters(), Meters()
    one.round_over(row(1))
    assert one.registry.get_sample_value("fedtag_rounds_total") == 1
    assert other.registry.get_sample_value("fedtag_rounds_total") == 0
