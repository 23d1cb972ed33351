"""What ways of scoring mean, for every place that shows one."""

SCORING = {
    "graph": "the backbone on the original graph with texts that are not fused",
    "evidence": "the backbone on features fused with the selected evidence",
}
"""By the name that a score carries."""
