from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedtag.client.data.folder import read_folder
from fedtag.client.run.simulated import simulate_sites, simulated_site
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.homes import cache_folder
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.roster import read_roster

WriteFolder = Callable[..., Path]

PINNED = {"privacy.secure-aggregation": True, "privacy.roster": True}


def config(source: str, **changes: Any) -> RunConfig:
    return RunConfig.from_flat(
        {"method": "fedavg", "clients": 3, "data.source": source, "device": "cpu", **changes}
    )


@pytest.fixture
def source(tmp_path: Path, write_feature_folder: WriteFolder) -> str:
    return str(write_feature_folder(tmp_path / "whole"))


def nodes(folder: Path) -> set[Any]:
    return set(read_folder(folder, require_training=False).graph.node_ids)


def test_one_source_is_divided_and_written_once(source: str, tmp_path: Path) -> None:
    sites = simulate_sites(config(source), tmp_path / "sites")
    assert [site.name for site in sites] == ["client-00", "client-01", "client-02"]
    parts = [nodes(site.folder) for site in sites]
    assert set().union(*parts) == nodes(Path(source))
    assert sum(map(len, parts)) == 60
    assert {site.cache for site in sites} == {cache_folder()}
    times = [(site.folder / "nodes.parquet").stat().st_mtime_ns for site in sites]
    assert simulate_sites(config(source), tmp_path / "sites") == sites
    assert [(site.folder / "nodes.parquet").stat().st_mtime_ns for site in sites] == times


def test_an_interrupted_division_is_done_again(source: str, tmp_path: Path) -> None:
    sites = simulate_sites(config(source), tmp_path / "sites")
    (tmp_path / "sites" / ".complete").unlink()
    (sites[1].folder / "edges.parquet").unlink()
    assert simulate_sites(config(source), tmp_path / "sites") == sites
    assert (sites[1].folder / "edges.parquet").is_file()


def test_the_seed_decides_the_division(source: str, tmp_path: Path) -> None:
    random = {"data.partition": "random"}
    one, same, other = (
        [nodes(site.folder) for site in simulate_sites(config(source, seed=seed, **random), tmp_path / name)]
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert one == same != other


def test_several_folders_are_one_client_each(tmp_path: Path, write_feature_folder: WriteFolder) -> None:
    sources = ";".join(str(write_feature_folder(tmp_path / name, 30)) for name in ("north", "south"))
    sites = simulate_sites(config(sources, clients=2), tmp_path / "sites")
    assert [site.name for site in sites] == ["north", "south"]
    with pytest.raises(ConfigError, match="2 folders are 2 clients"):
        simulate_sites(config(sources, clients=3), tmp_path / "others")


def test_a_pooled_method_gets_everything(
    source: str, tmp_path: Path, write_feature_folder: WriteFolder
) -> None:
    (site,) = simulate_sites(config(source, method="centralised"), tmp_path / "one")
    assert (site.name, nodes(site.folder)) == ("all", nodes(Path(source)))
    both = f"{source} ; {write_feature_folder(tmp_path / 'more', 30)}"
    (site,) = simulate_sites(config(both, method="centralised"), tmp_path / "two")
    assert len(nodes(site.folder)) == 90


def test_another_split_is_drawn_before_the_division(source: str, tmp_path: Path) -> None:
    sites = simulate_sites(config(source, **{"data.split": "0.2,0.4,0.4"}), tmp_path / "sites")
    graphs = [read_folder(site.folder, require_training=False).graph for site in sites]
    counts = [sum(int((graph.split == split).sum()) for graph in graphs) for split in (1, 2, 3)]
    assert counts == [12, 24, 24]


def test_an_empty_source_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.source is empty"):
        simulate_sites(config(" "), tmp_path / "sites")
    with pytest.raises(ConfigError, match=r"data\.source = ' ; ' lists something empty"):
        simulate_sites(config(" ; "), tmp_path / "sites")


def test_a_node_takes_the_site_at_its_place(source: str, tmp_path: Path) -> None:
    for changes in ({"data.sites": str(tmp_path / "s")}, {"out": str(tmp_path / "run")}, {}):
        settings = config(source, **changes)
        places = [simulated_site({"partition-id": place}, settings) for place in (0, 1, 2)]
        assert [site.name for site in places] == ["client-00", "client-01", "client-02"]
        with pytest.raises(ConfigError, match="node 3 has no site: the settings make 3"):
            simulated_site({"partition-id": 3}, settings)
    assert (
        simulated_site({"partition-id": 0}, config(source, out=str(tmp_path / "r"))).folder.parent
        == tmp_path / "r/sites"
    )
    with pytest.raises(ConfigError, match="has no data"):
        simulated_site({}, config(source))


def test_with_rosters_every_site_pins_the_keys_of_all(source: str, tmp_path: Path) -> None:
    sites = simulate_sites(config(source, **PINNED), tmp_path / "sites")
    roster = tmp_path / "sites" / "roster.toml"
    assert {site.roster for site in sites} == {roster}
    assert read_roster(roster) == {site.name: Identity.at(site.keys).public for site in sites}
    before = roster.stat().st_mtime_ns
    again = config(source, **PINNED, **{"data.sites": str(tmp_path / "sites")})
    assert tuple(simulated_site({"partition-id": place}, again) for place in range(3)) == sites
    assert roster.stat().st_mtime_ns == before
    (sites[1].keys / "identity.key").unlink()
    roster.unlink()
    assert simulate_sites(again, tmp_path / "sites") == sites
    assert read_roster(roster) == {site.name: Identity.at(site.keys).public for site in sites}


def test_without_rosters_no_site_has_one(source: str, tmp_path: Path) -> None:
    secure = {"privacy.secure-aggregation": True}
    sites = simulate_sites(config(source, **secure), tmp_path / "sites")
    assert {site.roster for site in sites} == {None}
    assert not any(site.keys.exists() for site in sites)
    assert not (tmp_path / "sites" / "roster.toml").exists()


@pytest.mark.parametrize("clients", [1, 3])
def test_a_directed_graph_is_refused_before_features_are_exchanged(
    source: str, clients: int, tmp_path: Path
) -> None:
    meta = Path(source) / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "directed": True}))
    fedgc = {"method": "fedgc", "clients": clients, "neighbour-exchange.mode": "summed"}
    with pytest.raises(ConfigError, match=r"is directed, .*: set neighbour-exchange.mode = off"):
        simulate_sites(config(source, **fedgc), tmp_path / "sites")
    assert (
        len(simulate_sites(config(source, **{**fedgc, "neighbour-exchange.mode": "off"}), tmp_path / "sites"))
        == clients
    )
