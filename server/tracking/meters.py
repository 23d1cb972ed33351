"""What Prometheus reads of a run: counters and gauges of a registry of its own, over HTTP while the run lasts."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from fedtag.common.errors import ConfigError
from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.status import ClientState

VARIABLE = "FEDTAG_METRICS"
LOOPBACK = "127.0.0.1"
UNNAMED = "unnamed"
"""Stands for nodes that have not introduced themselves: a label per stranger would have no bound."""
SECONDS = (0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, math.inf)
_ADDRESS = re.compile(r"(?:(?P<host>[^:\s]+|\[[0-9a-fA-F:]+\]):)?(?P<port>\d{1,5})")


class Meters:
    """The figures of one run in this process; a run that goes on starts its counters anew, as Prometheus expects."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self._round = Gauge("fedtag_round", "Complete rounds of the run", registry=own)
        self._planned = Gauge("fedtag_rounds_planned", "Rounds of the whole run", registry=own)
        self._rounds = Counter("fedtag_rounds", "Rounds completed by this process", registry=own)
        self._bytes = Counter("fedtag_bytes", "Bytes of messages on the wire", ["direction"], registry=own)
        self._failures = Counter(
            "fedtag_failures", "Answers that were missing, errors, or of no use", ["client"], registry=own
        )
        self._exchange = Histogram(
            "fedtag_exchange_seconds", "Duration of an exchange", ["phase"], buckets=SECONDS, registry=own
        )
        self._round_seconds = Histogram(
            "fedtag_round_seconds", "Duration of a round", buckets=SECONDS, registry=own
        )
        self._clients = Gauge("fedtag_clients", "Clients by what they do", ["state"], registry=own)
        self._accuracy = Gauge(
            "fedtag_validation_accuracy", "Of the last scored model, a fraction; NaN before", registry=own
        )
        self._accuracy.set(math.nan)
        for direction in ("up", "down"):
            self._bytes.labels(direction)
        self.clients({})

    def begin(self, done: int, rounds: int) -> None:
        """The run starts, or goes on after `done` rounds."""
        self._round.set(done)
        self._planned.set(rounds)

    def clients(self, counts: Mapping[ClientState, int]) -> None:
        """How many clients are in each state."""
        for state in get_args(ClientState):
            self._clients.labels(state).set(counts.get(state, 0))

    def exchange(self, phase: str, seconds: float, up: int, down: int) -> None:
        """An exchange is over."""
        self._exchange.labels(phase).observe(seconds)
        self._bytes.labels("up").inc(up)
        self._bytes.labels("down").inc(down)

    def failure(self, client: str | None) -> None:
        """A client's answer is missing, an error, or of no use."""
        self._failures.labels(client or UNNAMED).inc()

    def round_over(self, row: RoundRow) -> None:
        """A round is complete."""
        self._round.set(row.round)
        self._rounds.inc()
        self._round_seconds.observe(row.seconds)

    def scored(self, row: RoundRow) -> None:
        """The model of a round has been scored, or was not due to be."""
        if row.val_accuracy is not None:
            self._accuracy.set(row.val_accuracy)


def metrics_address(text: str) -> tuple[str, int] | None:
    """The address that FEDTAG_METRICS gives: PORT on loopback, or HOST:PORT; None where it is empty.

    Raises:
        ConfigError: it is neither.
    """
    if not text:
        return None
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 2**16:
        raise ConfigError(f"{VARIABLE} is '{text}': give a port, such as 9464, or an address and a port")
    return (found["host"] or LOOPBACK).strip("[]"), int(found["port"])


@contextmanager
def exposed_meters(note: Callable[[str], None]) -> Iterator[Meters]:
    """Meters that Prometheus can read at the address of FEDTAG_METRICS while the context lasts.

    An address that is taken costs the metrics, not the run.

    Args:
        note: told about an address that is taken.

    Raises:
        ConfigError: see `metrics_address`.
    """
    meters, address = Meters(), metrics_address(os.environ.get(VARIABLE, ""))
    if address is None:
        yield meters
        return
    host, port = address
    try:
        server, thread = start_http_server(port, host, meters.registry)
    except OSError as error:
        note(
            f"no metrics: {host}:{port} cannot be used ({error.strerror or error}); another run may have it, or set "
            f"{VARIABLE} to another port"
        )
        yield meters
        return
    try:
        yield meters
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
