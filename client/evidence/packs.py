"""Evidence packs: what a prediction rested on, kept on the institution's disk, one file a round."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast

from fedtag.client.evidence.account import Account, account_of
from fedtag.client.evidence.schema import expect
from fedtag.client.site.whole_file import write_whole
from fedtag.client.text.citations import rendered
from fedtag.common.errors import DataError, RunError

NodeId = str | int
Kind = Literal["core", "scored"]

SCHEMA = 2
_FILE_NAME = re.compile(r"round-(\d{4,})\.jsonl")
_REPORTED_PROBLEMS = 20
_HOP_NAMES = ("the node itself", "neighbour", "neighbour of a neighbour")


@dataclass(frozen=True, slots=True)
class SelectedNeighbour:
    """A node whose text was allowed to speak for the pack's node.

    Args:
        node: its identifier in the institution's folder.
        hop: distance from the pack's node; 0 is the node itself.
        weight: share within its hop, in [0, 1].
    """

    node: NodeId
    hop: int
    weight: float


@dataclass(frozen=True, slots=True)
class SelectedChunk:
    """A literal span, `text[start:end]` in characters, of a selected neighbour's text.

    Args:
        node: the source node.
        start, end: character offsets into the source node's text.
        weight: share among the chunks of the pack, in [0, 1].
        sha256: hex digest of the source node's whole text, see `text_digest`.
    """

    node: NodeId
    start: int
    end: int
    weight: float
    sha256: str


@dataclass(frozen=True, slots=True)
class EvidencePack:
    """The evidence of one node in one round.

    Args:
        node: its identifier.
        kind: "core" if the node was trained on, "scored" if it was only predicted.
        round: the round whose received model selected the evidence.
        model: hash of that model.
        prediction: class name.
        confidence: probability of the predicted class, in [0, 1].
        neighbours: selected neighbours, the node itself at hop 0.
        chunks: selected spans of their texts.
        account: the on-device language model's summary of the chunks, if it was asked.
        evidence_share: part of the score that came through the evidence, in [0, 1].
        label: the local truth where it is known; like the pack, it never leaves the institution.
    """

    node: NodeId
    kind: Kind
    round: int
    model: str
    prediction: str
    confidence: float
    neighbours: tuple[SelectedNeighbour, ...]
    chunks: tuple[SelectedChunk, ...]
    account: Account | None = None
    evidence_share: float | None = None
    label: str | None = None

    @property
    def summary(self) -> str | None:
        """The account as a text with citations [n] and a remark after each unsupported sentence."""
        return None if self.account is None else rendered(self.account.sentences)


def hop_name(hop: int) -> str:
    """How a reader calls a hop."""
    return _HOP_NAMES[hop] if 0 <= hop < len(_HOP_NAMES) else f"{hop} hops away"


def shown_weight(weight: float) -> str:
    """A weight to three decimals; one that was selected never reads as nothing."""
    return f"{weight:.3f}" if weight >= 0.0005 else "< 0.001"


def text_digest(text: str) -> str:
    """SHA-256 (hex) of a text's UTF-8 bytes; lone surrogates, which UTF-8 has no form for, pass through."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def write_packs(folder: Path, round_number: int, packs: Sequence[EvidencePack], durable: bool = True) -> Path:
    """Write the packs of one round to `folder/round-0012.jsonl`, one a line, in the order given.

    `durable` is that of `write_whole`.

    Returns:
        The path of the file. The same packs give the same bytes.

    Raises:
        RunError: a pack belongs to another round, or a weight is not finite.
    """
    for pack in packs:
        if pack.round != round_number:
            raise RunError(
                f"the pack of node {pack.node!r} belongs to round {pack.round}, but is written under round "
                f"{round_number}: write it with its own round"
            )
    path = folder / f"round-{round_number:04d}.jsonl"
    write_whole(path, b"".join(_encode(pack) for pack in packs), durable)
    return path


