"""Who would read a site's texts from the server of its audit pages, or write into its verdicts, without being asked."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from fedtag.audits import serving
from fedtag.audits.evidence import audit_site
from fedtag.audits.serving import AuditedPages, AuditServer
from fedtag.client.evidence.measured import FILE as MEASURED
from fedtag.client.evidence.store import write_packs
from fedtag.client.evidence.verdicts import FILE as VERDICTS
from fedtag.client.evidence.verification import Budgets
from fedtag.client.site.site import Site
from tests.audited import chunk, pack
from tests.browser import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TOKEN = "f" * 43
EVIL = "evil.example"


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]
) -> AuditedPages:
    folder = write_feature_folder(tmp_path_factory.mktemp("served") / "site-a")
    texts: dict[str | int, str] = {node: f"text of node {node}" for node in range(60)}
    packs = [
        pack(node, [chunk(texts, node, 0, 4, 1.0)], round=3, prediction="a", label="abc"[node % 3])
        for node in range(60)
    ]
    write_packs(folder / "evidence", 3, packs)
    site = Site("site-a", folder, folder, folder / "cache")
    return AuditedPages(audit_site(site, None, Budgets()), 5)


@pytest.fixture
def serve(pages: AuditedPages) -> Iterator[Callable[..., AuditServer]]:
    started = []

    def run(hosts: tuple[str, ...] | None = None) -> AuditServer:
        server = AuditServer({"site-a": pages}, TOKEN, hosts=hosts)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return server

    yield run
    for server in started:
        server.shutdown()
        server.server_close()


def ask(
    server: AuditServer, path: str, host: str | None = None, method: str = "GET", body: str | None = None
) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, body, {} if host is None else {"Host": host})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


PLACES = (
    "/site-a/",
    "/site-a/overview",
    "/site-a/nodes?words=text",
    "/site-a/node?row=0",
    "/site-a/judged",
    "/",
)


@pytest.mark.parametrize("token", ["", "g" * 43, TOKEN[:-1], TOKEN + "f", "%00", "é"])
def test_without_the_token_nothing_is_told(serve: Callable[..., AuditServer], token: str) -> None:
    server = serve()
    for path in PLACES:
        status, said = ask(server, f"{path}{'&' if '?' in path else '?'}token={quote(token, safe='%')}")
        assert status == 403
        assert "text of node" not in said
        assert "lacks its token" in said
    # The control: whoever has it is told.
    status, said = ask(server, f"/site-a/node?row=0&token={TOKEN}")
    assert status == 200
    assert "text of node 0" in said


def test_a_rebound_name_is_refused(serve: Callable[..., AuditServer]) -> None:
    """A page of evil.example, whose name now leads to this machine, asks with a token that it found out."""
    path = f"/site-a/node?row=0&token={TOKEN}"
    server = serve()
    for host in (
        f"{EVIL}:{server.server_port}",
        EVIL,
        "",
        f"127.0.0.1.{EVIL}:{server.server_port}",
        "127.0.0.1",
    ):
        status, said = ask(server, path, host)
        assert (status, said) == (403, "this address has another name")
    assert ask(server, path, f"localhost:{server.server_port}")[0] == 200
    # The control: a server that takes any such name tells all.
    open_server = serve((EVIL,))
    status, said = ask(open_server, path, EVIL)
    assert status == 200
    assert "text of node 0" in said


def test_nobody_writes_verdicts_without_the_token(
    serve: Callable[..., AuditServer], pages: AuditedPages
) -> None:
    server = serve()
    file = pages.audited.site.workspace / "audit-verdicts.json"
    said = json.dumps({"1": {"verdict": "not", "note": "", "at": None}})
    assert ask(server, "/site-a/verdicts", method="PUT", body=said)[0] == 403
    assert ask(server, f"/site-a/verdicts?token={TOKEN}", EVIL, "PUT", said)[0] == 403
    deep = f'{{"1": {{"verdict": {"[" * 900}{"]" * 900}, "note": "", "at": null}}}}'
    unknown = json.dumps({"60": {"verdict": "not", "note": "", "at": None}})
    wrong = json.dumps({"1": {"verdict": "never", "note": "", "at": None}})
    forms = json.dumps({"1": {"path": "/etc"}}), json.dumps({"1": 3})
    for body in ("[]", "no", "[" * 100_000, deep, unknown, wrong, *forms):
        assert ask(server, f"/site-a/verdicts?token={TOKEN}", method="PUT", body=body)[0] == 400
    assert ask(server, f"/site-a/../verdicts?token={TOKEN}", method="PUT", body=said)[0] == 400
    assert not file.exists()
    assert ask(server, f"/site-a/verdicts?token={TOKEN}", method="PUT", body=said)[0] == 200
    assert json.loads(ask(server, f"/site-a/verdicts?token={TOKEN}")[1]) == json.loads(said)
    assert file.stat().st_mode & 0o077 == 0
    file.unlink()


def test_the_server_listens_on_loopback_alone_and_answers_nothing_else(
    serve: Callable[..., AuditServer],
) -> None:
    server = serve()
    assert server.server_address[0] == "127.0.0.1"
    for path in ("/site-b/", "/site-a/../../etc/passwd", "/site-a/files", "/"):
        assert ask(server, f"{path}?token={TOKEN}")[0] == 404
    for query in ("from=x", "from=-1", "only=others", "label=nope", "label=a", "prediction=9"):
        assert ask(server, f"/site-a/nodes?{query}&token={TOKEN}")[0] == 400
    assert ask(server, f"/site-a/node?row=60&token={TOKEN}") == (200, "null")
    assert ask(server, f"/site-a/node?token={TOKEN}")[0] == 400


def test_a_person_reads_the_served_pages(
    serve: Callable[..., AuditServer], browser: Browser, pages: AuditedPages
) -> None:
    server = serve()
    with opened(browser, server.addresses[0]) as shown:
        shown.page.locator("main h2", has_text="Overview").wait_for()
        assert not shown.grave()
        for where, heading in (
            ("#sample", "Sample"),
            ("#nodes?words=node+17", "Nodes"),
            ("#row=17", "Node 17"),
        ):
            shown.page.evaluate("where => { location.hash = where; }", where)
            shown.page.locator("main h2", has_text=heading).wait_for()
        assert shown.page.locator("mark").all_text_contents() == ["text"]
        shown.page.get_by_label("In part").check()
        shown.page.get_by_text("kept 20").wait_for()
        assert pages.verdicts({})[17]["verdict"] == "partly"
        shown.page.evaluate("location.hash = '#nodes?words=node+17'")
        shown.page.get_by_role("status").filter(has_text="1 of 60 nodes").wait_for()
        assert not shown.errors
    with opened(browser, server.addresses[0].partition("?")[0]) as shown:
        assert "lacks its token" in shown.page.locator("body").inner_text()


def raw(server: AuditServer, request: bytes, reset: bool = False) -> bytes:
    """What is answered to some bytes; nothing to who resets the connection behind them."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as made:
        made.sendall(request)
        if reset:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return b""
        made.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: made.recv(65536), b""))


