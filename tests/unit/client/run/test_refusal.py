from __future__ import annotations

import errno

import pytest

from fedtag.client.run.refusal import HIDDEN, reason, signed
from fedtag.common.errors import ApprovalError, DataError, PolicyError, ProtocolError, RunError, VersionError


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("patient 17"), "ValueError; the site's own log says more"),
        (DataError("row 3: patient 17"), "DataError; the site's own log says more"),
        (ProtocolError("plan a new one"), "ProtocolError: plan a new one"),
        (
            ProtocolError("'/srv/keys' has no update/w; see https://a.example/b, ~/keys and /data"),
            f"ProtocolError: '{HIDDEN}' has no update/w; see https://a.example/b, {HIDDEN} and {HIDDEN}",
        ),
        (ProtocolError("a\x1b[2Jb" + "c" * 1000), "ProtocolError: a\ufffd[2Jb" + "c" * 479),
        (VersionError("install the same"), "VersionError: install the same"),
        (PolicyError("rule 'hours' refuses"), "PolicyError: rule 'hours' refuses"),
        (ApprovalError("waiting"), "ApprovalError: waiting"),
        (
            OSError(errno.ENOSPC, "patient 17", "/data/patient 17"),
            "OSError: No space left on device; the site's own log says more",
        ),
        (
            caused(RunError("patient 17"), OSError(errno.ENOSPC, "patient 17")),
            "RunError: No space left on device; the site's own log says more",
        ),
        (caused(RunError("patient 17"), ValueError("patient 17")), "RunError; the site's own log says more"),
        (OSError("patient 17"), "OSError; the site's own log says more"),
    ],
)
def test_what_the_server_is_told_quotes_no_data(error: Exception, told: str) -> None:
    assert reason(error) == told


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ({"name": "hospital-a", "data": "/srv/graph"}, "hospital-a: why"),
        ({"data": "/srv/graph"}, "graph: why"),
        ({"partition-id": 0}, "why"),
    ],
)
def test_the_site_signs_what_it_tells(node: dict[str, object], told: str) -> None:
    assert signed("why", node) == told


def test_known_places_go_whatever_their_names() -> None:
    node = {"name": "a", "data": "/srv/my data", "keys": "/srv/my data/keys", "worker": "on"}
    told = signed("cannot read /srv/my data/keys/x and /srv/my data", node)
    assert told == "a: cannot read a path at this site/x and a path at this site"
