from __future__ import annotations

import importlib.util
import urllib.request

import pytest

from fedtag.deploy.federation.control import EXEMPT, beside_proxies

LOOPBACK = ["127.0.0.1", "localhost", "::1"]
TUNNEL = "http://proxy.example.org:3128"


def test_loopback_is_exempt_whichever_variable_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "https_proxy": TUNNEL,
        "no_proxy": "example.org,10.0.0.0/8",
        "no_grpc_proxy": "example.net",
        "PATH": "x",
    }
    found = beside_proxies(given)
    for name in EXEMPT:
        assert found[name].split(",") == ["example.org", "10.0.0.0/8", "example.net", *LOOPBACK]
    # What a person set for the world outside stays.
    assert (found["https_proxy"], found["PATH"]) == (TUNNEL, "x")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, found[name])
    assert urllib.request.proxy_bypass("127.0.0.1")
    assert urllib.request.proxy_bypass("example.org")
    assert not urllib.request.proxy_bypass("hub.example.com")


def test_a_socks_proxy_that_nothing_here_speaks_is_left_out() -> None:
    assert importlib.util.find_spec("socksio") is None, "httpx speaks SOCKS here"
    given = {"ALL_PROXY": "socks5h://127.0.0.1:9", "http_proxy": "SOCKS4://x", "HTTPS_PROXY": TUNNEL}
    found = beside_proxies(given)
    assert {name for name in found if name.lower().endswith("_proxy")} == {"HTTPS_PROXY", *EXEMPT}
