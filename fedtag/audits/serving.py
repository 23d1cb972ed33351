"""Audit pages of any size, shown on this machine: a page asks for what it shows.

Whoever else works on the machine, and whatever page a browser has open besides, is kept out: the address is a loopback
one, each request carries a token that only the printed address holds, and a request whose Host is another name, as a
rebound DNS name gives, is refused.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np

from fedtag.audits.evidence import Audited, audited_site
from fedtag.client.evidence.page.content import Content, part
from fedtag.client.evidence.page.document import document
from fedtag.client.evidence.page.listing import Asked, Listing
from fedtag.client.evidence.page.views import Views
from fedtag.client.evidence.verdicts import keep_verdicts, read_verdicts
from fedtag.common.errors import FedtagError

LOOPBACK = "127.0.0.1"
MOST_BYTES = 32_000_000
"""Of verdicts, which a browser may send."""
AT_ONCE = 50
"""Nodes of a list that one answer holds, as many as a page shows."""
PATIENCE = 0.25
"""Seconds that an answer searches texts; the page asks again until all are searched."""
MOST_LISTINGS = 16
"""That are kept, the last ones."""


class AuditedPages:
    """The pages of one site: what is asked of them is made when it is asked for.

    Args:
        audited: the site.
        sample: how many nodes are drawn for an auditor.
    """

    def __init__(self, audited: Audited, sample: int) -> None:
        self.audited = audited
        self.content = Content(Views(audited_site(audited)), sample)
        self._overview = self.content.overview(len(self.content.nodes))
        self._listing = lru_cache(MOST_LISTINGS)(partial(Listing, self.content))
        self._writing = Lock()

    def page(self) -> str:
        """The document, which asks for all else."""
        measured = self.audited.measured
        title = self.content.views.site.title
        return document(title, None, None if measured is None else measured.summary)

    def overview(self, query: dict[str, str]) -> Any:
        """What is said of all nodes together."""
        return self._overview

    def nodes(self, query: dict[str, str]) -> Any:
        """How many nodes there are of those that are asked for, and some of them, from a place on."""
        listing, begin = self._searched(query), int(query.get("from") or 0)
        if begin < 0:
            raise ValueError(f"a list begins at 0, not at {begin}")
        rows = listing.found
        return {
            "count": len(rows),
            "searched": listing.searched,
            "index": self.content.index(rows[begin : begin + AT_ONCE].tolist()),
        }

    def node(self, query: dict[str, str]) -> Any:
        """One node by its name, and those before and after it in the list; nothing where there is no such node."""
        content = self.content
        try:
            row = content.nodes.index(query["node"])
        except ValueError:
            return None
        rows = self._searched(query).found
        if row not in rows:
            rows = content.order
        at = int(np.flatnonzero(rows == row)[0])
        near = {"previous": at - 1, "next": at + 1}
        beside = {
            name: content.nodes[rows[other]] if 0 <= other < len(rows) else None
            for name, other in near.items()
        }
        place = {"at": at, "count": len(rows), **beside}
        return {**part(content, row), "index": content.index([row]), "place": place}

    def judged(self, query: dict[str, str]) -> Any:
        """The drawn sample, and all nodes of which an auditor has said something."""
        said, drawn = self.verdicts({}), set(self.content.drawn)
        rows = [row for row, node in enumerate(self.content.nodes) if node in said or row in drawn]
        return self.content.index(rows)

    def _searched(self, query: dict[str, str]) -> Listing:
        listing = self._listing(Asked.of(query))
        listing.search(PATIENCE)
        return listing

    def verdicts(self, query: dict[str, str]) -> Any:
        """What an auditor has said of this evidence, by node."""
        return read_verdicts(self.audited.site.workspace).get(self.content.key, {})

    def keep(self, verdicts: dict[str, Any]) -> None:
        """Write what an auditor says now; arguments and errors as of `keep_verdicts`."""
        with self._writing:
            keep_verdicts(self.audited.site.workspace, self.content.key, verdicts)


class AuditServer(ThreadingHTTPServer):
    """Serves the pages of some sites on loopback.

    Args:
        sites: by name.
        token: that each request must carry.
        hosts: names by which it may be called; those of the loopback address where None.
    """

    daemon_threads = True

    def __init__(
        self, sites: dict[str, AuditedPages], token: str, hosts: Sequence[str] | None = None
    ) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.sites, self.token = sites, token
        names = [f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")]
        self.hosts = frozenset(names if hosts is None else hosts)

    @property
    def addresses(self) -> list[str]:
        """Of the page of each site, with the token."""
        return [
            f"http://{LOOPBACK}:{self.server_port}/{quote(name, safe='')}/?token={self.token}"
            for name in self.sites
        ]


def audit_server(audited: Sequence[Audited], sample: int) -> AuditServer:
    """A server for the pages of some sites, with a token of its own."""
    sites = {site.name: AuditedPages(site, sample) for site in audited}
    return AuditServer(sites, secrets.token_urlsafe(32))


class _Handler(BaseHTTPRequestHandler):
    server: AuditServer
    server_version, sys_version = "fedtag", ""

    def do_GET(self) -> None:
        """A page, or what it asks for."""
        asked = self._asked()
        if asked is None:
            return
        site, what, query = asked
        if what == "":
            self._send(HTTPStatus.OK, site.page().encode(), "text/html; charset=utf-8")
            return
        parts: dict[str, Callable[[dict[str, str]], Any]] = {
            "overview": site.overview,
            "nodes": site.nodes,
            "node": site.node,
            "judged": site.judged,
            "verdicts": site.verdicts,
        }
        if what not in parts:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        try:
            found = parts[what](query)
        except (ValueError, KeyError, IndexError, FedtagError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"{what} cannot be told: {error}")
            return
        self._send(HTTPStatus.OK, json.dumps(found, allow_nan=False).encode(), "application/json")

    def do_PUT(self) -> None:
        """Verdicts, which are kept."""
        asked = self._asked()
        if asked is None:
            return
        site, what, _ = asked
        size = self.headers.get("Content-Length", "")
        if what != "verdicts" or not size.isdecimal() or int(size) > MOST_BYTES:
            self._refuse(HTTPStatus.BAD_REQUEST, "verdicts are kept, of a stated size, and nothing else")
            return
        try:
            said = json.loads(self.rfile.read(int(size)))
            if not isinstance(said, dict):
                raise ValueError("verdicts are an object")
            site.keep(said)
        except (ValueError, RecursionError, OSError, FedtagError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"the verdicts were not kept: {error}")
            return
        self._send(HTTPStatus.OK, b"{}", "application/json")

    def log_message(self, *_: Any) -> None:
        """Nothing: an address holds the token."""

    def _asked(self) -> tuple[AuditedPages, str, dict[str, str]] | None:
        """Whose page, what of it and with which values; None where the request was refused."""
        address = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if self.headers.get("Host", "") not in self.server.hosts:
            self._refuse(HTTPStatus.FORBIDDEN, "this address has another name")
            return None
        if not hmac.compare_digest(query.get("token", "").encode(), self.server.token.encode()):
            self._refuse(HTTPStatus.FORBIDDEN, "the address lacks its token: take the one that was printed")
            return None
        name, _, what = address.path.removeprefix("/").partition("/")
        site = {quote(one, safe=""): pages for one, pages in self.server.sites.items()}.get(name)
        if site is None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such site")
            return None
        return site, what, query

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._send(status, why.encode("utf-8", "replace"), "text/plain; charset=utf-8")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
