"""What a site has forgotten, on the terminal."""

from __future__ import annotations

from fedtag.client.forgetting.forgetting import Forgetting
from fedtag.common.wording.counts import plural
from fedtag.deploy.terminal.console import notices, results, say


def show_forgetting(found: Forgetting) -> None:
    """What was removed, and for each node its receipt and the runs that it was in."""
    removed = (
        plural(found.rows, "row"),
        plural(found.edges, "edge"),
        f"{plural(found.packs, 'pack')} of evidence",
        plural(found.vectors, "vector"),
        plural(found.summaries, "summary"),
        f"{plural(found.states, 'file')} of runs' states",
    )
    say(results(), f"removed: {', '.join(removed)}")
    for node in found.nodes:
        say(results(), f"{node.node}: {'forgotten before, ' if node.earlier else ''}receipt {node.receipt}")
        for part in node.runs:
            role = "a training node" if part.trained else "no training node"
            say(
                results(),
                f"  it was in the data of run {part.run}, as {role}: its released model stays",
            )
        if node.shared:
            say(
                notices(),
                f"  another node has the same text as {node.node}: vectors and summaries of it stay",
            )
