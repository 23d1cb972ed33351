"""Parameters of many clients of one model, with which the model's own code computes for all of them at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from fedtag.common.errors import ConfigError
from fedtag.common.graph import Adjacency
from fedtag.common.models.classifier import NodeClassifier

Parameters = Mapping[str, Tensor]
OF_ONE = frozenset({Tensor.size, Tensor.dim, Tensor.numel, Tensor.is_floating_point, Tensor.__len__})
"""What is asked of parameters and is alike for all clients."""


class Stacked(Tensor):
    """One parameter of many clients, along the first dimension, that looks like that of one client.

    An operation on it is done for each client; where a table of nodes takes part, with the client's own rows of it.

    Attributes:
        rows: that each client has in a table of nodes.
    """

    rows: int

    @classmethod
    def of(cls, value: Tensor, rows: int) -> Stacked:
        """The same values, through which gradients flow."""
        stacked = value.as_subclass(cls)
        stacked.rows = rows
        return stacked

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return _for_each_client(func, args, kwargs or {})


def _for_each_client(func: Any, args: Any, kwargs: Any) -> Any:
    flat, form = tree_flatten((args, kwargs))
    (clients, rows), *others = {(len(one), one.rows) for one in flat if isinstance(one, Stacked)}
    assert not others, "parameters of two federations meet"
    name = getattr(func, "__name__", str(func))
    if name == "__get__" or func in OF_ONE:
        first = [value.as_subclass(Tensor)[0] if isinstance(value, Stacked) else value for value in flat]
        inner, named = tree_unflatten(first, form)
        if not isinstance(found := func(*inner, **named), Tensor):
            return found
    if func is Tensor.__iter__:
        return iter(_for_each_client(torch.unbind, args, kwargs))
    tables = 0
    dims: list[int | None] = []
    for place, value in enumerate(flat):
        stacked = isinstance(value, Stacked)
        table = isinstance(value, Tensor) and not stacked and value.dim() > 0
        if table and len(value) != clients * rows:
            raise _not_of_nodes(name)
        tables += table
        dims.append(0 if stacked or table else None)
        if stacked:
            flat[place] = value.as_subclass(Tensor)
        elif table:
            flat[place] = value.unflatten(0, (clients, rows))
    own = [value for value, dim in zip(flat, dims, strict=True) if dim == 0]

    def of_one(*values: Tensor) -> Any:
        left = iter(values)
        mixed = [next(left) if dim == 0 else value for value, dim in zip(flat, dims, strict=True)]
        inner, named = tree_unflatten(mixed, form)
        return func(*inner, **named)

    found = torch.vmap(of_one)(*own)
    if not tables:
        return tree_map_only(Tensor, lambda value: Stacked.of(value, rows), found)
    if found.dim() < 2 or found.shape[1] != rows:
        raise _not_of_nodes(name)
    return found.flatten(0, 1)


def _not_of_nodes(name: str) -> ConfigError:
    return ConfigError(
        f"the backbone uses a parameter in '{name}' with something else than the rows of nodes, so that clients cannot "
        "be stacked: set engine = separate, and `stacks=False` in the backbone's specification"
    )


def check_stacks(model: nn.Module) -> None:
    """Raise ConfigError where training does not move all of a model's state, or all of that is no parameter."""
    moved = {name for name, value in model.named_parameters() if value.requires_grad}
    if odd := sorted(model.state_dict().keys() - moved):
        raise ConfigError(
            f"the model has a state beside what training moves ({odd[0]}), so that clients cannot be stacked: set "
            "engine = separate"
        )


def logits_of_all(
    model: NodeClassifier,
    parameters: Parameters,
    x: Tensor,
    adjacency: Adjacency,
    rows: int,
    masks: torch.Generator | None = None,
) -> Tensor:
    """The logits of every client's nodes by its own parameters.

    Args:
        model: whose code computes; its own values are not read.
        parameters: of all clients, by name.
        x, adjacency: of all clients' nodes, side by side.
        rows: of each client.
        masks: of dropout.
    """
    stacked: dict[str, Tensor] = {name: Stacked.of(value, rows) for name, value in parameters.items()}
    found: Tensor = functional_call(model, stacked, (x, adjacency, masks))
    return found


def logits_of_one(model: NodeClassifier, parameters: Parameters, x: Tensor, adjacency: Adjacency) -> Tensor:
    """The logits of every client's nodes by the same parameters."""
    found: Tensor = functional_call(model, dict(parameters), (x, adjacency))
    return found
