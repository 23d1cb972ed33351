"""How many clients a robust rule needs, so that it can outvote the hostile ones among them."""

from __future__ import annotations

GROUP_MEDIAN = "group-median"
GROUP_RULES = frozenset({GROUP_MEDIAN, "group-trimmed-mean"})
"""Rules that compare masked sums of groups of clients."""
GROUP = 3
"""Clients in the smallest group."""


def fewest_clients(rule: str, hostile: int, trim: float) -> int:
    """The smallest number of updates for which `aggregation.rule` keeps its promise.

    Krum and Multi-Krum need 2f + 3 (Blanchard et al., 2017), Bulyan 4f + 3 (El Mhamdi et al., 2018). Median and
    trimmed mean need 3: of two values they are the mean, which a single client moves at will. Group rules need 2f + 1
    groups of three, so that those with a hostile client are fewer than half.

    Args:
        rule: of `aggregation.rule`.
        hostile: f, at least 0; counts for krum, multi-krum, bulyan, and as 1 at least for group rules.
        trim: share that trimmed-mean cuts off at each end, in [0, 0.5); 0 makes it the plain mean.
    """
    if rule in GROUP_RULES:
        return GROUP * (2 * max(hostile, 1) + 1)
    if rule in ("krum", "multi-krum"):
        return 2 * hostile + 3
    if rule == "bulyan":
        return 4 * hostile + 3
    if rule == "median" or (rule == "trimmed-mean" and trim > 0):
        return 3
    return 1