def read_packs(path: Path) -> tuple[EvidencePack, ...]:
    """Read a file that `write_packs` wrote.

    Raises:
        RunError: the file is missing or cannot be read.
        DataError: lines that are not packs, each named by file and line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunError(
            f"the evidence file {path} cannot be read ({error.strerror}): give a round-NNNN.jsonl of a "
            f"site's evidence folder"
        ) from error
    packs: list[EvidencePack] = []
    problems: list[str] = []
    # Splitting on the line feed only: texts may hold other characters that str.splitlines breaks on.
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    else:
        problems.append(f"{path}, line {len(lines)}: the last line has no end, the file is cut: restore it")
    for number, line in enumerate(lines, start=1):
        try:
            packs.append(_decode(line))
        except (ValueError, RecursionError) as error:
            problems.append(
                f"{path}, line {number}: not an evidence pack of schema {SCHEMA} ({error}): "
                f"restore the file or run the round again"
            )
    if problems:
        rest = len(problems) - _REPORTED_PROBLEMS
        more = [f"{path}: {rest} further lines are malformed"] if rest > 0 else []
        raise DataError(problems[:_REPORTED_PROBLEMS] + more)
    return tuple(packs)


def available_rounds(folder: Path) -> tuple[int, ...]:
    """The rounds that have a file in the folder, ascending; none if the folder does not exist."""
    if not folder.is_dir():
        return ()
    found = (_FILE_NAME.fullmatch(entry.name) for entry in folder.iterdir())
    return tuple(sorted(int(match.group(1)) for match in found if match))


def latest(folder: Path) -> Path:
    """The file of the last round in the folder.

    Raises:
        RunError: there is none.
    """
    rounds = available_rounds(folder)
    if not rounds:
        raise RunError(
            f"{folder} holds no evidence (no round-NNNN.jsonl): give the evidence folder of a site that has "
            f"run a round with a method that keeps evidence"
        )
    return folder / f"round-{rounds[-1]:04d}.jsonl"


def _encode(pack: EvidencePack) -> bytes:
    record = {
        "schema": SCHEMA,
        **{name: getattr(pack, name) for name in _PACK_NAMES},
        "neighbours": [{"node": n.node, "hop": n.hop, "weight": n.weight} for n in pack.neighbours],
        "chunks": [
            {"node": c.node, "start": c.start, "end": c.end, "weight": c.weight, "sha256": c.sha256}
            for c in pack.chunks
        ],
        "account": None if pack.account is None else asdict(pack.account),
    }
    try:
        line = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise RunError(
            f"the pack of node {pack.node!r} has a weight or confidence that is not finite: "
            f"evidence is written from finite numbers only"
        ) from error
    try:
        return line.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which only the escaped form can carry
        return json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"


_PACK_NAMES = tuple(field.name for field in fields(EvidencePack))


def _decode(line: bytes) -> EvidencePack:
    record = json.loads(line.decode(), parse_constant=_refuse_constant)
    schema = record.pop("schema", None) if isinstance(record, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"schema {schema!r}")
    expect(record, _PACK_FIELDS, "the pack")
    if record["kind"] not in ("core", "scored"):
        raise ValueError(f"kind {record['kind']!r} is neither core nor scored")
    for neighbour in record["neighbours"]:
        expect(neighbour, _NEIGHBOUR_FIELDS, "a neighbour")
    for chunk in record["chunks"]:
        expect(chunk, _CHUNK_FIELDS, "a chunk")
    record["neighbours"] = tuple(SelectedNeighbour(**neighbour) for neighbour in record["neighbours"])
    record["chunks"] = tuple(SelectedChunk(**chunk) for chunk in record["chunks"])
    record["account"] = account_of(record["account"])
    return EvidencePack(**cast("dict[str, Any]", record))


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a finite number")


_OPTIONAL = type(None)
_NEIGHBOUR_FIELDS: dict[str, tuple[type, ...]] = {"node": (str, int), "hop": (int,), "weight": (float, int)}
_CHUNK_FIELDS: dict[str, tuple[type, ...]] = {
    "node": (str, int),
    "start": (int,),
    "end": (int,),
    "weight": (float, int),
    "sha256": (str,),
}
_PACK_FIELDS: dict[str, tuple[type, ...]] = {
    "node": (str, int),
    "kind": (str,),
    "round": (int,),
    "model": (str,),
    "prediction": (str,),
    "confidence": (float, int),
    "neighbours": (list,),
    "chunks": (list,),
    "account": (dict, _OPTIONAL),
    "evidence_share": (float, int, _OPTIONAL),
    "label": (str, _OPTIONAL),
}
