"""Settings and options that are several in one text, with commas between them."""

from __future__ import annotations

from fedtag.common.errors import ConfigError


def listed(text: str, name: str, separator: str = ",") -> tuple[str, ...]:
    """What a text lists, without spaces around it; nothing where the text is empty.

    Args:
        text: as it was given.
        name: of the setting or option.
        separator: between any two.

    Raises:
        ConfigError: something between two separators is missing.
    """
    if not text.strip():
        return ()
    found = tuple(one.strip() for one in text.split(separator))
    if "" in found:
        raise ConfigError(
            f"{name} = {text!r} lists something empty: write one '{separator}' between any two, such as "
            f"a{separator}b, and none at the ends"
        )
    return found
