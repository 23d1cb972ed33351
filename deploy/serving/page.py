"""What a service says of itself over HTTP on loopback: /live, /ready, /status, /metrics."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from fedtag.common.errors import DeploymentError
from fedtag.deploy.federation.ports import LOOPBACK
from fedtag.deploy.serving.supervisor import SILENCE_SECONDS, Watched


@dataclass(frozen=True)
class ProgramState:
    """A program of a service.

    Args:
        name: of the program.
        running: whether it runs.
        state: `starting`, `idle`, `working` or `waiting`; `running` for one that tells nothing.
        detail: at what, or for what and why.
        seconds: since it started; 0 where it does not run.
        silent_seconds: since it last told something; 0 for one that tells nothing.
        restarts: how often it was started again since it last ran for a minute.
        ended: how it ended last; empty if it never did.
    """

    name: str
    running: bool
    state: str
    detail: str
    seconds: float
    silent_seconds: float
    restarts: int
    ended: str

    @property
    def ready(self) -> bool:
        """Whether it can take work, or is at it."""
        return self.running and self.state in ("idle", "working", "running")


def state_of(one: Watched) -> ProgramState:
    """What is known of a program now."""
    now, running = time.monotonic(), one.process is not None and one.process.poll() is None
    return ProgramState(
        one.part.name,
        running,
        one.sign.state if one.part.beats or not running else "running",
        one.sign.detail,
        round(now - one.started, 1) if running else 0.0,
        round(now - one.heard, 1) if one.heard else 0.0,
        one.restarts,
        one.ended,
    )


class Page:
    """The latest state of a service, for whoever asks.

    Args:
        service: `link` or `site`.
        name: of the site; empty for a link.
        port: on loopback.
    """

    def __init__(self, service: str, name: str, port: int) -> None:
        self.service = service
        self.name = name
        self.port = port
        self._programs: tuple[ProgramState, ...] = ()
        self._at = time.monotonic()

    def show(self, programs: list[ProgramState]) -> None:
        """Replace what is shown."""
        self._programs, self._at = tuple(programs), time.monotonic()

    def answer(self, path: str) -> tuple[HTTPStatus, str, bytes] | None:
        """Status, type and body of a page; None for one that does not exist."""
        if path == "/metrics":
            return HTTPStatus.OK, "text/plain; version=0.0.4", self._metrics()
        lively = time.monotonic() - self._at < SILENCE_SECONDS
        good = {
            "/live": lively,
            "/ready": lively and self._ready,
            "/health": lively and self._ready,
            "/status": True,
        }
        if path not in good:
            return None
        status = HTTPStatus.OK if good[path] else HTTPStatus.SERVICE_UNAVAILABLE
        return status, "application/json", json.dumps(self._told(lively)).encode()

    @property
    def _ready(self) -> bool:
        return bool(self._programs) and all(one.ready for one in self._programs)

    def _told(self, lively: bool) -> dict[str, Any]:
        programs = [asdict(one) for one in self._programs]
        return {
            "service": self.service,
            "name": self.name,
            "live": lively,
            "ready": lively and self._ready,
            "programs": programs,
        }

    def _metrics(self) -> bytes:
        registry = CollectorRegistry()
        gauges = {
            name: Gauge(f"fedtag_program_{name}", text, ["program"], registry=registry)
            for name, text in (
                ("up", "Whether a program of the service runs"),
                ("working", "Whether it is at work"),
                ("silent_seconds", "Since it last told something"),
                ("restarts", "How often it was started again since it last ran for a minute"),
            )
        }
        for one in self._programs:
            gauges["up"].labels(one.name).set(one.running)
            gauges["working"].labels(one.name).set(one.state == "working")
            gauges["silent_seconds"].labels(one.name).set(one.silent_seconds)
            gauges["restarts"].labels(one.name).set(one.restarts)
        return generate_latest(registry)


@contextmanager
def served(page: Page) -> Iterator[None]:
    """Answer requests on loopback for as long as the context lasts.

    Raises:
        DeploymentError: the port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = page.answer(self.path)
            if found is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            status, kind, body = found
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Requests of probes fill no log."""

    try:
        server = ThreadingHTTPServer((LOOPBACK, page.port), Handler)
    except OSError as error:
        raise DeploymentError(
            f"port {page.port} on {LOOPBACK} cannot be had ({error.strerror}): name another one with --watch"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="status", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
