"""The on-device language model's account of an evidence pack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import pyarrow as pa

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


ACCOUNT_TYPE = pa.struct(
    {
        "sentences": pa.list_(
            pa.struct(
                {
                    "text": pa.string(),
                    "citations": pa.list_(pa.int32()),
                    "support": pa.string(),
                    "removed": pa.int32(),
                }
            )
        ),
        "dropped": pa.int64(),
        "prompt_tokens": pa.int64(),
        "answer_tokens": pa.int64(),
        "full_text_prompt_tokens": pa.int64(),
        "two_hop_prompt_tokens": pa.int64(),
    }
)
"""An account as a column holds it."""


def account_of(record: Mapping[str, Any] | None) -> Account | None:
    """The account of a column's entry.

    Raises:
        ValueError: it has gaps, or sentences of an unknown support.
    """
    if record is None:
        return None
    if any(value is None for value in record.values()):
        raise ValueError("an account has gaps")
    return Account(**{**record, "sentences": tuple(_sentence(one) for one in record["sentences"])})


def _sentence(record: Mapping[str, Any] | None) -> CitedSentence:
    if record is None or any(value is None for value in record.values()) or None in record["citations"]:
        raise ValueError("a sentence has gaps")
    if record["support"] not in get_args(Support):
        raise ValueError(f"support {record['support']!r} is unknown")
    return CitedSentence(**{**record, "citations": tuple(record["citations"])})
