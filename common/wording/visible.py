"""Text from elsewhere as it may be shown: on a terminal, a page, a card, or in a log.

Names of classes and nodes, texts, names of files, and what a peer says of its failure are written by others. Characters
that steer a terminal, reorder the line around them or cannot be seen are shown as a replacement; files of data keep
them as they are.
"""

from __future__ import annotations

import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls of terminals, ESC and its one-byte forms among them
    "\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # direction, no width, other lines
    "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # letters that are blank
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # halves, tags
    "]"
)


def visible(text: str) -> str:
    """A text of one or more lines whose every character is seen and does nothing else."""
    return _HIDDEN.sub(REPLACEMENT, text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """The same on one line."""
    return " ".join(visible(text).split())


def visible_value(value: object) -> object:
    """What a page shows of a value: all of it, but for a text that is no markup already."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
