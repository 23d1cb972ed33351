"""What ways of scoring mean, for every place that shows one."""

SCORING = {
    "graph": "the backbone on the original graph with texts that are not fused",
    "evidence": "the backbone on features fused with the selected evidence",
}
"""By the name that a score carries."""


def deviation(spread: float | None) -> str:
    """A standard deviation, to stand behind a percentage; nothing where it is not known."""
    return "" if spread is None else f" ± {100 * spread:.1f}"


def over_clients(spread: float | None) -> str:
    """The same, with what it is over."""
    return "" if spread is None else f"{deviation(spread)} over clients"
