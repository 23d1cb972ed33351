from __future__ import annotations

from pathlib import Path

import pytest

from fedtag.client.site.site import Site, check_name, name_of, site_from_node_config
from fedtag.common.errors import ConfigError
from fedtag.common.wire.names import CLIENT_NAME


@pytest.mark.parametrize("name", ["a", "client-00", "Universität 3", "x@y.org", "病院", "x" * 64])
def test_names_that_are_names_of_folders_pass(name: str, tmp_path: Path) -> None:
    check_name(name)
    site = Site(name, tmp_path, tmp_path / "work", tmp_path / "cache")
    assert site.evidence.parent == site.state.parent == tmp_path / "work"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\\b", "a\n", "-a", " a", "x" * 65, "a\0", "a:b"]
)
def test_other_names_are_refused_as_the_server_does(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use 1 to 64 letters"):
        Site(name, tmp_path, tmp_path, tmp_path)
    assert CLIENT_NAME.fullmatch(name) is None


def test_a_node_config_needs_the_data_only(tmp_path: Path) -> None:
    folder = tmp_path / "hospital"
    folder.mkdir()
    site = site_from_node_config({"data": str(folder)}, "cpu")
    assert site == Site("hospital", folder, folder, folder / "cache", "cpu")


def test_a_node_config_decides_everything_that_it_names(tmp_path: Path) -> None:
    node = {
        "data": str(tmp_path),
        "name": "north",
        "workspace": str(tmp_path / "w"),
        "cache": str(tmp_path / "c"),
        "device": "cuda:1",
        "roster": str(tmp_path / "r"),
        "policy": str(tmp_path / "p"),
    }
    assert site_from_node_config(node, "cpu") == Site(
        "north", tmp_path, tmp_path / "w", tmp_path / "c", "cuda:1", tmp_path / "r", tmp_path / "p"
    )


def test_the_cache_follows_the_workspace(tmp_path: Path) -> None:
    site = site_from_node_config(
        {"data": str(tmp_path), "workspace": str(tmp_path / "w"), "name": "a"}, "auto"
    )
    assert site.cache == tmp_path / "w" / "cache"


def test_a_home_folder_may_be_written_as_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert site_from_node_config({"data": "~/data"}, "cpu").folder == tmp_path / "data"


def test_missing_data_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="start it with --node-config"):
        site_from_node_config({}, "cpu")
    with pytest.raises(ConfigError, match="does not exist; correct data"):
        site_from_node_config({"data": str(tmp_path / "none")}, "cpu")


@pytest.mark.parametrize(
    ("folder", "name"), [("hospital-a", "hospital-a"), ("a;b", "site"), (".hidden", "site")]
)
def test_a_site_is_called_after_its_folder_where_that_is_a_name(
    tmp_path: Path, folder: str, name: str
) -> None:
    assert name_of(tmp_path / folder) == name
    check_name(name_of(tmp_path / folder))


def test_a_misspelt_key_of_a_node_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'polcy', which is no key of it; did you mean 'policy'\?"):
        site_from_node_config({"data": str(tmp_path), "polcy": "/etc/fedtag/policy.toml"}, "cpu")
