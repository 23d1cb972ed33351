"""What the report says of the condensed graph of a run, against what the sites and the rows of the run say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from fedtag.client.data.folder import read_folder
from fedtag.client.data.writing import write_folder
from fedtag.client.methods.fedgc.preparation import kept_preparation, version_with
from fedtag.common.errors import RunError
from fedtag.common.parts.neighbour_exchange.names import PARTS, REQUEST
from fedtag.server.methods.fedgc.release import read_condensed
from fedtag.server.methods.fedgc.report import CondensationView, view_condensation
from fedtag.server.parts.neighbour_exchange.report import ExchangeView, exchange_traffic, view_exchange
from fedtag.server.report.page import write_report
from fedtag.server.tracking.disclosure_table import disclosure_totals
from tests.integration.conftest import Federated, federate

HEADING = "One condensed graph of all clients"


class Texts(HTMLParser):
    """The cells of all rows of tables in a page, and whether every tag that opens is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]) -> Federated:
    """Three sites that exchange sums over neighbours, learn a model for two rounds, and condense for four."""
    place = tmp_path_factory.mktemp("condensation")
    graph = read_folder(write_feature_folder(place / "raw", nodes=150)).graph
    split = np.zeros(150, np.int8)
    order = np.random.default_rng(1).permutation(150)
    split[order[:40]], split[order[40:60]], split[order[60:90]] = 1, 2, 3
    data = write_folder(
        replace(graph, split=split, name="graph", classes=("<i>a</i>", *graph.classes[1:])), place / "data"
    )
    settings: dict[str, object] = {
        "method": "fedgc",
        "data.source": str(data),
        "data.partition": "random",
        "clients": 3,
        "rounds": 6,
        "ratio": 0.08,
        "evaluation.every": 2,
        "train.epochs": 5,
        "neighbour-exchange.mode": "summed",
        "neighbour-exchange.min-neighbours": 2,
        "fedgc.self-training-rounds": 2,
        "fedgc.learn-from": "both",
        "fedgc.min-class-count": 2,
        "fedgc.confidence": 0.5,
        "fedgc.links": "learned",
        "fedgc.steps": 4,
        "fedgc.model-steps": 20,
    }
    return federate(place / "run", settings)


@pytest.fixture(scope="module")
def view(run: Federated) -> CondensationView:
    return view_condensation(run.directory, run.directory.read_clients())


@pytest.fixture(scope="module")
def exchange(run: Federated) -> ExchangeView:
    return view_exchange(run.directory)


def test_nodes_of_a_class_are_those_that_the_sites_have(run: Federated, view: CondensationView) -> None:
    released = read_condensed(run.directory.path)
    assert view.graph is not None
    assert view.graph.nodes == released.graph.num_nodes == round(0.08 * 150)
    assert 2 * view.graph.links == released.graph.edge_index.shape[1]
    assert view.real_nodes == 150
    trained, pseudo = np.zeros(3, int), np.zeros(3, int)
    for site in run.sites:
        graph = read_folder(site.folder).graph
        kept = kept_preparation(site.state, version_with(released.teacher))
        assert kept is not None
        own = graph.split == 1
        trained += np.bincount(graph.labels[own], minlength=3)
        joined = kept.labelled.numpy() & ~own
        pseudo += np.bincount(kept.y.numpy()[joined], minlength=3)
    assert [one.trained for one in view.classes] == trained.tolist()
    assert [one.pseudo for one in view.classes] == pseudo.tolist()
    assert pseudo.sum() > 0
    condensed = [int((released.graph.y == label).sum()) for label in range(3)]
    assert [one.condensed for one in view.classes] == condensed


def test_accuracy_of_the_chosen_way_is_that_of_the_rounds(run: Federated, view: CondensationView) -> None:
    rounds = {row.round: row for row in run.directory.read_rounds() if row.test_accuracy is not None}
    assert list(rounds) == [2, 4, 6]
    assert list(view.accuracies["graph"]) == [2]
    assert list(view.accuracies["condensed"]) == list(view.accuracies["tuned"]) == [4, 6]
    assert view.accuracies["graph"][2] == pytest.approx(rounds[2].test_accuracy)
    for number in (4, 6):
        # Fine-tuning is chosen unless the graph's own model is better on validation nodes.
        assert view.accuracies["tuned"][number] == pytest.approx(rounds[number].test_accuracy)


def test_every_round_of_condensation_has_its_distance(view: CondensationView) -> None:
    assert [number for number, _, _ in view.distances] == [3, 4, 5, 6]
    assert all(first > 0 and last > 0 for _, first, last in view.distances)
    assert view.distances[0][1] > view.distances[0][2]


def test_the_exchange_is_counted_by_client_and_kind(run: Federated, exchange: ExchangeView) -> None:
    assert list(exchange.counts) == [site.name for site in run.sites]
    for site in run.sites:
        boundary, added, small, missing = exchange.counts[site.name]
        assert boundary == added + small + missing
    assert exchange.total == tuple(map(sum, zip(*exchange.counts.values(), strict=True)))
    assert exchange.total[0] > 0
    disclosures = run.directory.read_disclosures()
    totals, traffic = disclosure_totals(disclosures), exchange_traffic(disclosures)
    up, down = (
        sum(one.bytes for one in totals if one.kind == PARTS and one.to_server == towards)
        for towards in (True, False)
    )
    asked = sum(one.bytes for one in totals if one.kind == REQUEST and "server" not in one.senders)
    assert list(traffic.values()) == [asked, up, down]
    assert min(traffic.values()) > 0


def test_the_report_has_the_figures(run: Federated, view: CondensationView, exchange: ExchangeView) -> None:
    page = (run.directory.path / "report.html").read_text()
    read = Texts(page)
    assert read.open == []
    section = page[page.index(HEADING) :]
    for one in view.classes:
        assert [one.name, str(one.condensed), str(one.trained), str(one.pseudo)] in read.rows
    assert "&lt;i&gt;a&lt;/i&gt;" in section
    for client, counts in exchange.counts.items():
        assert [client, *map(str, counts)] in read.rows
    assert "Distance of gradients" in section
    assert "Accuracy before and after fine-tuning" in section
    assert f"condensed graph, fine-tuned, round 6: {100 * view.accuracies['tuned'][6]:.2f}%" in section
    assert "of enciphered parts, to the server" in section


def test_a_run_without_records_of_it_has_no_section(tmp_path: Path, run: Federated) -> None:
    data = str(run.config.data.source)
    settings: dict[str, object] = {"method": "fedavg", "data.source": data, "clients": 2, "rounds": 1}
    other = federate(tmp_path / "run", {**settings, "data.partition": "random"})
    assert HEADING not in (other.directory.path / "report.html").read_text()


def test_a_damaged_record_is_named(run: Federated, tmp_path: Path) -> None:
    file = run.directory.path / "condensation.json"
    content = file.read_text()
    told = json.loads(content)
    totals = told["totals"]
    short = {**totals, "trained": totals["trained"][:2], "labelled": totals["labelled"][:2]}
    damages = {**told, "totals": short}, {**told, "distances": [{"round": 3}]}, {**told, "totals": 5}
    try:
        for damaged in damages:
            file.write_text(json.dumps(damaged))
            with pytest.raises(RunError, match=r"condensation\.json is damaged"):
                write_report([run.directory.path], tmp_path / "report.html")
    finally:
        file.write_text(content)
