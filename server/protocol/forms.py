"""The forms in which tensors of replies are accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TensorForm:
    """The only form in which a tensor of a reply is accepted.

    Args:
        shape: of the tensor.
        dtype: of its values.
        optional: a client that makes no use of the tensor leaves it out.
        any_length: the first dimension is what the client makes it; exchange.max-message-mb bounds it.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    optional: bool = False
    any_length: bool = False

    def fits(self, shape: tuple[int, ...], dtype: torch.dtype) -> bool:
        """Whether a tensor has this form."""
        free = 1 if self.any_length else 0
        same = len(shape) == len(self.shape) and shape[free:] == self.shape[free:]
        return same and dtype == self.dtype


def update_forms(section: Mapping[str, Tensor]) -> dict[str, TensorForm]:
    """The forms of an update that moves all of a section of the state."""
    return {f"update/{name}": TensorForm(tuple(value.shape), value.dtype) for name, value in section.items()}
