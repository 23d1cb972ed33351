"""Who would read a site's texts from the server of its audit pages, or write into its verdicts, without being asked."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from fedtag.audits.evidence import audit_site
from fedtag.audits.serving import AuditedPages, AuditServer
from fedtag.client.evidence.store import write_packs
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
        pack(node, [chunk(texts, node, 0, 4, 1.0)], round=3, prediction="a", label="a") for node in texts
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
    "/site-a/node?node=0",
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
    status, said = ask(server, f"/site-a/node?node=0&token={TOKEN}")
    assert status == 200
    assert "text of node 0" in said


def test_a_rebound_name_is_refused(serve: Callable[..., AuditServer]) -> None:
    """A page of evil.example, whose name now leads to this machine, asks with a token that it found out."""
    path = f"/site-a/node?node=0&token={TOKEN}"
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
    for body in ("[]", "no", "[" * 100_000, json.dumps({"1": {"path": "/etc"}}), json.dumps({"1": 3})):
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
    for query in ("from=x", "from=-1", "only=others"):
        assert ask(server, f"/site-a/nodes?{query}&token={TOKEN}")[0] == 400
    assert ask(server, f"/site-a/node?node=60&token={TOKEN}") == (200, "null")
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
            ("#node=17", "Node 17"),
        ):
            shown.page.evaluate("where => { location.hash = where; }", where)
            shown.page.locator("main h2", has_text=heading).wait_for()
        assert shown.page.locator("mark").all_text_contents() == ["text"]
        shown.page.get_by_label("In part").check()
        shown.page.get_by_text("kept 20").wait_for()
        assert pages.verdicts({})["17"]["verdict"] == "partly"
        shown.page.evaluate("location.hash = '#nodes?words=node+17'")
        shown.page.get_by_role("status").filter(has_text="1 of 60 nodes").wait_for()
        assert not shown.errors
    with opened(browser, server.addresses[0].partition("?")[0]) as shown:
        assert "lacks its token" in shown.page.locator("body").inner_text()
