"""Tensors as bytes and back, in the safetensors format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from safetensors import TensorSpec
from torch import Tensor

_DAMAGED = (safetensors.SafetensorError, KeyError, TypeError, RuntimeError)


def on_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same on the CPU; those of a device come over together, since each copy waits for all that the device does."""
    away = {name: value.detach() for name, value in tensors.items() if value.device.type != "cpu"}
    if not away:
        return dict(tensors)
    return {**tensors, **apart(together(away).cpu(), away)}


def together(tensors: Mapping[str, Tensor]) -> Tensor:
    """The bytes of all of them, one after the other."""
    return torch.cat([value.contiguous().view(-1).view(torch.uint8) for value in tensors.values()])


def apart(content: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What `together` put together, on the device of the bytes; of `like` names, shapes and types are read."""
    pieces = content.split([value.nbytes for value in like.values()])
    # Cloned, since a number begins where its size allows it.
    return {
        name: piece.clone().view(value.dtype).view(value.shape)
        for (name, value), piece in zip(like.items(), pieces, strict=True)
    }


def owned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous copies on the CPU, which share memory with nothing."""
    return {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Tensors, and texts beside them, as the content of a file or message."""
    return packed(owned(tensors), metadata)


def packed(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The same of tensors that `owned` gave, without another copy of them."""
    # As safetensors.torch.save, whose look at each tensor takes longer than to write a small one.
    parts = {
        name: TensorSpec(
            dtype=str(value.dtype).removeprefix("torch."),
            shape=value.shape,
            data_ptr=value.data_ptr(),
            data_len=value.nbytes,
        )
        for name, value in tensors.items()
    }
    return bytes(safetensors.serialize(parts, None if metadata is None else dict(metadata)))


def tensors_of(content: bytes) -> dict[str, Tensor]:
    """The tensors that were written.

    Raises:
        ValueError: they cannot be read.
    """
    try:
        return _aligned(safetensors.torch.load(content))
    except _DAMAGED as error:
        raise ValueError(str(error)) from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file, and the texts beside them.

    Raises:
        OSError: there is no such file.
        ValueError: it cannot be read.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            # It cannot be iterated.
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return _aligned(tensors), dict(file.metadata() or {})
    except _DAMAGED as error:
        raise ValueError(str(error)) from error


def _aligned(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # In memory of PyTorch's own: the last digits of a matrix product depend on where its factors begin, and what was
    # written and read must lead to the same bits as what never left memory.
    return {name: value.clone() for name, value in tensors.items()}
