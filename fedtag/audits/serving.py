"""Audit pages of any size, shown on this machine: a page asks for what it shows.

Whoever else works on the machine, and whatever page a browser has open besides, is kept out: the address is a loopback
one, each request carries a token that only the printed address holds, and a request whose Host is another name, as a
rebound DNS name gives, is refused.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import sys
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
from fedtag.common.wording.visible import visible_line

LOOPBACK = "127.0.0.1"
MOST_BYTES = 32_000_000
"""Of verdicts, which a browser may send."""
AT_ONCE = 50
"""Nodes of a list that one answer holds, as many as a page shows."""
PATIENCE = 0.25
"""Seconds that an answer searches texts; the page asks again until all are searched."""
WAIT = 30
"""Seconds that a connection may stand still."""
LOGGER = logging.getLogger("fedtag")
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
        """One node by its row, and those before and after it in the list; nothing where there is no such row."""
        content, row = self.content, int(query["row"])
        if not 0 <= row < len(content.nodes):
            return None
        rows = self._searched(query).found
        if row not in rows:
            rows = content.order
        at = int(np.flatnonzero(rows == row)[0])
        near = {"previous": at - 1, "next": at + 1}
        beside = {name: int(rows[other]) if 0 <= other < len(rows) else None for name, other in near.items()}
        place = {"at": at, "count": len(rows), **beside}
        return {**part(content, row), "index": content.index([row]), "place": place}

    def judged(self, query: dict[str, str]) -> Any:
        """The drawn sample, and all nodes of which an auditor has said something."""
        return self.content.index(sorted({*self.verdicts({}), *self.content.drawn}))

    def _searched(self, query: dict[str, str]) -> Listing:
        listing = self._listing(Asked.of(query))
        listing.search(PATIENCE)
        return listing

    def verdicts(self, query: dict[str, str]) -> Any:
        """What an auditor has said of this evidence, by row; packs of one node share it."""
        said = read_verdicts(self.audited.site.workspace).get(self.content.key)
        if not said:
            return {}
        return {
            row: said[str(node)] for row, node in enumerate(self.content.views.nodes) if str(node) in said
        }

    def keep(self, verdicts: dict[str, Any]) -> None:
        """Write what an auditor says now, by row; errors as of `keep_verdicts`, ValueError also for an unknown row."""
        nodes = {str(row): str(node) for row, node in enumerate(self.content.views.nodes)}
        odd = verdicts.keys() - nodes.keys()
        if odd:
            raise ValueError(f"{min(odd)[:100]!r} is no row of this evidence")
        by_node = {nodes[row]: said for row, said in verdicts.items()}
        with self._writing:
            keep_verdicts(self.audited.site.workspace, self.content.key, by_node)


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

    def handle_error(self, request: object, client_address: object) -> None:
        """Say in one line what went wrong; that who asked is gone already, not at all."""
        error = sys.exception()
        if not isinstance(error, (ConnectionError, TimeoutError)):
            LOGGER.error("an audit page was not shown: %s", visible_line(f"{type(error).__name__}: {error}"))

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
    timeout = WAIT

    def do_GET(self) -> None:
        """A page, or what it asks for."""
        asked = self._asked()
        if asked is None:
            return
        site, what, query = asked
        parts: dict[str, Callable[[dict[str, str]], Any]] = {
            "overview": site.overview,
            "nodes": site.nodes,
            "node": site.node,
            "judged": site.judged,
            "verdicts": site.verdicts,
        }
        if what and what not in parts:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        try:
            if what:
                body, kind = json.dumps(parts[what](query), allow_nan=False), "application/json"
            else:
                body, kind = site.page(), "text/html; charset=utf-8"
        except (ValueError, KeyError, IndexError, OSError, FedtagError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"{what or 'the page'} cannot be told: {error}")
            return
        self._send(HTTPStatus.OK, body.encode(), kind)

    def do_PUT(self) -> None:
        """Verdicts, which are kept."""
        asked = self._asked()
        if asked is None:
            return
        site, what, _ = asked
        size = self.headers.get("Content-Length", "")
        stated = size.isdecimal() and len(size) <= len(str(MOST_BYTES)) and int(size) <= MOST_BYTES
        if what != "verdicts" or not stated:
            self._refuse(HTTPStatus.BAD_REQUEST, "verdicts are kept, of a stated size, and nothing else")
            return
        try:
            body = self.rfile.read(int(size))
            if len(body) < int(size):
                raise ValueError(f"{len(body)} of {size} bytes came")
            said = json.loads(body)
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
        if self.headers.get("Host", "") not in self.server.hosts:
            self._refuse(HTTPStatus.FORBIDDEN, "this address has another name")
            return None
        try:
            address = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
        except ValueError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"the address cannot be read: {error}")
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
