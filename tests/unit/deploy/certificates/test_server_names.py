from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import ConfigError
from fedtag.deploy.certificates.server_names import LOOPBACK_NAMES, dialled, server_names


@pytest.mark.parametrize(
    ("given_name", "usual"),
    [
        ("FL.Example.org", "fl.example.org"),
        ("superlink", "superlink"),
        ("10.0.0.7", "10.0.0.7"),
        ("[2001:DB8::0007]", "2001:db8::7"),
        ("2001:db8::7", "2001:db8::7"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ],
)
def test_names_take_their_usual_form(given_name: str, usual: str) -> None:
    assert server_names([given_name]) == (usual, *LOOPBACK_NAMES)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "a b",
        "fl.example.org:9092",
        "https://fl.example.org",
        "-a.org",
        "a..b",
        "10.0.0.256",
        "x" * 64,
        "*.a.org",
    ],
)
def test_what_cannot_be_dialled_is_refused(wrong: str) -> None:
    with pytest.raises(
        ConfigError, match=r"is no host name and no address: use for example fl\.example\.org"
    ):
        server_names([wrong])


@pytest.mark.parametrize("listening", ["0.0.0.0", "::"])
def test_listening_addresses_are_refused(listening: str) -> None:
    with pytest.raises(ConfigError, match="is where a server listens, not where it is reached"):
        server_names([listening])


def test_each_name_stands_once() -> None:
    assert server_names(["localhost", "A.org", "a.org", "127.0.0.1"]) == (
        "localhost",
        "a.org",
        "127.0.0.1",
        "::1",
    )


@given(st.ip_addresses())
def test_every_address_but_the_unspecified_is_taken(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if address.is_unspecified:
        return
    assert server_names([str(address)])[0] == str(address)
    assert dialled(str(address), 1).endswith(":1")
    assert dialled(str(address), 1).startswith("[") is (address.version == 6)
