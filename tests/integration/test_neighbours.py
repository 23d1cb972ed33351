"""Generated neighbours from end to end: what crosses, what is mended, and what a resumption or a late site changes."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.fedavg import METHOD
from fedtag.client.parts.neighbour_generator.method import mended_by
from fedtag.client.parts.neighbour_generator.training import fresh_generator, generator_of_its_own
from fedtag.client.run.simulated import simulate_sites
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.site.state import newest_kept
from fedtag.common.config import RunConfig
from fedtag.common.errors import RunError
from fedtag.common.models.parameters import fingerprint, load_parameters
from fedtag.common.wire.records import Content, Instruction, Reply
from fedtag.runs.prediction import predict
from fedtag.server.methods.assembly import method_of
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import course
from fedtag.server.strategies.accounting import spent
from tests.exchanges import context_of

if TYPE_CHECKING:
    from tests.tiny import Tiny, Tried

EXCHANGES = 3
MENDED: dict[str, Any] = {
    "method": "fedavg",
    "parts": "neighbour-generator",
    "neighbour-generator.rounds": EXCHANGES,
    "neighbour-generator.most": 2,
}
SECURE = {"privacy.secure-aggregation": True}


@pytest.fixture(scope="module")
def plain(tiny: Tiny) -> Tried:
    return tiny(MENDED)


def section(run: Tried, kind: str) -> dict[str, torch.Tensor]:
    return Content(run.state).section(kind)


def same(one: Tried, other: Tried, tolerance: float = 0) -> None:
    assert one.state.keys() == other.state.keys()
    for name, value in one.state.items():
        assert torch.allclose(value, other.state[name], rtol=0, atol=tolerance), name


def test_the_generator_is_trained_before_the_model_in_round_1(plain: Tried) -> None:
    assert plain.phases == ["generate"] * EXCHANGES + ["train"] * 3 + ["close"]
    assert [row["round"] for row in plain.lines("metrics")] == [1, 2, 3]
    losses = json.loads((plain.place / "run" / "neighbour-generator.json").read_text())["losses"]
    assert len(losses) == EXCHANGES
    assert losses[-1] < losses[0]
    assert plain.summary is not None
    assert plain.summary.parameters == sum(value.numel() for value in section(plain, "model").values())


def test_only_updates_of_the_generator_leave_a_site(plain: Tried) -> None:
    sizes = {name: value.shape for name, value in section(plain, "generator").items()}
    replies = plain.replies("generate")
    assert len(replies) == 3 * EXCHANGES
    for reply in replies:
        assert {name: value.shape for name, value in reply.content.section("update").items()} == sizes
        assert all(name.startswith("update/") for name in reply.content.tensors)
        assert reply.content.values.keys() <= {"sizes", "training", "seconds", "introduction", "initial"}
        assert not reply.content.letters
    told = {(row["from"] == "server", row["kind"]) for row in plain.disclosures}
    up = {kind for server, kind in told if not server}
    assert up == {"update", "sizes", "training", "seconds", "introduction", "initial", "scores"}
    assert (True, "generator") in told


def test_the_generator_goes_to_each_site_once(plain: Tried) -> None:
    got = [
        (one.client, one.told.phase, one.told.round)
        for one in plain.crossed
        if "generator" in kinds(one.told)
    ]
    assert got == [(f"site-{k}", "train", 1) for k in range(3)]


def kinds(told: Instruction) -> set[str]:
    return {name.partition("/")[0] for name in told.content.tensors}


def test_training_is_federated_averaging_of_the_generator(tiny: Tiny) -> None:
    run = tiny({**MENDED, "neighbour-generator.rounds": 1, "rounds": 1})
    updates = {r.client: r.content.section("update") for r in run.replies("generate")}
    nodes = {r.client: r.content.values["sizes"]["train_nodes"] for r in run.replies("generate")}
    trained = section(run, "generator")
    begun = tiny({**MENDED, "neighbour-generator.rounds": 2, "rounds": 1})
    start = next(
        one.told for one in begun.crossed if one.told.phase == "generate" and "model" in kinds(one.told)
    )
    # What the second exchange starts from is what the first led to.
    for name, value in start.content.section("model").items():
        torch.testing.assert_close(value, trained[name])
    mean = {
        name: sum(nodes[client] * update[name] for client, update in updates.items()) / sum(nodes.values())
        for name in trained
    }
    assert max(float(value.abs().max()) for value in mean.values()) > 1e-3
    for name, value in (
        fresh_generator(run.sessions[0].data, context_of(run.sessions[0])).state_dict().items()
    ):
        torch.testing.assert_close(trained[name], value + mean[name])


def kept_generator(session: SiteRun) -> dict[str, Tensor]:
    """What the site has kept of its one run."""
    kept = newest_kept(session.site.state, "generator")
    assert kept is not None
    return dict(kept.tensors)


def mended(session: SiteRun) -> SiteData:
    """The data that the method was handed."""
    return mended_by(kept_generator(session), session.data, context_of(session))


def test_generated_neighbours_count_nowhere(plain: Tried) -> None:
    for session in plain.sessions:
        own, graph = session.data.graph.num_nodes, mended(session).graph
        assert graph.num_nodes > own
        assert graph.num_nodes <= own * 3
        assert session.data.sizes["nodes"] == own == session.data.text_graph.num_nodes
    rows = [row for row in plain.lines("clients") if row["round"] == 3]
    assert [row["nodes"] for row in rows] == [s.data.text_graph.num_nodes for s in plain.sessions]
    for session, row in zip(plain.sessions, rows, strict=True):
        model = METHOD.model(session.data, context_of(session))
        load_parameters(model, section(plain, "model"))
        graph = mended(session).graph
        logits = model(graph.x, graph.adjacency())
        tests = graph.test_mask.nonzero().flatten()
        assert int(tests.max()) < session.data.text_graph.num_nodes
        right = (logits.argmax(1)[tests] == graph.y[tests]).double().mean()
        assert row["test_accuracy"] == pytest.approx(float(right))


def test_a_site_that_starts_anew_mends_the_same_graph(plain: Tried) -> None:
    generator = section(plain, "generator")
    for session in plain.sessions:
        first, again = mended(session), mended_by(generator, session.data, context_of(session))
        assert torch.equal(again.graph.x, first.graph.x)
        assert torch.equal(again.graph.edge_index, first.graph.edge_index)
        renamed = SiteRun(
            Site("other", session.site.folder, session.site.workspace, session.site.cache, "cpu"),
            session.config,
        )
        other = mended_by(generator, renamed.data, context_of(renamed))
        own = session.data.graph.num_nodes
        assert not torch.equal(other.graph.x[own:], first.graph.x[own:])


def test_the_same_seed_gives_the_same_run(tiny: Tiny, plain: Tried) -> None:
    same(plain, tiny(MENDED))
    other = tiny({**MENDED, "seed": 1})
    assert fingerprint(section(other, "generator")) != fingerprint(section(plain, "generator"))


def test_labels_do_not_move_the_generator(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> None:
    made = []
    for name, renamed in (("one", {}), ("other", {",a,": ",b,", ",b,": ",c,", ",c,": ",a,"})):
        folder = write_feature_folder(tmp_path / name)
        table = folder / "nodes.csv"
        lines = table.read_text().splitlines()
        for place, line in enumerate(lines):
            for old, new in renamed.items():
                if old in line:
                    lines[place] = line.replace(old, new)
                    break
        table.write_text("\n".join(lines) + "\n")
        config = RunConfig.from_flat({**MENDED, "model.hidden": 8})
        session = SiteRun(Site("site", folder, tmp_path / "work" / name, tmp_path / "cache", "cpu"), config)
        generator = generator_of_its_own(session.data, context_of(session))
        made.append((fingerprint(generator), session.data.text_graph.labels))
    assert made[0][0] == made[1][0]
    assert not np.array_equal(made[0][1], made[1][1])


@pytest.mark.parametrize("moment", [("train", 2), ("train", 3)])
def test_a_resumed_run_equals_an_undisturbed_one(tiny: Tiny, plain: Tried, moment: tuple[str, int]) -> None:
    def gone(client: str, told: Instruction, reply: Reply) -> Reply | Exception:
        return ValueError() if (told.phase, told.round) == moment else reply

    place = tiny.new_place()
    stopped = tiny(MENDED, place=place, answer=gone)
    assert stopped.error is not None
    again = tiny(MENDED, place=place)
    assert "generate" not in again.phases
    # Nodes have no names yet after a resumption, so that all get the generator once more.
    assert all("generator" in kinds(one.told) for one in again.grid.exchanges[0])
    same(plain, again)
    assert plain.summary is not None
    assert again.summary is not None
    assert again.summary.val_accuracy == plain.summary.val_accuracy


def test_a_run_that_stops_in_its_preparation_goes_on_with_the_next_step(tiny: Tiny, plain: Tried) -> None:
    def gone(client: str, told: Instruction, reply: Reply) -> Reply | Exception:
        return ValueError() if told.content.values.get("generator_exchange") == EXCHANGES else reply

    place = tiny.new_place()
    assert tiny(MENDED, place=place, answer=gone).error is not None
    again = tiny(MENDED, place=place)
    assert again.phases == ["generate"] + ["train"] * 3 + ["close"]
    same(plain, again)
    first, undisturbed = again.lines("metrics")[0], plain.lines("metrics")[0]
    # Steps before the stop count for round 1, as all others do.
    assert first["bytes_up"] == pytest.approx(undisturbed["bytes_up"], rel=0.05)
    assert first["seconds_by_phase"].keys() == undisturbed["seconds_by_phase"].keys()


def test_a_site_that_lost_its_state_is_told_what_to_do(plain: Tried, tmp_path: Path) -> None:
    last = next(one for one in plain.crossed if one.told.phase == "train" and one.told.round == 3)
    session = plain.sessions[0]
    assert SiteRun(session.site, session.config).respond(last.told).content.section("update")
    emptied = Site("site-0", session.site.folder, tmp_path / "work", session.site.cache, "cpu")
    with pytest.raises(RunError, match=r"no longer holds the generator .* restart the site's SuperNode"):
        SiteRun(emptied, session.config).respond(last.told)


def test_secure_aggregation_learns_the_same_generator_and_model(tiny: Tiny, plain: Tried) -> None:
    secure = tiny({**MENDED, **SECURE})
    same(plain, secure, 1e-5)
    for reply in secure.replies("generate"):
        assert set(reply.content.tensors) == {"masked/vector"}


def test_clients_that_are_drawn_later_get_the_generator_then(tiny: Tiny) -> None:
    run = tiny({**MENDED, "train.client-fraction": 0.34, "rounds": 4})
    assert run.summary is not None
    got: dict[str, int] = {}
    for one in run.crossed:
        if one.told.phase in ("train", "score", "close"):
            got[one.client] = got.get(one.client, 0) + ("generator" in kinds(one.told))
    assert set(got) == {"site-0", "site-1", "site-2"}
    assert all(count >= 1 for count in got.values())
    assert all(row["failed"] is None for row in run.lines("clients"))


def test_a_client_without_training_nodes_is_mended_all_the_same(tiny: Tiny) -> None:
    run = tiny(MENDED, idle=(1,))
    assert run.summary is not None
    assert all(
        not reply.content.section("update") for reply in run.replies("generate") if reply.client == "site-1"
    )
    assert mended(run.sessions[1]).graph.num_nodes > run.sessions[1].data.graph.num_nodes


@pytest.fixture
def smallest(tmp_path: Path) -> Path:
    """Three institutions: one node, nodes without any edge, an ordinary one."""
    rng = np.random.default_rng(0)
    sizes = {"one": (1, []), "apart": (6, []), "usual": (12, [(k, (k + 1) % 12) for k in range(12)])}
    for name, (nodes, edges) in sizes.items():
        folder = tmp_path / name
        folder.mkdir()
        splits = ["train", "val", "test"]
        rows = [f"{n},text {n},{'ab'[n % 2]},{splits[n % 3]}" for n in range(nodes)]
        (folder / "nodes.csv").write_text("\n".join(["node_id,text,label,split", *rows]) + "\n")
        (folder / "edges.csv").write_text("\n".join(["src,dst", *(f"{a},{b}" for a, b in edges)]) + "\n")
        (folder / "meta.json").write_text(json.dumps({"name": name, "classes": ["a", "b"]}))
        np.save(folder / "features.npy", rng.standard_normal((nodes, 5)).astype(np.float32))
    return tmp_path


@pytest.mark.parametrize("method", ["fedavg", "isolated", "da_dfgas"])
def test_one_node_and_no_edges_give_no_nan(
    method: str, smallest: Path, run_federation: Callable[..., Any], tmp_path: Path
) -> None:
    names = ("one", "apart", "usual")
    run = run_federation(
        tmp_path / "run",
        {
            **MENDED,
            "method": method,
            "data.source": ";".join(str(smallest / name) for name in names),
            "clients": 3,
            "rounds": 2,
            "model.hidden": 4,
            "da_dfgas.cells": 1,
        },
    )
    assert all(row.clients_failed == 0 for row in run.directory.read_rounds())
    for line in (run.directory.path / "metrics.jsonl").read_text().splitlines():
        assert all(math.isfinite(value) for value in json.loads(line).values() if isinstance(value, float))
    for session in run.sessions:
        data = mended(session)
        assert bool(data.graph.x.isfinite().all())
        assert bool(data.adjacency.weight.isfinite().all())


def test_isolated_clients_train_generators_of_their_own(tiny: Tiny) -> None:
    run = tiny({**MENDED, "method": "isolated"})
    assert run.phases == ["train"] * 3 + ["close"]
    assert not any(reply.content.section("update") for reply in run.replies())
    made = {fingerprint(kept_generator(session)) for session in run.sessions}
    assert len(made) == 3
    assert all(mended(session).graph.num_nodes > session.data.graph.num_nodes for session in run.sessions)


def test_a_released_model_predicts_with_its_generator_on_any_folder(plain: Tried, tmp_path: Path) -> None:
    """Neither the state of the run nor its settings are there: two files and a folder."""
    released = tmp_path / "released"
    released.mkdir()
    for name in ("model.safetensors", "model.json"):
        shutil.copy(plain.place / "run" / name, released)
    card = json.loads((released / "model.json").read_text())
    assert (card["parts"], card["neighbour-generator"]["most"]) == ("neighbour-generator", 2)
    assert plain.summary is not None
    rows = {row["client"]: row for row in plain.lines("clients") if row["round"] == plain.summary.best_round}
    for session in plain.sessions:
        name = session.site.name
        made = predict(released, session.site.folder, name=name, cache=tmp_path / "cache")
        assert made.prediction.logits.shape[0] == session.data.text_graph.num_nodes
        right = made.classes == made.data.labels
        assert right[made.data.split == 3].mean() == pytest.approx(rows[name]["test_accuracy"])


def test_a_partition_with_overlap_is_mended_too(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    """Borrowed copies are nodes of the client's graph: they teach the generator and are mended like its own."""
    config = RunConfig.from_flat(
        {
            **MENDED,
            "clients": 3,
            "data.source": str(write_feature_folder(tmp_path / "data", nodes=90)),
            "data.partition": "metis",
            "data.overlap": 0.3,
        }
    )
    for site in simulate_sites(config, tmp_path / "sites"):
        session = SiteRun(site, config)
        copies = session.data.text_graph.labels < 0
        assert 0 < copies.sum() == round(0.3 * (~copies).sum())
        context = context_of(session)
        graph = mended_by(generator_of_its_own(session.data, context), session.data, context).graph
        own = session.data.graph.num_nodes
        assert own == session.data.text_graph.num_nodes < graph.num_nodes
        assert bool(graph.x.isfinite().all())


def test_sums_of_the_generator_cost_privacy_too() -> None:
    private = {"privacy.dp.mode": "central", "privacy.dp.noise": 2.0, "aggregation.weights": "uniform"}
    mended = RunConfig.from_flat({**MENDED, **private})
    usual = RunConfig.from_flat({**private, "method": "fedavg"})
    sums = sum(phase.sums for phase in course(method_of(mended), 5, ServerContext(mended)))
    assert sums == 5 + EXCHANGES
    assert spent(mended, sums, 0) == spent(usual, 5 + EXCHANGES, 0)
