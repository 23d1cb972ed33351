"""Sections that methods, parts and the report itself bring: how they look, and what is said where they cannot come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from markupsafe import Markup

from fedtag.common.methods.spec import METHODS
from fedtag.common.parts.spec import PARTS
from fedtag.common.settings.registry import resolved
from fedtag.server.pages.section import Recorded, ReportSection, Table
from fedtag.server.report.made_of import made_of
from fedtag.server.report.page import render_report, write_report
from fedtag.server.report.run_view import view_run
from fedtag.server.tracking.disclosures import Crossing, Disclosure
from fedtag.server.tracking.rows import ClientRow
from fedtag.server.tracking.run_directory import RunDirectory

METHOD = "of-this-test"


def sections(recorded: Recorded) -> Sequence[ReportSection]:
    """What the report of the method below shows."""
    table = Table(("Client", "Kind"), ("Nodes",), (("<b>a</b>", "first", "1,000"),), "All of them.")
    folded = ReportSection("a", drawing=Markup("<svg></svg>"), folded=True, warning="beware")
    inner = (folded, ReportSection("Plain", ("Below.",)))
    return [ReportSection("Own", (f"{len(recorded.clients)} rows",), tables=(table,), inner=inner)]


@pytest.fixture
def own_method(monkeypatch: pytest.MonkeyPatch) -> str:
    spec = replace(METHODS.get("fedavg"), name=METHOD, report=f"{__name__}:sections")
    monkeypatch.setattr(METHODS, "_added", {METHOD: spec})
    return METHOD


def test_a_section_shows_all_that_it_holds(make_run: Callable[..., RunDirectory], own_method: str) -> None:
    run = make_run(method=own_method, rounds=2, clients=("a", "b"))
    page = render_report([view_run(run.path, "run")])
    assert "<h3>Own</h3>" in page
    assert "<p>4 rows</p>" in page
    assert '<p class="note">All of them.</p>' in page
    assert '<th scope="col">Kind</th><th scope="col" class="number">Nodes</th>' in page
    assert '<th scope="row"><bdi>&lt;b&gt;a&lt;/b&gt;</bdi></th><td><bdi>first</bdi></td>' in page
    assert '<td class="number">1,000</td>' in page
    assert '<summary><bdi>a</bdi> <span class="warn">beware</span></summary>' in page
    assert '<div style="max-width:40rem"><svg></svg></div>' in page
    assert "<h4>Plain</h4>" in page
    assert page.index("<h3>Own</h3>") < page.index("<h3>Aggregation</h3>")


def test_a_run_of_a_method_that_is_not_installed_is_shown_without_its_sections(
    make_run: Callable[..., RunDirectory],
) -> None:
    run = make_run(method="elsewhere", rounds=1, settings={"parts": "neighbour-exchange,nowhere"})
    out = run.path / "report.html"
    write_report([run.path], out)
    page = out.read_text()
    assert "What only the method elsewhere can tell is left out" in page
    assert "What only the part nowhere can tell is left out" in page
    assert "install the package that brings it" in page
    assert "What only the part neighbour-exchange" not in page
    assert "elsewhere on cora" in page


def test_nobody_knows_the_method_of_a_run_that_has_just_begun() -> None:
    made = made_of({}, "")
    assert (made.method, made.parts, made.missing) == (None, (), ())


REPORTS = [spec.report for registry in (METHODS, PARTS) for spec in registry.usable().values() if spec.report]


@pytest.mark.parametrize("report", REPORTS)
def test_nothing_is_said_of_a_run_that_recorded_nothing(
    report: str, make_run: Callable[..., RunDirectory]
) -> None:
    run = make_run(rounds=0, finish=False)
    assert resolved(report)(Recorded(run, [], [])) == []


def test_letters_and_condensed_graphs_are_shown_whatever_the_method(
    make_run: Callable[..., RunDirectory],
) -> None:
    run = make_run(method="fedavg", rounds=1)
    shown = [Crossing("north", "south", 1, 500), Crossing("north", "south", 2, 1500)]
    run.append_disclosures([Disclosure.of(1, "nodes", "portrait", shown, "a mean", "none")])
    told = {"nodes": 50, "core": 5, "copied": 0.5, "close": None}
    run.append_clients([ClientRow(2, "north", 50, 10, None, None, None, {}, condensation=told)])
    page = render_report([view_run(run.path, "run")])
    assert "<h3>Condensed graphs</h3>" in page
    assert (
        '<bdi>north</bdi></th><td class="number">50</td><td class="number">5</td><td class="number">50.00%</td>'
        in page
    )
    assert "<h3>Between clients</h3>" in page
    assert "<td><bdi>portrait</bdi></td>" in page
    assert '<td class="number">3</td><td class="number">2.00 kB</td>' in page
    assert "2000 bytes over 1 round" in page
