"""A model's parameters as a flat mapping of tensors: what travels and what is averaged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from torch import Tensor, nn

from fedtag.common.errors import WireError
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.tensors import on_host

Parameters = dict[str, Tensor]


def parameters_of(model: nn.Module) -> Parameters:
    """A detached copy of parameters and buffers, on the CPU."""
    state = {name: value.detach() for name, value in model.state_dict().items()}
    return {name: value.clone() for name, value in on_host(state).items()}


def load_parameters(model: nn.Module, parameters: Mapping[str, Tensor]) -> None:
    """Copy values into a model.

    Raises:
        WireError: keys or shapes are not the model's own.
    """
    own, given = (
        {name: str(tuple(value.shape)) for name, value in each.items()}
        for each in (model.state_dict(), parameters)
    )
    for name in sorted(own.keys() | given.keys()):
        if own.get(name) != given.get(name):
            raise WireError(
                f"the parameters are not those of a model with these settings, features and classes: '{name}' is "
                f"{given.get(name, 'absent')} and should be {own.get(name, 'absent')}"
            )
    model.load_state_dict(dict(parameters), strict=True)


def difference(after: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> Parameters:
    """after - before, key by key."""
    return {name: after[name] - before[name] for name in before}


def moved_by_steps(name: str) -> bool:
    """Whether the local optimiser's steps move a tensor, so that FedNova divides its update by their number.

    An architecture has an optimiser of its own, and its logits are averaged as they are (Liu et al., Eq. 11).
    """
    return not is_architecture(name)


def fingerprint(parameters: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, shapes, dtypes and bytes, in the order of names."""
    digest = hashlib.sha256()
    for name in sorted(parameters):
        value = parameters[name].detach().cpu().contiguous()
        digest.update(f"{name}|{tuple(value.shape)}|{value.dtype}|".encode())
        digest.update(value.numpy().tobytes())
    return digest.hexdigest()
