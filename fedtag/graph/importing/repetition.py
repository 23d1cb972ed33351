"""An import that is done again: what its nodes keep, and which of them came and went."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from fedtag.client.data.assembly import Reading
from fedtag.client.data.splitting import drawn_note
from fedtag.client.data.text_graph import NONE, SPLIT_NAMES, TextGraph
from fedtag.client.data.values import normal
from fedtag.common.errors import DataError
from fedtag.common.wording.counts import plural
from fedtag.graph.importing.account import MADE, READ, Account
from fedtag.graph.importing.recipe import Recipe


def former_split(folder: Path) -> dict[str, int]:
    """The nodes of a folder that was imported before, and their splits."""
    file = folder / "nodes.parquet"
    if not file.is_file():
        return {}
    try:
        columns = [name for name in ("node_id", "split") if name in parquet.read_schema(file).names]
        held = parquet.read_table(file, columns=columns).to_pydict()
        ids = [normal(str(node)) for node in held["node_id"]]
        splits = held.get("split", [None] * len(ids))
        return {node: SPLIT_NAMES.index(split or "none") for node, split in zip(ids, splits, strict=True)}
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise DataError(
            f"{file} is not what an import wrote ({error}): restore it, or import to another folder"
        ) from error


def tell_drawn(reading: Reading, recipe: Recipe, given: Mapping[str, int], account: Account) -> None:
    """That a split was drawn, and how many nodes keep theirs."""
    if not reading.drawn:
        return
    said = drawn_note(recipe.seed)
    if given:
        kept = sum(given.get(normal(str(node)), NONE) != NONE for node in reading.graph.node_ids)
        said += f"; unchanged is that of {plural(kept, 'node')}"
    account.tell(MADE, said)


def tell_changed(graph: TextGraph, before: Mapping[str, int], account: Account) -> None:
    """How many nodes came and went since the same import; one that is called otherwise did both."""
    if not before:
        return
    there = {normal(str(node)) for node in graph.node_ids}
    came, gone = len(there - before.keys()), len(before.keys() - there)
    if came or gone:
        account.tell(READ, f"{plural(came, 'new node')}, and {gone:,} gone of those that were there")
