"""Which column of a table is what: as a person says, or as names and values tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedtag.client.data import checks
from fedtag.client.data.problems import Problems
from fedtag.client.data.tables import BLOCK, Table
from fedtag.client.data.text_graph import SPLIT_NAMES
from fedtag.client.data.values import whole_numbers, written
from fedtag.common.errors import DataError
from fedtag.common.wording.counts import plural

ENOUGH = 0.5
"""Share of values that are ids from which on a column of edges is taken for an end; those that are none are told."""
CLOSE = 0.5
"""Candidates whose scores differ by less are about as likely."""
LONGEST_ID = 100
WORDY = 4.0
"""Words a value has on average where it is prose."""
SPACED = 1.2
"""Words a value has on average where few have a space."""
MOST_CLASSES = 200
LISTED = re.compile(r"[;|]")
ID_ENDING = re.compile(r"([_\W]id|I[dD])$")
FRACTION = r"^\s*[-+]?[0-9]*[.,]?[0-9]+([eE][-+]?[0-9]+)?\s*$"
NAMES: Mapping[str, tuple[str, ...]] = {
    "id": (
        *(
            "id",
            "nodeid",
            "node",
            "key",
            "uid",
            "uuid",
            "doi",
            "pmid",
            "pmcid",
            "paperid",
            "paper",
            "docid",
            "itemid",
        ),
        *("identifier", "accession", "isbn", "arxivid", "citekey", "bibkey", "number", "nr"),
    ),
    "text": (
        *("text", "texts", "abstract", "title", "body", "content", "summary", "description", "note", "notes"),
        *("fulltext", "sentence", "titel", "zusammenfassung", "beschreibung", "titre", "resume", "resumen"),
    ),
    "label": (
        *(
            "label",
            "labels",
            "class",
            "category",
            "field",
            "topic",
            "subject",
            "target",
            "y",
            "genre",
            "discipline",
        ),
        *("area", "kategorie", "klasse", "fach", "fachgebiet", "rubrik", "categorie", "categoria"),
    ),
    "weight": ("weight", "weights", "strength", "count", "gewicht"),
}
SPLIT_WORDS = {
    **{name: name for name in SPLIT_NAMES},
    "training": "train",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "testing": "test",
}
"""What files call the parts of a split."""


@dataclass(frozen=True)
class Candidate:
    """A column that may be what is looked for.

    Args:
        column: its name.
        score: how likely; names count 2, values up to 1 and, of ids that edges name, up to 3.
        reason: said to whoever imports.
    """

    column: str
    score: float
    reason: str


Choose = Callable[[str, Sequence[Candidate]], str | None]
"""Asks a person which of several columns is what is named; None where nobody can be asked."""


def decided(role: str, candidates: Sequence[Candidate], table: str, choose: Choose) -> Candidate | None:
    """The likeliest column; a person's choice where others are about as likely, None where there is no candidate.

    Raises:
        DataError: several are, and nobody can be asked.
    """
    ranked = sorted(candidates, key=lambda one: -one.score)
    alike = [one for one in ranked if ranked[0].score - one.score < CLOSE]
    if len(alike) < 2:
        return ranked[0] if ranked else None
    if (chosen := choose(role, alike)) is not None:
        return Candidate(chosen, ranked[0].score, "chosen")
    listed = "; ".join(f"{one.column} ({one.reason})" for one in alike)
    raise DataError(f"{table}: the {role} may be one of {listed}: name it with {role}=.")


def split_candidates(table: Table, free: Sequence[str]) -> list[Candidate]:
    """Columns whose values are names of the parts of a split."""
    found = []
    for name in free:
        values = _distinct(table, name, MOST_CLASSES)
        parts = {SPLIT_WORDS.get(value.lower().strip()) for value in values}
        if values and None not in parts and parts & set(SPLIT_NAMES[1:]) and len(parts) > 1:
            found.append(Candidate(name, 2.0, f"its values are {', '.join(sorted(values))}"))
    return found


def id_candidates(table: Table, free: Sequence[str], edges: Table | None) -> list[Candidate]:
    """Columns of short values, each its own; which of them edges name counts most."""
    found = []
    for name in free:
        scratch = Problems()
        if name in table.odd:
            continue
        ids = checks.identifiers(table.renamed({"id": name}), "id", scratch)
        checks.report_repeated(table, "id", ids, scratch)
        named = [] if edges is None else end_shares(edges, edges.columns, ids).values()
        share = float(np.mean(sorted(named, reverse=True)[:2])) if named else 0.0
        # What edges name is the id, and its faults are told; without them a column with faults is none.
        if (
            (scratch.found and share <= ENOUGH)
            or not len(ids)
            or _mean(pc.utf8_length(_text(ids))) > LONGEST_ID
        ):
            continue
        score, reasons = 0.0, ["some values twice or empty" if scratch.found else "no value twice"]
        if _is_called(name, "id") or ID_ENDING.search(name):
            score, reasons = 2.0, ["its name", *reasons]
        elif _is_called(name, "text") or not _is_one_word(table, name):
            score = -1.0
        reasons += [f"{share:.0%} of the ends of edges are in it"] if share else []
        found.append(Candidate(name, score + 3 * share, ", ".join(reasons)))
    return [one for one in found if one.score >= 0]


def text_columns(table: Table, free: Sequence[str], choose: Choose) -> list[Candidate]:
    """All columns that are called as texts are; without one, that of prose."""
    strings = [name for name in free if _is_prose(table, name)]
    called = [name for name in strings if _is_called(name, "text")]
    if called:
        return [Candidate(name, 2.0, "its name") for name in called]
    words = {name: _words(table, name) for name in strings}
    likely = [
        Candidate(name, min(count / max(words.values()), 1.0), f"{plural(round(count), 'word')} a value")
        for name, count in words.items()
        if count >= WORDY
    ]
    chosen = decided("text", likely, table.file, choose)
    # One that is called so and holds something else is told with its rows when it is read.
    other = [Candidate(name, 2.0, "its name") for name in free if _is_called(name, "text")]
    return other if chosen is None else [chosen]


def label_candidates(table: Table, free: Sequence[str]) -> list[Candidate]:
    """Columns of few values that many rows share; numbers only where the name says so."""
    found = []
    for name in free:
        values = _distinct(table, name)
        filled = len(table) - table.columns[name].null_count
        called = _is_called(name, "label")
        few = 2 <= len(values) <= min(MOST_CLASSES, max(2, filled // 2))
        odd = len(table.odd.get(name, {})) / max(filled, 1)
        if odd > (ENOUGH if called else 0) or not (few or (called and 0 < len(values) < filled)):
            continue
        if not called and (whole_numbers(table.columns[name]) is not None or _is_number(table, name)):
            continue
        if _words(table, name) > WORDY or any(LISTED.search(value) for value in values):
            continue
        reason = f"{plural(len(values), 'value')} over {plural(filled, 'row')}"
        score = (2.0 if called else 0.0) + 1.0
        found.append(Candidate(name, score, f"its name, {reason}" if called else reason))
    return found


def end_shares(
    edges: Table, columns: Sequence[str] | Mapping[str, object], ids: pa.Array
) -> dict[str, float]:
    """Which share of the values of each column are ids of nodes; 0 where none could be."""
    return {name: _share_of_ids(edges, name, ids) for name in columns}


def _share_of_ids(edges: Table, name: str, ids: pa.Array) -> float:
    if not len(edges):
        return 1.0
    found = Problems()
    ends = checks.identifiers(edges.renamed({"end": name}), "end", found)
    # An id that is missing is told later; another type than that of ids is no end.
    strange = [problem for problem in found.found if not problem.what.endswith("is empty")]
    return 0.0 if strange else float((checks.positions(ids, ends) >= 0).mean())


def weight_column(edges: Table, free: Sequence[str]) -> str | None:
    """The column called as weights are, of which most are numbers; None where there is no such."""
    return next(
        (name for name in free if _is_called(name, "weight") and _share_of_numbers(edges, name) > ENOUGH),
        None,
    )


def _is_prose(table: Table, name: str) -> bool:
    return (
        name not in table.odd
        and pa.types.is_large_string(table.columns[name].type)
        and not _is_number(table, name)
    )


def _is_number(table: Table, name: str) -> bool:
    return _share_of_numbers(table, name) == 1


def _share_of_numbers(table: Table, name: str) -> float:
    """Which share of the values that are there are numbers; 0 where none is."""
    column = table.columns[name]
    if not pa.types.is_large_string(column.type):
        return float(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
    filled = column.filter(pc.not_equal(pc.utf8_trim_whitespace(column), ""))
    return _mean(pc.match_substring_regex(filled, FRACTION).cast(pa.int8()))


def _is_one_word(table: Table, name: str) -> bool:
    """Whether values are as ids are: words without a space, or whole numbers."""
    if _is_number(table, name):
        return whole_numbers(table.columns[name]) is not None
    return _words(table, name) < SPACED


def _distinct(table: Table, name: str, most: int = BLOCK) -> list[str]:
    """The values that a column has; none where they are more than `most`, or lists and the like."""
    if pa.types.is_nested(table.columns[name].type) or len(unique := table.columns[name].unique()) > most:
        return []
    values = [written(value) for value in unique.to_pylist() if value is not None]
    return [value for value in values if value.strip()]


def _words(table: Table, name: str) -> float:
    column = table.columns[name]
    if not pa.types.is_large_string(column.type):
        return 0.0
    return _mean(pc.add(pc.count_substring_regex(column, r"\S\s+\S"), 1))


def _mean(values: pa.Array) -> float:
    return float(pc.mean(values).as_py() or 0.0)


def _text(ids: pa.Array) -> pa.Array:
    return ids.cast(pa.large_string())


def _simple(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


def _is_called(name: str, role: str) -> bool:
    return _simple(name) in NAMES[role]
