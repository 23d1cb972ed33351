"""Sentence-aligned chunks of a text, each a literal slice of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from fedtag.common.errors import ConfigError

CHUNKER_VERSION = "1"
"""Part of every cache key; it changes whenever the same text would be cut differently."""

MIN_TOKENS = 8
WINDOW_CHARACTERS = 16_384
TOKEN_CHARACTERS = 100
BATCH_CHARACTERS = 500_000

# A sentence ends at closing punctuation before a space, at full-width punctuation anywhere, and at a
# line break before a blank line or a list item. A single line break does not end one, because wrapped
# text would fall apart. The lookbehinds and possessive runs keep the search linear on any input.
_SENTENCE_END = re.compile(
    r"(?<![.!?…؟।۔])[.!?…؟।۔]++[\"'”’»)\]]*+(?=\s)"
    r"|[。！？｡]++[」』”’）]*+"
    r"|\n(?=[^\S\n]*+(?:\n|[-*•‣–][^\S\n]|\d{1,3}[.)][^\S\n]))"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_NOT_SPACE = re.compile(r"\S")
_LONG_WORD = re.compile(rf"\S{{{TOKEN_CHARACTERS + 1}}}")
_LAST_SPACE = re.compile(r"\s\S*+\Z")


@dataclass(frozen=True)
class Chunk:
    """`text[start:end]`, with its number of tokens (special tokens not counted)."""

    start: int
    end: int
    tokens: int


@dataclass(frozen=True)
class _Piece:
    """A span that is never cut further; `glued` if no white space or sentence end precedes it."""

    start: int
    end: int
    tokens: int
    glued: bool


@dataclass(frozen=True)
class _Span:
    owner: int
    start: int
    end: int
    glued: bool


def without_surrogates(text: str) -> str:
    """The text with lone surrogates (legal in JSON, not in UTF-8) replaced one for one by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("�", text)
    return text


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """The (start, end) of each sentence, without the white space around it; language-neutral.

    Every character that is not white space lies in exactly one span.
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    spans = []
    start = 0
    for end in (*ends, len(text)):
        span = _stripped(text, start, end)
        if span is not None:
            spans.append(span)
        start = end
    return spans


def chunk_texts(texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int = 64) -> list[list[Chunk]]:
    """Cuts each text into ordered, disjoint chunks of whole sentences where they fit.

    Consecutive sentences share a chunk up to the limit. A longer sentence is cut before a word, or
    before a token where one word is longer than half the limit. Every character that is not white
    space is in exactly one chunk; a text of white space gives none. Time is linear in the characters.

    Args:
        texts: any Unicode, of any length.
        tokenizer: without truncation and padding; `Encoder.tokenizer` is one.
        max_tokens: limit of each chunk in tokens as the tokenizer counts `text[start:end]` on its own,
            at least 8. Only a single character that is more tokens by itself exceeds it.

    Raises:
        ConfigError: `max_tokens` is below 8.
    """
    if max_tokens < MIN_TOKENS:
        raise ConfigError(f"a chunk limit of {max_tokens} tokens is too small: use at least {MIN_TOKENS}")
    clean = [without_surrogates(text) for text in texts]
    pieces = _pieces(clean, tokenizer, max_tokens)
    packed = [_packed(list_of_pieces, max_tokens) for list_of_pieces in pieces]
    joined = [
        (owner, group[0].start, group[-1].end)
        for owner, groups in enumerate(packed)
        for group in groups
        if len(group) > 1
    ]
    counts = iter(_count(clean, joined, tokenizer))
    return [
        [chunk for group in groups for chunk in _chunks_of(group, counts, max_tokens)] for groups in packed
    ]


def _chunks_of(group: list[_Piece], counts: Iterator[int], max_tokens: int) -> list[Chunk]:
    """One chunk, or its pieces one by one where the tokenizer makes more of the whole than of the parts."""
    if len(group) > 1:
        tokens = next(counts)
        if tokens <= max_tokens:
            return [Chunk(group[0].start, group[-1].end, tokens)]
    return [Chunk(piece.start, piece.end, piece.tokens) for piece in group]


def _packed(pieces: list[_Piece], max_tokens: int) -> list[list[_Piece]]:
    groups: list[list[_Piece]] = []
    total = 0
    for piece in pieces:
        if groups and not piece.glued and total + piece.tokens <= max_tokens:
            groups[-1].append(piece)
            total += piece.tokens
        else:
            groups.append([piece])
            total = piece.tokens
    return groups


def _pieces(texts: list[str], tokenizer: Tokenizer, max_tokens: int) -> list[list[_Piece]]:
    """Sentences, and the parts of those that are too long, in the order of the text."""
    found: list[list[_Piece]] = [[] for _ in texts]
    spans = [
        window
        for owner, text in enumerate(texts)
        for start, end in sentence_spans(text)
        for window in _windows(text, owner, start, end)
    ]
    while spans:
        longer: list[_Span] = []
        for batch in _batches(spans):
            encodings = tokenizer.encode_batch(
                [texts[span.owner][span.start : span.end] for span in batch], add_special_tokens=False
            )
            for span, encoding in zip(batch, encodings, strict=True):
                count = len(encoding)
                # No token is longer than a word, and to read where tokens lie takes longer than to look for words.
                fits = count <= max_tokens and (
                    _LONG_WORD.search(texts[span.owner], span.start, span.end) is None
                    or all(b - a <= TOKEN_CHARACTERS for a, b in encoding.offsets)
                )
                if fits or span.end - span.start == 1:
                    found[span.owner].append(_Piece(span.start, span.end, count, span.glued))
                else:
                    cuts = _cuts(encoding.offsets, encoding.word_ids, span.end - span.start, max_tokens)
                    longer += _divided(texts[span.owner], span, cuts)
        spans = longer
    for pieces in found:
        pieces.sort(key=lambda piece: piece.start)
    return found


def _windows(text: str, owner: int, start: int, end: int) -> Iterator[_Span]:
    """The sentence, in parts that a tokenizer reads at once; cut at white space if there is any."""
    glued = False
    while end - start > WINDOW_CHARACTERS:
        space = _LAST_SPACE.search(text, start + WINDOW_CHARACTERS // 2, start + WINDOW_CHARACTERS)
        cut = start + WINDOW_CHARACTERS if space is None else space.start()
        head, tail = _stripped(text, start, cut), _NOT_SPACE.search(text, cut, end)
        if head is not None:
            yield _Span(owner, *head, glued)
        if tail is None:
            return
        start, glued = tail.start(), space is None and tail.start() == cut
    yield _Span(owner, start, end, glued)


def _cuts(offsets: list[tuple[int, int]], words: list[int | None], length: int, max_tokens: int) -> list[int]:
    """Where to cut a span of `length` characters: before tokens, in increasing order, never at 0."""
    cuts: list[int] = []
    first = 0
    while first + max_tokens < len(offsets):
        last = first + max_tokens
        at_word = (i for i in range(last, first + max_tokens // 2, -1) if words[i] != words[i - 1])
        first = next(at_word, last)
        cuts.append(offsets[first][0])
    for start, end in offsets:
        if end - start > TOKEN_CHARACTERS:
            cuts.extend(range(start + TOKEN_CHARACTERS, end, TOKEN_CHARACTERS))
    inside = sorted({cut for cut in cuts if 0 < cut < length})
    return inside or [length // 2]


def _divided(text: str, span: _Span, cuts: list[int]) -> Iterator[_Span]:
    bounds = [span.start, *(span.start + cut for cut in cuts), span.end]
    for index, (start, end) in enumerate(itertools.pairwise(bounds)):
        part = _stripped(text, start, end)
        if part is not None:
            touches = part[0] == start and not text[start - 1 : start].isspace()
            yield _Span(span.owner, *part, touches if index else span.glued)


def _stripped(text: str, start: int, end: int) -> tuple[int, int] | None:
    part = text[start:end]
    lead = len(part) - len(part.lstrip())
    if lead == len(part):
        return None
    return start + lead, start + len(part.rstrip())


def _batches(spans: list[_Span]) -> Iterator[list[_Span]]:
    batch: list[_Span] = []
    size = 0
    for span in spans:
        if batch and size + span.end - span.start > BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
        batch.append(span)
        size += span.end - span.start
    if batch:
        yield batch


def _count(texts: list[str], spans: list[tuple[int, int, int]], tokenizer: Tokenizer) -> list[int]:
    counts: list[int] = []
    for batch in _batches([_Span(owner, start, end, False) for owner, start, end in spans]):
        slices = [texts[span.owner][span.start : span.end] for span in batch]
        counts += [len(encoding) for encoding in tokenizer.encode_batch(slices, add_special_tokens=False)]
    return counts
