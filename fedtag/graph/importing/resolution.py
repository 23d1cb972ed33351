"""A recipe in which every column has its name: given, found out and said, or asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fedtag.client.data.problems import Problems
from fedtag.client.data.tables import Table
from fedtag.common.errors import DataError
from fedtag.common.wording.counts import plural
from fedtag.common.wording.suggestion import did_you_mean
from fedtag.graph.importing.account import GUESSED, READ, Account, listed
from fedtag.graph.importing.columns import (
    ENOUGH,
    Candidate,
    Choose,
    decided,
    end_shares,
    id_candidates,
    label_candidates,
    split_candidates,
    text_columns,
    weight_column,
)
from fedtag.graph.importing.linking import elements
from fedtag.graph.importing.recipe import Recipe
from fedtag.graph.importing.source import WIDEST, Source, refused


def resolved(recipe: Recipe, nodes: Source, edges: Source | None, choose: Choose, account: Account) -> Recipe:
    """The recipe with the columns of the nodes; those of the edges follow once the ids are known.

    Raises:
        DataError: a column is missing, or which one is meant cannot be told.
    """
    of_edges = [one for one in ("src", "dst", "weight") if getattr(recipe, one)]
    if edges is None and of_edges:
        raise DataError(
            f"{of_edges[0]}= names a column of edges, of which no table is given; give one, or leave it out."
        )
    if recipe.edges_from and recipe.edges_from_column:
        raise DataError("edges_from= and edges_from_column= are both given: give one of them.")
    links = recipe.edges_from or recipe.edges_from_column
    given = [recipe.id, *recipe.text, recipe.label, recipe.split, links]
    _check(nodes, given)
    table = nodes.sample(recipe.text)
    if not len(table):
        _tell_no_row(nodes)
    _tell_unseen(nodes, account)
    free = [name for name in nodes.first_columns if name not in given]
    found: dict[str, str | list[str]] = {}

    def settle(role: str, candidates: Sequence[Candidate]) -> None:
        chosen = decided(role, candidates, nodes.file, choose)
        if chosen is not None:
            found[role] = chosen.column
            free[:] = [name for name in free if name != chosen.column]
            account.tell(GUESSED, f"{role} is {chosen.column} ({chosen.reason})")

    if not recipe.split:
        settle("split", split_candidates(table, free))
    if not recipe.id:
        # What nodes are called may be their text as well.
        settle("id", id_candidates(table, [*free, *recipe.text], None if edges is None else edges.sample()))
    if not recipe.label:
        settle("label", label_candidates(table, free))
    if not recipe.text:
        texts = text_columns(table, free, choose)
        found["text"] = [one.column for one in texts]
        for one in texts:
            free.remove(one.column)
        if texts:
            names = ", ".join(one.column for one in texts)
            account.tell(GUESSED, f"text is {names} ({texts[0].reason})")
    recipe = recipe.but(**found)
    if not recipe.text:
        raise DataError(
            f"{nodes.file}: no column is a text (found: {listed(nodes.columns) or 'none'}); name one with text=."
        )
    if free:
        account.tell(READ, f"not used: {listed(free)}")
    return recipe


def with_ends(recipe: Recipe, edges: Source, ids: pa.Array, choose: Choose, account: Account) -> Recipe:
    """The recipe with the columns of the edges.

    Raises:
        DataError: a column is missing, or the ends cannot be told.
    """
    if bool(recipe.src) != bool(recipe.dst):
        raise DataError(
            f"{edges.file}: one end is named and the other is not; give both src= and dst=, or neither."
        )
    if recipe.src and recipe.src == recipe.dst:
        raise DataError(f"{edges.file}: src= and dst= are both {recipe.src}; name two columns.")
    given = [recipe.src, recipe.dst, recipe.weight]
    _check(edges, given)
    table = edges.sample()
    _tell_unseen(edges, account)
    found: dict[str, str] = {}
    free = [name for name in edges.first_columns if name not in given]
    if not recipe.weight and (weight := weight_column(table, free)) is not None:
        found["weight"] = weight
        free.remove(weight)
        account.tell(GUESSED, f"weight is {weight} (its name)")
    if not recipe.src:
        shares = end_shares(table, free, ids)
        found["src"], found["dst"] = _ends(edges, table, shares, choose)
        told = [f"{found[end]} ({shares[found[end]]:.0%} of its values are ids)" for end in ("src", "dst")]
        account.tell(GUESSED, f"edges are from {' to '.join(told)}")
        free = [name for name in free if name not in found.values()]
    if free:
        account.tell(READ, f"not used of the edges: {listed(free)}")
    return recipe.but(**found)


def with_lists(recipe: Recipe, nodes: Source, ids: pa.Array, account: Account) -> Recipe:
    """The recipe with the column that lists other nodes, where no edges were given.

    Raises:
        DataError: there is no such column.
    """
    taken = {recipe.id, recipe.label, recipe.split, *recipe.text}
    free = [name for name in nodes.first_columns if name not in taken]
    table = nodes.sample()
    shares = {name: _share(table, name, recipe.list_separator, ids) for name in free}
    likely = max(free, key=lambda name: shares[name], default=None)
    if likely is None or shares[likely] <= ENOUGH:
        named = f" (as edges_from={free[0]})" if free else ""
        raise DataError(
            f"{nodes.file}: there are no edges: give a second table, a column of values that nodes share with "
            f"edges_from={named}, one that lists other nodes with edges_from_column=, or edges_knn=5 for the nearest "
            "texts."
        )
    account.tell(GUESSED, f"edges are in {likely} ({shares[likely]:.0%} of what it lists are ids)")
    return recipe.but(edges_from_column=likely)


def _tell_unseen(source: Source, account: Account) -> None:
    if unseen := len(source.columns) - len(source.first_columns):
        account.tell(
            READ,
            f"{source.file}: {plural(unseen, 'column')} behind the first {WIDEST:,} only where they are named",
        )


def _tell_no_row(nodes: Source) -> None:
    """Raise `DataError` with what is wrong with the rows, or that there is none."""
    problems = Problems()
    nodes.table(nodes.columns, problems)
    problems.raise_any()
    raise refused(nodes.file, "there is no row", "check that it is the right file")


def _check(source: Source, given: Sequence[str]) -> None:
    problems = Problems()
    for name in given:
        if name and name not in source.columns:
            problems.add(source.file, f"column {name} is missing", did_you_mean(name, source.columns))
    problems.raise_any()


def _ends(edges: Source, table: Table, shares: dict[str, float], choose: Choose) -> tuple[str, str]:
    ends = [column for column, share in shares.items() if share > ENOUGH]
    if len(ends) < 2:
        listed = ", ".join(f"{name} {share:.0%}" for name, share in shares.items()) or "none"
        raise DataError(
            f"{edges.file}: the ends of an edge are the two columns whose values are node ids, and of these too few "
            f"are: {listed}; name them with src= and dst=, and the nodes' ids with id=."
        )
    if len(ends) > 2:
        candidates = [Candidate(name, 1.0, f"{shares[name]:.0%} of its values are ids") for name in ends]
        chosen = []
        for role in ("src", "dst"):
            one = decided(
                role,
                [candidate for candidate in candidates if candidate.column not in chosen],
                edges.file,
                choose,
            )
            assert one is not None
            chosen.append(one.column)
        ends = chosen
    return ends[0], ends[1]


def _share(table: Table, name: str, separator: str, ids: pa.Array) -> float:
    """Which share of what a column lists are ids of other nodes."""
    lists, _ = elements(table.columns[name], separator, ids)
    every = [element for one in lists for element in one]
    if not every:
        return 0.0
    listed = Table(
        table.file, {"end": pa.array(every, pa.large_string())}, np.arange(len(every)), typed=False
    )
    return end_shares(listed, ["end"], ids)["end"]
