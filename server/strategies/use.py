"""Tensors that only some clients have, under secure summation: which are summed, which stay as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch import Tensor

from fedtag.common.secure.phases import FEWEST_USERS
from fedtag.common.secure.upload import Layout, Opened
from fedtag.server.protocol.forms import TensorForm


def partial_tensors(forms: Mapping[str, TensorForm]) -> tuple[str, ...]:
    """Names of the tensors that a client may lack, in order.

    Args:
        forms: of the tensors of an update, by name.
    """
    return tuple(sorted(name for name, form in forms.items() if form.optional))


def layout_of(
    forms: Mapping[str, TensorForm],
    users: Mapping[str, int],
    scores: Collection[str] = (),
    classes: int = 0,
    statistics: bool = False,
) -> Layout:
    """The layout of a sum in which no tensor has fewer users than it takes, as far as they were counted.

    Args:
        forms: of the tensors of an update, by name.
        users: how many clients use each tensor that only some have; one that is missing counts as used by nobody.
        scores, classes, statistics: see `Layout`.
    """
    update = {
        name: form.shape
        for name, form in sorted(forms.items())
        if not form.optional or users.get(name, 0) >= FEWEST_USERS
    }
    used = tuple(name for name in partial_tensors(forms) if name in update)
    return Layout(update, tuple(scores), classes, statistics, used)


def used_by_enough(opened: Opened) -> dict[str, Tensor]:
    """The sums of the tensors that enough of the survivors use, of all others none.

    Clients that were counted may have dropped out since.
    """
    return {
        name: value
        for name, value in opened.update.items()
        if opened.users.get(name, FEWEST_USERS) >= FEWEST_USERS
    }
