from __future__ import annotations

from importlib import metadata

import pytest

from fedtag.common.errors import VersionError
from fedtag.common.wire.protocol import (
    PROTOCOL,
    app_settings,
    app_versions,
    checked_release,
    installed_release,
)


def test_an_app_says_protocol_and_release_and_its_settings_are_the_rest() -> None:
    assert app_versions() == {"fedtag.protocol": PROTOCOL, "fedtag.release": metadata.version("fedtag")}
    assert app_settings({**app_versions(), "rounds": 3}) == ({"rounds": 3}, installed_release())


def test_another_release_of_the_protocol_is_told() -> None:
    told = {**app_versions(), "fedtag.release": "0.1.99"}
    assert app_settings(told) == ({}, "0.1.99")
    assert checked_release("the message", PROTOCOL, "0.1.99") == "0.1.99"


@pytest.mark.parametrize("release", [None, 1, "", "a patient's text", "9" * 60, "0.1\n"])
def test_what_is_no_release_is_not_repeated(release: object) -> None:
    assert checked_release("the message", PROTOCOL, release) == "of an unknown release"


def test_another_protocol_is_refused_with_both_versions_and_the_remedy() -> None:
    with pytest.raises(VersionError) as caught:
        app_settings({**app_versions(), "fedtag.protocol": PROTOCOL + 1, "fedtag.release": "0.3.0"})
    assert str(caught.value) == (
        f"the app is of protocol {PROTOCOL + 1} (fedtag 0.3.0), and here is protocol {PROTOCOL} "
        f"(fedtag {installed_release()}): install the same fedtag on all sides, and write the app with its "
        "`fedtag bundle`"
    )


def test_an_app_without_versions_is_an_earlier_one() -> None:
    with pytest.raises(
        VersionError, match=r"the app is of no known protocol \(fedtag of an unknown release\)"
    ):
        app_settings({"rounds": 3})
