"""Simulated institutions: one graph divided over clients, or several folders, on one machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from filelock import FileLock

from fedtag.client.data.federation import (
    check_training,
    named_site,
    read_sources,
    scored_only,
    whole_words,
)
from fedtag.client.data.fractions import parse_split
from fedtag.client.data.partition import partition
from fedtag.client.data.sites import check_agreement, pooled, prepare_sites
from fedtag.client.data.splitting import resplit
from fedtag.client.data.text_graph import TextGraph
from fedtag.client.data.writing import write_folder
from fedtag.client.run.method import method_of
from fedtag.client.run.opened_site import site_data
from fedtag.client.site.site import Site
from fedtag.client.text.weights import BUNDLED
from fedtag.common.config import RunConfig
from fedtag.common.config.places import SEPARATOR, SOURCE
from fedtag.common.errors import ConfigError, DataError
from fedtag.common.homes import cache_folder, home_folder
from fedtag.common.logs import LOGGER
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.private_file import replace_private
from fedtag.common.secure.roster import roster_entry
from fedtag.common.settings.lists import listed

RUN_VARIABLE = "FEDTAG_RUN"
"""The run directory, for programs on the machine that simulates: where it lies is in no setting that travels."""
COMPLETE = ".complete"
ROSTER = "roster.toml"
MODEL_FOLDERS = ".models"
POOLED_NAME = "all"


def simulate_sites(
    config: RunConfig, destination: Path, graphs: Sequence[TextGraph] = ()
) -> tuple[Site, ...]:
    """The sites of a simulation, written under `destination` if they are not there yet.

    One source is split and then partitioned. Several sources, separated by semicolons, are one client each;
    with one client they are pooled, cross edges included. With privacy.roster every site has keys, and
    roster.toml beside the sites holds those of all.

    Args:
        config: of the run.
        destination: folder of the sites.
        graphs: what data.source names, where it is in memory.

    Raises:
        DataError: if a source breaks the contract or cannot be divided so.
        ConfigError: if settings exclude each other, or what the data are.
    """
    destination.mkdir(parents=True, exist_ok=True)
    with FileLock(destination / ".lock"):
        if not (destination / COMPLETE).is_file():
            names = [folder.name for folder in _write(config, destination, graphs)]
            (destination / COMPLETE).write_text("\n".join(names), encoding="utf-8")
    names = (destination / COMPLETE).read_text(encoding="utf-8").split("\n")
    missing = [name for name in names if not (destination / name / "meta.json").is_file()]
    if missing:
        raise DataError(
            f"{destination} has lost the data of {', '.join(missing)}: restore the folder, or remove all of "
            f"{destination} to make the sites anew"
        )
    models = _models(config, destination)
    sites = tuple(
        Site(
            name,
            destination / name,
            destination / name,
            cache_folder(),
            config.device,
            seed=config.seed,
            models=models,
        )
        for name in names
    )
    method = method_of(config)
    for site in sites:
        method.check(site_data(site, config), config)
    return _with_roster(sites, destination) if config.privacy.roster else sites


def simulated_site(node: Mapping[str, object], config: RunConfig) -> Site:
    """The site of a node in Flower's simulation, whose place is its partition-id.

    Raises:
        ConfigError: without a partition-id, or if there are more nodes than sites.
    """
    if "partition-id" not in node:
        raise ConfigError(
            "this SuperNode has no data: start it with --node-config \"data='/path/to/folder'\""
        )
    if run := os.environ.get(RUN_VARIABLE):
        destination = Path(run) / "sites"
    elif not config.data.sites and not config.out:
        destination = home_folder() / "sites" / config.digest()[:16]
    else:
        destination = Path(config.data.sites or Path(config.out) / "sites")
    sites = simulate_sites(config, destination)
    position = int(str(node["partition-id"]))
    if position >= len(sites):
        raise ConfigError(
            f"node {position} has no site: the settings make {len(sites)}; set clients to match"
        )
    return sites[position]


def _models(config: RunConfig, destination: Path) -> tuple[Path, ...]:
    """The folders in which models lie that were given by paths; a file beside the sites keeps them for later.

    Raises:
        ConfigError: two models, or one and what is built in, would have the same name.
    """
    kept, given = destination / MODEL_FOLDERS, {config.text.encoder, config.summaries.model}
    folders = [Path(one) for one in sorted(given) if Path(one).is_absolute()]
    names = [folder.name for folder in folders]
    if BUNDLED in names or len(set(names)) < len(names):
        raise ConfigError(
            f"{' and '.join(map(str, folders))}: sites know models by the names of their folders: rename a folder, so "
            f"that they differ and none is called '{BUNDLED}'"
        )
    if folders:
        kept.write_text("\n".join(dict.fromkeys(str(one.parent) for one in folders)), encoding="utf-8")
    return tuple(map(Path, kept.read_text(encoding="utf-8").split("\n"))) if kept.is_file() else ()


def _with_roster(sites: tuple[Site, ...], destination: Path) -> tuple[Site, ...]:
    """The same sites with the roster of all, which is written as often as it is not what their keys are."""
    roster = destination / ROSTER
    with FileLock(destination / ".lock"):
        entries = [roster_entry(site.name, Identity.at(site.keys).public) for site in sites]
        content = "\n".join(entries).encode()
        if not roster.is_file() or roster.read_bytes() != content:
            replace_private(roster, content)
    return tuple(replace(site, roster=roster) for site in sites)


def _write(config: RunConfig, destination: Path, graphs: Sequence[TextGraph]) -> tuple[Path, ...]:
    sources = listed(config.data.source, SOURCE, SEPARATOR)
    if not sources:
        raise ConfigError("data.source is empty: name a folder, a .npz graph, a public set, or pydocs-brief")
    fractions = parse_split(config.data.split)
    count = max(len(sources), len(graphs))
    several = count > 1 and config.clients > 1
    if several and config.clients != count:
        raise ConfigError(f"{count} folders are {count} clients: set clients to that number")
    graphs = graphs or [one.graph for one in read_sources(sources, to_split=fractions is not None)]
    if len(graphs) > 1 and not several:
        graphs = [pooled(graphs)]
    if fractions:
        graphs = [resplit(graph, fractions, config.seed) for graph in graphs]
    check_training(sources, graphs)
    for sentence in scored_only(graphs):
        LOGGER.warning("%s", sentence)
    LOGGER.info("%s: %s", ", ".join(Path(source).name for source in sources), whole_words(graphs))
    if several:
        named = [named_site(graph) for graph in graphs]
        check_agreement(named)
        return tuple(write_folder(graph, destination / graph.name) for graph in named)
    (graph,) = graphs
    if config.clients == 1:
        return (write_folder(replace(graph, name=POOLED_NAME), destination / POOLED_NAME),)
    rows = partition(
        graph, config.data.partition, config.clients, config.seed, alpha=config.data.dirichlet_alpha
    )
    return prepare_sites(graph, rows, config.data.overlap, config.seed, destination)
