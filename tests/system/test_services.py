"""Services that are asked to end, that reach the coordinator through a proxy, and whose database is held by another."""

from __future__ import annotations

import re
import socket
import socketserver
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from fedtag.deploy.federation.ports import free_ports
from tests.system.breakable import Breakable
from tests.system.test_killed_processes import LONG, task


def test_a_site_that_is_asked_to_end_finishes_its_message(three_sites: Breakable) -> None:
    running = three_sites.run("ended", rounds=3, **LONG)
    running.wait_for_checkpoint(1)
    running.wait_until(lambda: task(three_sites, "site-b") is not None, "a message at site-b")
    three_sites.stop("site-b")
    # In order, and not because a signal ended it.
    assert three_sites.programs["site-b"].exit_code == 0
    text = three_sites.log("site-b")
    three_sites.start_node("site-b")
    running.finish()
    # Either its answer went out, or the message was handed back; nobody waited for a deadline.
    assert "SuperNode terminated gracefully" in text
    for reason in running.failures("site-b"):
        assert "error 5" in reason
    assert max(row.seconds for row in running.rounds) < LONG["exchange__deadline"]


def test_a_database_that_another_holds_is_waited_for(three_sites: Breakable) -> None:
    running = three_sites.run("locked", rounds=3, train__epochs=50, exchange__deadline=90)
    running.wait_for_checkpoint(1)
    database = sqlite3.connect(
        three_sites.folder / "superlink" / "superlink.db", timeout=30, isolation_level=None
    )
    database.execute("BEGIN EXCLUSIVE")
    # Flower itself gives up after 5 s.
    time.sleep(12)
    database.execute("ROLLBACK")
    database.close()
    running.finish()
    assert [row.round for row in running.rounds] == [1, 2, 3]
    assert running.rounds[-1].clients_failed == 0


class Tunnel(socketserver.BaseRequestHandler):
    """One connection through an HTTP proxy, which passes on whatever follows CONNECT."""

    seen: ClassVar[list[str]] = []

    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.request.recv(4096)
        found = re.match(rb"CONNECT ([\w.:\[\]]+):(\d+) ", head)
        assert found is not None, head
        host, port = found[1].decode(), int(found[2])
        self.seen.append(f"{host}:{port}")
        with socket.create_connection((host, port)) as onward:
            self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=pass_on, args=(onward, self.request), daemon=True)
            back.start()
            pass_on(self.request, onward)
            back.join()


def pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(2**16):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # The other direction has ended the connection.
        return


@pytest.fixture
def proxy() -> Iterator[tuple[int, list[str]]]:
    (port,) = free_ports(1)
    Tunnel.seen = []
    with socketserver.ThreadingTCPServer(("127.0.0.1", port), Tunnel) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield port, Tunnel.seen
        server.shutdown()


def own_address() -> str | None:
    """An address of this machine that is not loopback, which proxies are not asked for."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            address = str(probe.getsockname()[0])
        except OSError:
            return None
    return None if address.startswith("127.") else address


@pytest.mark.slow
def test_a_site_behind_a_proxy_takes_part(
    tmp_path: Path, proxy: tuple[int, list[str]], write_feature_folder: Callable[..., Path]
) -> None:
    address = own_address()
    if address is None:
        pytest.skip("this machine has no address but loopback")
    port, seen = proxy
    sites = {name: write_feature_folder(tmp_path / name, seed=n) for n, name in enumerate("ab")}
    variables = {"https_proxy": f"http://127.0.0.1:{port}", "http_proxy": f"http://127.0.0.1:{port}"}
    with Breakable(tmp_path / "federation", sites, tls=True, address=address, present=["a"]) as federation:
        federation.present.append("b")
        federation.start_node("b", environment=variables)
        running = federation.run("proxied", rounds=1, clients=2).finish()
        assert {row.client for row in running.clients} == {"a", "b"}
    # The site's own programs speak over loopback, past the proxy.
    assert set(seen) == {f"{address}:{federation.fleet_port}"}