def test_who_goes_early_leaves_no_trace(
    serve: Callable[..., AuditServer],
    pages: AuditedPages,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = serve()
    gone = threading.Event()
    page = pages.page
    monkeypatch.setattr(pages, "page", lambda: gone.wait(10) and page() * 200)
    head = f"Host: 127.0.0.1:{server.server_port}\r\n\r\n"
    raw(server, f"GET /site-a/?token={TOKEN} HTTP/1.0\r\n{head}".encode(), reset=True)
    raw(server, b"GET / HT", reset=True)
    gone.set()
    monkeypatch.undo()
    # The control: what is wrong with the server itself is told, in one line without the token.
    monkeypatch.setattr(pages, "overview", lambda query: 1 / 0)
    with caplog.at_level(logging.ERROR, "fedtag"):
        assert raw(server, f"GET /site-a/overview?token={TOKEN} HTTP/1.0\r\n{head}".encode()) == b""
        until = time.monotonic() + 10
        while not caplog.messages and time.monotonic() < until:
            time.sleep(0.01)
    assert caplog.messages == ["an audit page was not shown: ZeroDivisionError: division by zero"]
    assert "Traceback" not in "".join(capfd.readouterr())


def test_what_no_address_can_be_is_refused(serve: Callable[..., AuditServer]) -> None:
    server = serve()
    for address in ("http://[::1/", "http://[x]/"):
        head = f"GET {address} HTTP/1.0\r\nHost: "
        assert b"403" in raw(server, f"{head}{EVIL}\r\n\r\n".encode()).partition(b"\r\n")[0]
        answer = raw(server, f"{head}127.0.0.1:{server.server_port}\r\n\r\n".encode())
        assert b"400" in answer.partition(b"\r\n")[0]
        assert b"the address cannot be read" in answer


def test_who_sends_less_than_stated_holds_nobody(
    serve: Callable[..., AuditServer], monkeypatch: pytest.MonkeyPatch, pages: AuditedPages
) -> None:
    server = serve()
    said = json.dumps({"1": {"verdict": "not", "note": "", "at": None}}).encode()
    line = f"PUT /site-a/verdicts?token={TOKEN} HTTP/1.0\r\nHost: 127.0.0.1:{server.server_port}\r\nContent-Length: "
    assert b"were not kept" in raw(server, f"{line}500\r\n\r\n".encode() + said)
    assert b"400" in raw(server, f"{line}{'1' * 5000}\r\n\r\n".encode()).partition(b"\r\n")[0]
    # One who stays, and sends nothing more.
    monkeypatch.setattr(serving._Handler, "timeout", 0.2)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as made:
        made.sendall(f"{line}500\r\n\r\n".encode() + said)
        assert b"were not kept" in b"".join(iter(lambda: made.recv(65536), b""))
    assert 1 not in pages.verdicts({})


def test_damaged_files_of_a_site_are_told_in_a_sentence(
    serve: Callable[..., AuditServer], pages: AuditedPages
) -> None:
    server = serve()
    workspace = pages.audited.site.workspace
    verdict = '{"%s": {"1": {"verdict": %s, "note": "", "at": null}}}'
    verdicts = [
        verdict % (pages.content.key, value) for value in ("NaN", "Infinity", "1e999", "[]", '"never"')
    ]
    measured = ['{"schema": 1, "model": "9f2c", "nodes": [], "targets": NaN}', "[" * 50_000]
    for name, path, contents in ((VERDICTS, "verdicts", verdicts), (MEASURED, "", measured)):
        for content in contents:
            (workspace / name).write_text(content, encoding="utf-8")
            status, said = ask(server, f"/site-a/{path}?token={TOKEN}")
            assert status == 400
            assert name in said
        (workspace / name).unlink()
        (workspace / name).mkdir()
        assert ask(server, f"/site-a/{path}?token={TOKEN}")[0] == 400
        (workspace / name).rmdir()
        # The control: without the damage it is told.
        assert ask(server, f"/site-a/{path}?token={TOKEN}")[0] == 200
