"""What may leave a site: what the run's method and parts declare that they send, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fedtag.common.errors import RunError, WireError
from fedtag.common.methods.records import Record
from fedtag.common.secure.names import SHOWN, UNOPENED, UNREAD
from fedtag.common.secure.upload import MASKED
from fedtag.common.wire.records import Content

NEEDED = frozenset({"initial", SHOWN, UNOPENED, UNREAD})
"""Values without which an exchange cannot go on or be accounted for; they say nothing of the site's nodes."""


def check_declared(content: Content, declared: Mapping[str, Record], site: str) -> None:
    """Refuse a contribution with anything that is not declared, in form and name.

    Args:
        content: of the method with its parts.
        declared: kinds of records that may cross the network in the run, by name.
        site: whose contribution it is.

    Raises:
        RunError: naming the record; the text stays in the site's own log, since a name may say anything.
    """
    for fault in _faults(content, declared):
        raise RunError(
            f"{site} lets out what is declared only, and {fault}: declare it among the records of the method or the "
            "part that sends it, or leave it out"
        )


def sums_alone(content: Content) -> Content:
    """A contribution without what is no sum: masked tensors, and values that an exchange needs.

    Letters stay, which nobody but their recipients can read.
    """
    tensors = {name: value for name, value in content.tensors.items() if name.startswith(f"{MASKED}/")}
    values = {name: value for name, value in content.values.items() if name in NEEDED}
    return Content(tensors, values, content.letters)


def _faults(content: Content, declared: Mapping[str, Record]) -> Iterator[str]:
    for kind in sorted(content.kinds):
        if kind not in declared or declared[kind].form != "tensors":
            yield f"tensors of '{kind}' are not"
    for kind in sorted({letter.kind for letter in content.letters}):
        if kind not in declared or declared[kind].form != "letter":
            yield f"letters of kind '{kind}' are not"
    for name, value in sorted(content.values.items()):
        if name not in declared or declared[name].form == "letter":
            yield f"the value '{name}' is not"
            continue
        try:
            declared[name].check(value)
        except WireError as error:
            yield f"the value '{name}' is not what it should be ({error})"
