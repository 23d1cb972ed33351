"""`fedtag identity`: the keys that a SuperNode will use, as an entry to paste."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedtag.client.site.site import site_from_node_config
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.roster import read_roster
from fedtag.deploy.cli import app


def identity(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["identity", *map(str, arguments)])


def pasted(tmp_path: Path, *results: Result) -> Path:
    """A roster of what the commands wrote to stdout."""
    (tmp_path / "roster.toml").write_text("".join(result.stdout for result in results), encoding="utf-8")
    return tmp_path / "roster.toml"


@pytest.mark.parametrize("name", ["hospital-a", "Universität 3", "a.b"])
def test_stdout_is_the_entry_of_the_keys_that_the_supernode_finds(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    first = identity(folder)
    assert first.exit_code == 0, first.stderr
    site = site_from_node_config({"data": str(folder)}, "cpu")
    assert read_roster(pasted(tmp_path, first)) == {name: Identity.at(site.keys).public}
    file = site.keys / "identity.key"
    assert f"new keys of {name} are in {file}" in first.stderr
    before = file.read_bytes()
    again = identity(folder)
    assert again.stdout == first.stdout
    assert f"the keys of {name} are in {file}" in again.stderr
    assert file.read_bytes() == before
    assert before.hex()[:64] not in first.output


def test_the_node_config_that_is_told_leads_to_the_same_keys(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    result = identity(tmp_path / "data", "--workspace", tmp_path / "work", "--name", "north")
    told = next(line for line in result.stderr.splitlines() if "--node-config" in line).split('"')[1]
    node = dict(part.split("=") for part in told.replace("'", "").split())
    assert node.pop("roster") == "/path/to/roster.toml"
    site = site_from_node_config(node, "cpu")
    assert read_roster(pasted(tmp_path, result)) == {"north": Identity.at(site.keys).public}
    assert not (tmp_path / "data" / "keys").exists()
    assert "by another way than the server" in result.stderr
    assert "privacy.roster = true" in result.stderr


def test_entries_of_several_sites_are_a_roster(tmp_path: Path) -> None:
    results = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        results.append(identity(tmp_path / name))
    assert set(read_roster(pasted(tmp_path, *results))) == {"a", "b"}


def test_what_no_supernode_could_use_is_refused(tmp_path: Path) -> None:
    missing = identity(tmp_path / "none")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "is no folder; name the one that the SuperNode gets as data" in missing.stderr
    (tmp_path / "a;b").mkdir()
    unnamed = identity(tmp_path / "a;b")
    assert unnamed.exit_code == 2
    assert "use 1 to 64 letters" in unnamed.stderr
    assert list((tmp_path / "a;b").iterdir()) == []
    (tmp_path / "a" / "keys").mkdir(parents=True)
    (tmp_path / "a" / "keys" / "identity.key").write_bytes(b"short")
    damaged = identity(tmp_path / "a")
    assert damaged.exit_code == 2
    assert "is damaged: restore it" in damaged.stderr
