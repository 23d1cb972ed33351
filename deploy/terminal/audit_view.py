"""An audit of evidence on the terminal."""

from __future__ import annotations

from contextlib import suppress

from fedtag.audits.evidence import Audited
from fedtag.audits.examination import Examination
from fedtag.audits.serving import AuditServer
from fedtag.client.evidence.packs import EvidencePack
from fedtag.client.evidence.terminal import evidence_view
from fedtag.common.wording.counts import plural
from fedtag.deploy.terminal.console import notices, results, say
from fedtag.deploy.terminal.faithfulness_table import show_measures

MOST_VIOLATIONS = 20
WORDLESS = "no node has a text, so that selected nodes and weights are all there is to audit"


def show_examination(found: Examination, measuring: bool) -> None:
    """What was measured, the node that was asked for, the pages, and the verdict on each site.

    Args:
        found: the audit.
        measuring: whether faithfulness was asked for.
    """
    console = results()
    if found.faithfulness is not None:
        show_measures(console, found.faithfulness.summary, found.faithfulness.title)
        say(console, f"faithfulness  {found.faithfulness.file}")
    if found.node is not None:
        show_node(*found.node)
    for site, (page, nodes) in zip(found.sites, found.pages, strict=False):
        say(console, f"page  {page}")
        if nodes < len(site.packs):
            rest = "what is worth reading first; fedtag audit --serve shows all"
            say(console, f"      it holds {nodes} of {len(site.packs)} nodes, {rest}")
    for site in found.sites:
        checked, violations = site.verification.checked, site.verification.violations
        literal = "every span is literal" if any(site.graph.texts) else WORDLESS
        verdict = plural(len(violations), "violation") if violations else literal
        style = "red" if violations else "green"
        say(console, f"{site.name}, round {site.round}: {plural(checked, 'pack')} verified, {verdict}", style)
        for sentence in violations[:MOST_VIOLATIONS]:
            say(notices(), sentence, "red")
    if found.lacking is not None:
        say(notices(), found.lacking, "red")
    if measuring and not found.verified:
        say(notices(), "the evidence does not verify: nothing was measured", "red")


def show_server(server: AuditServer) -> None:
    """Where the pages are, until whoever reads them stops it."""
    console = results()
    for address in server.addresses:
        say(console, f"page  {address}")
    say(console, "stop it with Ctrl-C")
    with suppress(KeyboardInterrupt):
        server.serve_forever()


def show_node(site: Audited, pack: EvidencePack) -> None:
    """The evidence of one node."""
    console, budgets, measured = results(), site.budgets, site.measured
    say(console, site.name)
    view = evidence_view(
        pack,
        site.graph.node_ids,
        site.graph.texts,
        budgets.hops,
        budgets.chunks,
        measured.nodes.get(pack.node) if measured is not None else None,
        site.graph.edges,
        site.known,
    )
    console.print(view)
