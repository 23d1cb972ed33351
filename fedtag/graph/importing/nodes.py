"""Nodes of a table: their ids, labels, splits, and their texts block by block."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from fedtag.client.data import checks
from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.tables import Table, concatenated
from fedtag.client.data.values import normal, whole_numbers, written
from fedtag.common.wording.counts import plural
from fedtag.common.wording.suggestion import nearest
from fedtag.graph.importing.account import DROPPED, MADE, REPAIRED, Account, raise_any
from fedtag.graph.importing.columns import SPLIT_WORDS
from fedtag.graph.importing.recipe import Recipe
from fedtag.graph.importing.source import Source

DIGITS = 12
"""Of a digest that is an id: two of a million texts have the same one with a chance of 1 in 500."""
LINKS = "links"
"""The column in which nodes name others, or what they share."""


def node_table(source: Source, recipe: Recipe, account: Account) -> Table:
    """The ids of all nodes, with labels, splits and lists where there are such.

    Raises:
        DataError: a column cannot be read.
    """
    problems = Problems()
    links = recipe.edges_from or recipe.edges_from_column
    given = {"node_id": recipe.id, "label": recipe.label, "split": recipe.split, LINKS: links}
    columns = {ours: theirs for ours, theirs in given.items() if theirs}
    texts = () if recipe.id else recipe.text
    parts: list[Table] = []
    digests: list[str] = []
    for block in source.read([*columns.values(), *texts], problems):
        parts.append(block.renamed(columns))
        if texts:
            digests += map(_digest, joined_texts(block, texts, Problems()).to_pylist())
    table = concatenated(source.file, parts)
    raise_any(problems, columns, source)
    if not recipe.id:
        account.tell(
            MADE, f"ids: no column has one, so the first {DIGITS} digits of the SHA-256 of each text"
        )
        table = replace(table, columns={"node_id": _numbered(digests), **table.columns}, typed=True)
    return table


def with_links(table: Table, source: Source, column: str) -> Table:
    """The table with a column of lists, which is read of the nodes alone.

    Raises:
        DataError: it cannot be read.
    """
    problems = Problems()
    read = source.table([column], problems).renamed({LINKS: column})
    raise_any(problems, {LINKS: column}, source)
    odd = {**table.odd, **read.odd}
    return replace(table, columns={**table.columns, **read.columns}, odd=odd)


def joined_texts(block: Table, columns: Sequence[str], problems: Problems) -> pa.Array:
    """The text of each row; several columns one below the other, each with its name."""
    parts = []
    for column in columns:
        found = Problems()
        parts.append(checks.text_column(block.renamed({"text": column}), found))
        for one in found.found:
            what = one.what.replace("text", column, 1)
            if one.rows:
                problems.add_rows(one.where, what, one.rows, one.remedy)
            else:
                problems.add(one.where, what, one.remedy)
    if len(parts) == 1:
        return parts[0]
    joined = [
        pc.if_else(pc.equal(part, ""), "", _pasted(f"{column}: ", part, "\n"))
        for column, part in zip(columns, parts, strict=True)
    ]
    # The last line end follows nothing but the text before it.
    return pc.binary_slice(_pasted(*joined).cast(pa.large_binary()), 0, -1).cast(pa.large_string())


def _pasted(*parts: pa.Array | str) -> pa.Array:
    """Texts one after another; a constant stands in every row."""
    typed = [pa.scalar(one, pa.large_string()) if isinstance(one, str) else one for one in parts]
    return pc.binary_join_element_wise(*typed, pa.scalar("", pa.large_string()))


def text_blocks(source: Source, columns: Sequence[str]) -> Iterator[pa.Array]:
    """The texts of all nodes, a few rows at a time.

    Raises:
        DataError: at the end, where some are none.
    """
    problems = Problems()
    for block in source.read(columns, problems):
        texts = joined_texts(block, columns, problems)
        if not problems.found:
            yield texts
    raise_any(problems, {}, source)


def with_labels(
    table: Table, recipe: Recipe, agreed: Sequence[str], account: Account
) -> tuple[Table, tuple[str, ...]]:
    """The table with names of classes as labels, renamed and known ones alone, and all classes in their order.

    Args:
        table: of the nodes.
        recipe: what was asked for.
        agreed: classes of the federation; those that occur where there are none.
        account: told of labels that are left out.

    Raises:
        DataError: a label is a list, or the like.
    """
    if "label" not in table.columns:
        return table, tuple(agreed)
    problems = Problems()
    checks.odd_told(table, "label", "write one name, or null", problems)
    raise_any(problems, {"label": recipe.label})
    names, alike = _class_names(table.columns["label"], recipe.map)
    for one in alike:
        account.tell(
            REPAIRED, f"label {shown(one)}: spellings that differ in Unicode's normal form are one class"
        )
    unused = [old for old in recipe.map if normal(old) not in _class_values(table.columns["label"])]
    for old in unused:
        account.tell(REPAIRED, f"nothing: no label is called {old}, which map= renames")
    table = replace(table, columns={**table.columns, "label": names})
    classes = tuple(agreed) or _ordered(names)
    return _known_only(table, classes, account), classes


def with_split(table: Table, account: Account) -> Table:
    """The table with the contract's names of splits, which nodes without a label are in none of."""
    if "split" not in table.columns:
        return table
    column = table.columns["split"].cast(pa.large_string())
    words = {
        value: SPLIT_WORDS.get(value.strip().lower(), value) for value in column.unique().to_pylist() if value
    }
    renamed = {old: new for old, new in words.items() if old != new}
    for old, new in renamed.items():
        account.tell(REPAIRED, f"split {old} is {new}")
    values = [words.get(value) if value else None for value in column.to_pylist()]
    if "label" in table.columns:
        labelled = table.columns["label"].is_valid().to_pylist()
        lost = sum(value is not None and not known for value, known in zip(values, labelled, strict=True))
        if lost:
            account.tell(DROPPED, f"the split of {plural(lost, 'node')} without a label")
        values = [value if known else None for value, known in zip(values, labelled, strict=True)]
    return replace(table, columns={**table.columns, "split": pa.array(values, pa.large_string())})


