"""Adam and SGD of torch, entered without torch's compiler.

Each method of an optimiser loads the compiler first, to keep it out: more than a second of a process's start, and
nothing here is compiled. The arithmetic is torch's.
"""

from __future__ import annotations

from inspect import unwrap

import torch


class _Entered(torch.optim.Optimizer):
    add_param_group = unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = unwrap(torch.optim.Optimizer.load_state_dict)


class Adam(_Entered, torch.optim.Adam):
    """Kingma and Ba (2015)."""

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class SGD(_Entered, torch.optim.SGD):
    """With momentum and weight decay as in Sutskever et al. (2013)."""

    step = torch.no_grad()(unwrap(torch.optim.SGD.step))
