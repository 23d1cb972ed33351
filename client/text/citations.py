"""Sentences of a summary and the numbered passages that support them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from fedtag.client.text.chunks import sentence_spans
from fedtag.client.text.encoder import Encoder

SUPPORT_THRESHOLD = 0.5

Support = Literal["cited", "added", "doubtful", "none"]
"""cited: a cited passage supports the sentence; added: it cited none, and the closest passage's number was
added; doubtful: no cited passage supports it; none: it cites none, and no passage supports it."""

UNSUPPORTED = "(no passage supports this sentence)"
DOUBTFUL = "(the cited passage does not support this sentence)"
_MARKS: dict[Support, str] = {"cited": "", "added": "", "doubtful": f" {DOUBTFUL}", "none": f" {UNSUPPORTED}"}

_CITATION = re.compile(r"\[\s*(\d{1,4}(?:\s*[-–,;]\s*\d{1,4})*)\s*\]")
_RANGE = re.compile(r"(\d+)\s*[-–]\s*(\d+)|(\d+)")
_CLOSING = re.compile(r"[.!?…。！？]*[\"'”’»)\]]*\Z")


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """One sentence with its citations.

    Args:
        text: the words, with citations like [1].
        citations: the passages' numbers, from 1, in order of appearance.
        support: whether and how the passages bear it.
        removed: citations of passages that do not exist, taken out of the text.
    """

    text: str
    citations: tuple[int, ...]
    support: Support
    removed: int = 0


def rendered(sentences: Sequence[CitedSentence]) -> str:
    """The summary as one text: citations as [n], and a remark after each sentence without support."""
    return " ".join(sentence.text + _MARKS[sentence.support] for sentence in sentences)


def parsed_citations(text: str, num_passages: int) -> tuple[int, ...]:
    """The passage numbers in a text, in order of appearance, each once: [1], [1, 3], [2-4], [1][2].

    Numbers outside 1..num_passages cite nothing and are left out.
    """
    cited: dict[int, None] = {}
    for group in _CITATION.finditer(text):
        cited |= dict.fromkeys(_existing(group, num_passages))
    return tuple(cited)


def without_invalid(text: str, num_passages: int) -> tuple[str, int]:
    """The text without citations of passages that do not exist, and how many brackets were changed."""
    removed = 0

    def kept(group: re.Match[str]) -> str:
        nonlocal removed
        numbers = _existing(group, num_passages)
        if len(numbers) == sum(_span(*found) for found in _RANGE.findall(group[1])):
            return group[0]
        removed += 1
        return f"[{', '.join(map(str, numbers))}]" if numbers else ""

    clean = _CITATION.sub(kept, text)
    return (
        re.sub(r"\s+(?=[.,;:!?])", "", re.sub(r"[ \t]{2,}", " ", clean)).strip() if removed else text
    ), removed


def judged(
    sentences: Sequence[str],
    cosine: Float[Tensor, "sentences passages"],
    threshold: float = SUPPORT_THRESHOLD,
) -> tuple[CitedSentence, ...]:
    """Sentences with their citations, each held against the passages.

    Args:
        sentences: as the model wrote them.
        cosine: similarity of each sentence to each passage; the order of columns is that of the numbers.
        threshold: least cosine of a passage that supports a sentence, in [-1, 1].
    """
    return tuple(
        _judged(sentence, row, threshold) for sentence, row in zip(sentences, cosine.tolist(), strict=True)
    )


def cited_sentences(
    text: str, passages: Sequence[str], encoder: Encoder, threshold: float = SUPPORT_THRESHOLD
) -> tuple[CitedSentence, ...]:
    """The sentences of a summary of numbered passages; see `judged`.

    Args:
        text: what the model wrote.
        passages: passage i has the number i + 1.
        encoder: similarity is the cosine of its vectors of sentence, without citations, and passage.
    """
    sentences = [text[start:end] for start, end in sentence_spans(text)]
    plain = [_CITATION.sub("", sentence).strip() for sentence in sentences]
    sentences = [sentence for sentence, words in zip(sentences, plain, strict=True) if words.strip(".,;:!? ")]
    plain = [words for words in plain if words.strip(".,;:!? ")]
    if not sentences:
        return ()
    vectors = encoder.encode([*plain, *passages]).vectors
    return judged(sentences, vectors[: len(plain)] @ vectors[len(plain) :].T, threshold)


def _judged(sentence: str, cosine: list[float], threshold: float) -> CitedSentence:
    text, removed = without_invalid(sentence, len(cosine))
    citations = parsed_citations(text, len(cosine))
    if citations:
        holds = max(cosine[number - 1] for number in citations) >= threshold
        return CitedSentence(text, citations, "cited" if holds else "doubtful", removed)
    best = max(range(len(cosine)), key=lambda index: (cosine[index], -index), default=None)
    if best is None or cosine[best] < threshold:
        return CitedSentence(text, (), "none", removed)
    closing = _CLOSING.search(text)
    end = closing.start() if closing else len(text)
    return CitedSentence(f"{text[:end]} [{best + 1}]{text[end:]}", (best + 1,), "added", removed)


def _existing(group: re.Match[str], num_passages: int) -> list[int]:
    numbers: list[int] = []
    for first, last, single in _RANGE.findall(group[1]):
        low, high = (int(single), int(single)) if single else (int(first), int(last))
        numbers += range(max(low, 1), min(high, num_passages) + 1)
    return numbers


def _span(first: str, last: str, single: str) -> int:
    """How many numbers a part of a citation names; a backward range names one that does not exist."""
    return 1 if single else max(int(last) - int(first) + 1, 1)