def _known_only(table: Table, classes: Sequence[str], account: Account) -> Table:
    """The table without labels that are no class, which are told with the nearest one."""
    outside = Problems()
    checks.labels(table, classes, outside)
    rows = {row for problem in outside.found for row in problem.rows}
    if not rows:
        return table
    column = table.columns["label"]
    strange = pa.array([record in rows for record in table.records.tolist()])
    for name, count in Counter(column.filter(strange).to_pylist()).most_common():
        near = nearest(str(name), classes)
        hint = f"; the nearest is {near[0]}: map='{name}={near[0]}'" if near else ""
        account.tell(DROPPED, f"label {name} of {plural(count, 'node')}, which is no class{hint}")
    kept = pc.if_else(strange, pa.scalar(None, pa.large_string()), column)
    return replace(table, columns={**table.columns, "label": kept})


def _class_names(column: pa.Array, renamed: Mapping[str, str]) -> tuple[pa.Array, list[str]]:
    """Labels as names of classes, and those of several spellings that are one in normal form C."""
    mapping = {normal(old): normal(new) for old, new in renamed.items()}
    encoded = column.dictionary_encode()
    spelled = [written(value) for value in encoded.dictionary.to_pylist()]
    values = _names(encoded.dictionary)
    alike = [name for name, count in Counter(values).items() if name and count > 1]
    alike = [name for name in alike if len({one for one in spelled if normal(one) == name}) > 1]
    named = pa.array(
        [mapping.get(name, name) or None if name else None for name in values], pa.large_string()
    )
    return named.take(encoded.indices), alike


def _class_values(column: pa.Array) -> set[str]:
    return set(_names(column.unique()))


def _names(distinct: pa.Array) -> list[str]:
    """Values as names: whole numbers without a fraction, texts in normal form C; blank where there is none."""
    whole = whole_numbers(distinct)
    values = (distinct if whole is None else whole).to_pylist()
    texts = ["" if value is None else normal(written(value)) for value in values]
    return [text if text.strip() else "" for text in texts]


def _ordered(names: pa.Array) -> tuple[str, ...]:
    """The names that occur: in the order of numbers where all are, otherwise of the alphabet."""
    distinct = names.drop_null().unique()
    whole = whole_numbers(distinct)
    if whole is not None and pa.types.is_int64(whole.type):
        return tuple(map(str, sorted(whole.to_pylist())))
    return tuple(sorted(distinct.to_pylist()))


def _digest(text: str) -> str:
    return hashlib.sha256(normal(text).encode()).hexdigest()[:DIGITS]


def _numbered(digests: Sequence[str]) -> pa.Array:
    """Digests, of which equal ones are told apart by the order of their rows."""
    seen: Counter[str] = Counter()
    ids = []
    for digest in digests:
        seen[digest] += 1
        ids.append(digest if seen[digest] == 1 else f"{digest}-{seen[digest]}")
    return pa.array(ids, pa.large_string())
