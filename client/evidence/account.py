"""The on-device language model's account of an evidence pack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from fedtag.client.evidence.schema import expect
from fedtag.client.text.citations import CitedSentence, Support


@dataclass(frozen=True, slots=True)
class Account:
    """What the on-device language model wrote about a pack's chunks, and what that took.

    Args:
        sentences: with citations; [n] is the pack's n-th chunk.
        dropped: chunks from the end that its prompt had no room for.
        prompt_tokens, answer_tokens: in the model's own tokenizer, of the run that wrote it.
        full_text_prompt_tokens: of the same prompt with the selected neighbours' full texts; not run.
        two_hop_prompt_tokens: of the same prompt with all texts within two hops; not run.
    """

    sentences: tuple[CitedSentence, ...]
    dropped: int
    prompt_tokens: int
    answer_tokens: int
    full_text_prompt_tokens: int
    two_hop_prompt_tokens: int


def account_of(record: dict[str, Any] | None) -> Account | None:
    """The account of a JSON object.

    Raises:
        ValueError: it is none.
    """
    if record is None:
        return None
    expect(record, _ACCOUNT_FIELDS, "the account")
    sentences = tuple(_sentence(sentence) for sentence in record["sentences"])
    return Account(**{**record, "sentences": sentences})


def _sentence(record: dict[str, Any]) -> CitedSentence:
    expect(record, _SENTENCE_FIELDS, "a sentence")
    if record["support"] not in get_args(Support):
        raise ValueError(f"support {record['support']!r} is unknown")
    if any(type(number) is not int for number in record["citations"]):
        raise ValueError("a citation is no number")
    return CitedSentence(**{**record, "citations": tuple(record["citations"])})


_SENTENCE_FIELDS: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "citations": (list,),
    "support": (str,),
    "removed": (int,),
}
_ACCOUNT_FIELDS: Mapping[str, tuple[type, ...]] = {
    "sentences": (list,),
    "dropped": (int,),
    "prompt_tokens": (int,),
    "answer_tokens": (int,),
    "full_text_prompt_tokens": (int,),
    "two_hop_prompt_tokens": (int,),
}
