"""What ways of scoring mean, for every place that shows one."""

SCORING = {
    "graph": "the backbone on the original graph with texts that are not fused",
    "evidence": "the backbone on features fused with the selected evidence",
}
"""By the name that a score carries."""


def over_clients(spread: float | None) -> str:
    """The standard deviation over clients, to stand behind a pooled score; nothing where it is not known."""
    return "" if spread is None else f" ± {100 * spread:.1f} over clients"
