"""What is installed, the settings of a run, and runs, as tables; specifications that are handed over as objects."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pandas as pd

from fedtag.common.config import RunConfig, default_settings, setting_descriptions
from fedtag.common.errors import ConfigError
from fedtag.common.settings.registry import Spec
from fedtag.runs.catalogue import ALL, entries
from fedtag.runs.overview import RunEntry, differences, run_entries
from fedtag.runs.run import Run
from fedtag.server.tracking.run_directory import RunDirectory


def methods() -> pd.DataFrame:
    """All methods, presets, parts, condensers, backbones and trackers that are installed, a row each.

    Returns:
        columns kind, title, source, package, traits; the index are the names.

    Example:
        >>> import fedtag
        >>> sorted(set(fedtag.methods()["kind"]))
        ['backbone', 'condenser', 'method', 'part', 'preset', 'tracker']
    """
    rows = [
        (one.name, one.kind, one.title, one.source, one.origin.package, ", ".join(one.traits))
        for one in entries()
    ]
    columns = ["name", "kind", "title", "source", "package", "traits"]
    return pd.DataFrame(rows, columns=columns).set_index("name")


def settings(method: str | None = None) -> pd.DataFrame:
    """The settings of a run, a row each.

    Args:
        method: those of a run of a method or preset, with the values that it has where nothing is given; None: all
            that is installed, with defaults that may be left to the method.

    Returns:
        columns value and meaning; the index are the dotted keys.

    Raises:
        ConfigError: no method is called so.

    Example:
        >>> import fedtag
        >>> fedtag.settings().loc["model.hidden", "value"]
        64
    """
    meanings = setting_descriptions()
    values = default_settings() if method is None else RunConfig.from_flat({"method": method}).to_flat()
    rows = [(key, value, meanings.get(key, "")) for key, value in values.items()]
    return pd.DataFrame(rows, columns=["setting", "value", "meaning"]).set_index("setting")


def register(spec: Spec) -> str:
    """Take a method, preset, part, condenser, backbone or tracker as an object; it lives as long as this process.

    One of the same name that was taken before is replaced, as a cell of a notebook is run again. What is for more than
    one process belongs into a package with an entry point.

    Returns:
        its name, as settings have it.

    Raises:
        ConfigError: an installed package brings something of this name, or it is for another interface.
    """
    registry = next((one for one in ALL if isinstance(spec, one.kind)), None)
    if registry is None:
        kinds = ", ".join(one.kind.__name__ for one in ALL)
        raise ConfigError(f"{type(spec).__name__} is no specification: use one of {kinds}")
    registry.add(spec)
    return spec.name


def list_runs(folder: str | Path = "runs") -> pd.DataFrame:
    """The runs in a folder and below it, a row each, the newest first.

    Only settings, status and summaries are read. A run that is damaged has the state `damaged`, and says why under
    `trouble`.

    Args:
        folder: that holds runs, or is one.

    Returns:
        columns method, data, clients, rounds, planned, state, metric, val, test, date, parent, trouble; the index are
        the paths below the folder.

    Raises:
        RunError: it is no folder.

    Example:
        >>> import fedtag, networkx
        >>> club = networkx.karate_club_graph()
        >>> networkx.set_node_attributes(club, {node: f"member {node}" for node in club}, "text")
        >>> graph = fedtag.Graph.from_networkx(club, text="text", label="club")
        >>> run = fedtag.simulate(graph, clients=2, rounds=1, out="several/first")
        >>> fedtag.list_runs("several")["state"].to_dict()
        {'first': 'finished'}
    """
    columns = [one.name for one in fields(RunEntry)]
    rows = [vars(one) for one in run_entries(Path(folder))]
    whole = dict.fromkeys(("clients", "rounds", "planned"), "Int64")
    return pd.DataFrame(rows, columns=columns).astype({**whole, "val": float, "test": float}).set_index("run")


def diff_runs(first: Run | str | Path, second: Run | str | Path) -> pd.DataFrame:
    """Settings and results in which two runs differ, a row each; a run that has not finished has no results.

    Returns:
        columns first and second; the index are the kind, `setting` or `result`, and the name.

    Raises:
        RunError: one is no run, or damaged.
    """
    directories = [
        RunDirectory.open(one.path if isinstance(one, Run) else Path(one)) for one in (first, second)
    ]
    rows = [(one.kind, one.name, *one.values) for one in differences(*directories)]
    columns = ["kind", "name", "first", "second"]
    return pd.DataFrame(rows, columns=columns, dtype=object).set_index(["kind", "name"])
