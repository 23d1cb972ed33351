"""Nodes whose names look alike on an audit page, so that the clean evidence of one would stand for another's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fedtag.audits.evidence import audit_site
from fedtag.audits.serving import AuditedPages
from fedtag.client.evidence.page.document import write_page
from fedtag.client.evidence.store import write_packs
from fedtag.client.evidence.verification import Budgets
from fedtag.client.site.site import Site
from tests.audited import chunk, pack
from tests.browser import opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HIDDEN = ("a\u200b", "a\u200c")
"""Two names that are shown alike."""


@pytest.fixture
def alike(tmp_path: Path) -> AuditedPages:
    """A site with two nodes that are shown alike, of which the first has a second pack; its first is clean."""
    folder = tmp_path / "site-a"
    folder.mkdir()
    rows = [f"{node},text {number},x,train" for number, node in enumerate((*HIDDEN, "b"))]
    (folder / "nodes.csv").write_text("\n".join(["node_id,text,label,split", *rows]) + "\n", encoding="utf-8")
    (folder / "edges.csv").write_text(f"src,dst\n{HIDDEN[1]},b\n", encoding="utf-8")
    (folder / "meta.json").write_text(json.dumps({"name": "site-a", "classes": ["x"]}), encoding="utf-8")
    texts: dict[str | int, str] = {node: f"text {number}" for number, node in enumerate((*HIDDEN, "b"))}
    clean, other, last = (
        pack(node, [chunk(texts, node, 0, 4, 1.0)], round=3, prediction="x", label="x") for node in texts
    )
    tampered = pack(
        HIDDEN[1], [chunk({HIDDEN[1]: "another"}, HIDDEN[1], 0, 4, 1.0)], round=3, prediction="x", label="x"
    )
    write_packs(folder / "evidence", 3, [clean, tampered, last, other])
    site = Site("site-a", folder, folder, folder / "cache")
    return AuditedPages(audit_site(site, None, Budgets()), 5)


def test_a_name_that_looks_like_another_hides_nothing(alike: AuditedPages) -> None:
    """Nor does a second pack of a node: each row is shown, listed, and has faults of its own."""
    listed = alike.nodes({})["index"]
    assert listed["rows"] == [1, 0, 2, 3]
    assert listed["nodes"][0] == listed["nodes"][1] == listed["nodes"][3] == "a\N{REPLACEMENT CHARACTER}"
    shown = {row: alike.node({"row": str(row)}) for row in listed["rows"]}
    assert {row: bool(one["view"]["faults"]) for row, one in shown.items()} == {
        0: False,
        1: True,
        2: False,
        3: False,
    }
    assert [shown[row]["place"]["previous"] for row in listed["rows"]] == [None, 1, 0, 2]
    assert [shown[row]["place"]["next"] for row in listed["rows"]] == [0, 2, 3, None]
    # The neighbours that a view names are addressed by their own rows.
    assert [(one["packs"][one["view"]["own"]], len(one["packs"])) for one in shown.values()] == [
        (1, 2),
        (0, 1),
        (2, 2),
        (1, 2),
    ]


def test_a_verdict_on_a_node_is_not_one_on_who_looks_like_it(alike: AuditedPages) -> None:
    said = {"verdict": "convinces", "note": "", "at": None}
    alike.keep({"0": said})
    assert alike.verdicts({}) == {0: said}
    alike.keep({"1": {**said, "verdict": "not"}})
    assert [one["verdict"] for one in alike.verdicts({}).values()] == ["convinces", "not", "not"]
    assert alike.judged({})["rows"] == [0, 1, 2, 3]


def test_a_person_reads_each_of_two_nodes_that_look_alike(
    browser: Browser, alike: AuditedPages, tmp_path: Path
) -> None:
    """On the page from a file, whose list, keys and verdicts go by rows as well."""
    write_page(alike.content.views.site, tmp_path / "page.html")
    with opened(browser, f"{(tmp_path / 'page.html').as_uri()}#row=1") as shown:
        shown.page.get_by_text("✗ It does not verify.").wait_for()
        shown.page.get_by_label("It does not").check()
        shown.page.get_by_text("kept 20").wait_for()
        shown.page.get_by_role("button", name="Next").click()
        shown.page.get_by_text("2 of 4").wait_for()
        assert "#row=0" in shown.page.url
        assert shown.page.get_by_text("does not verify").count() == 0
        assert not shown.page.get_by_label("It does not").is_checked()
        shown.page.evaluate("location.hash = '#nodes'")
        shown.page.get_by_role("status").filter(has_text="4 of 4 nodes").wait_for()
        assert shown.page.locator("main li", has_text="read").count() == 1
        for where in ("#nodes?label=x", "#nodes?label=7", "#nodes?only=others"):
            shown.page.evaluate("where => { location.hash = where; }", where)
            shown.page.get_by_text("This cannot be shown: there is no such").wait_for()
        assert not shown.errors
