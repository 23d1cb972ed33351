"""Robust rules, by Flower's own strategies: a few hostile clients cannot move the result at will."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from flwr.serverapp.strategy import Bulyan, FedMedian, FedTrimmedAvg, Krum, MultiKrum, Strategy
from torch import Tensor

from fedtag.common.errors import ConfigError
from fedtag.common.numerics.robust_rules import fewest_clients
from fedtag.server.strategies.flower import aggregated, float64_arrays


def combine_by_rule(
    rule: str, updates: Mapping[str, Mapping[str, Tensor]], hostile: int, trim: float
) -> dict[str, Tensor]:
    """One update from those of all clients, which count equally.

    - `median`, coordinate by coordinate (Yin et al., 2018).
    - `trimmed-mean`: the mean of each coordinate without the ⌊trim · n⌋ smallest and largest values (Yin et al.,
      2018), and without one of each at least, unless trim is 0.
    - `krum`: the update with the least sum of squared distances to its n − f − 2 nearest (Blanchard et al., 2017).
    - `multi-krum`: the mean of the n − f − 2 best of these, the number for which its resilience is proven.
    - `bulyan`: of the n − 2f best by these distances, the mean of the n − 4f values of each coordinate that are
      nearest to their median (El Mhamdi et al., 2018; Flower ranks once, the paper anew after each choice).

    Floating-point tensors are combined in float64, in the order of client names. An integer or boolean tensor
    is never averaged: each entry is the lower median of the clients' entries, a value that one of them sent.

    Args:
        rule: of `aggregation.rule`, without mean.
        updates: by client; all with the same names, shapes and dtypes, finite.
        hostile: f, the clients that krum, multi-krum and bulyan withstand.
        trim: share of the values that trimmed-mean cuts off at each end, in [0, 0.5).

    Raises:
        ConfigError: an unknown rule, or fewer updates than it needs (`fewest_clients`).
    """
    needed = fewest_clients(rule, hostile, trim)
    if len(updates) < needed:
        lower = "lower aggregation.hostile, " if needed > 3 else ""
        raise ConfigError(
            f"aggregation.rule = {rule} with aggregation.hostile = {hostile} needs the updates of at least "
            f"{needed} clients, {len(updates)} contributed: {lower}let more clients take part, or set "
            "aggregation.rule = mean"
        )
    strategy = _strategy(rule, len(updates), hostile, trim)
    ordered = [updates[client] for client in sorted(updates)]
    forms = ordered[0]
    real = [name for name, value in forms.items() if value.is_floating_point()]
    arrays = aggregated(strategy, 1, [float64_arrays(update, real) for update in ordered]) if real else {}
    return {
        name: torch.tensor(arrays[name]).to(value.dtype) if name in arrays else _lower_median(ordered, name)
        for name, value in forms.items()
    }


def _strategy(rule: str, clients: int, hostile: int, trim: float) -> Strategy:
    match rule:
        case "median":
            return FedMedian()
        case "trimmed-mean":
            return FedTrimmedAvg(beta=_share_to_cut(clients, trim))
        case "krum":
            return Krum(num_malicious_nodes=hostile)
        case "multi-krum":
            return MultiKrum(num_malicious_nodes=hostile, num_nodes_to_select=clients - hostile - 2)
        case "bulyan":
            return Bulyan(num_malicious_nodes=hostile)
    raise ConfigError(
        f"aggregation.rule = {rule} is no robust rule: use median, trimmed-mean, krum, multi-krum or bulyan"
    )


def _share_to_cut(clients: int, trim: float) -> float:
    if trim == 0 or int(trim * clients) > 0:
        return trim
    # Flower rounds share · n down; a quarter more than 1/n is 1 after that, and stays below one half.
    return 1.25 / clients


def _lower_median(updates: Sequence[Mapping[str, Tensor]], name: str) -> Tensor:
    values = torch.stack([update[name].detach().cpu() for update in updates])
    return values.sort(dim=0).values[(len(updates) - 1) // 2]
