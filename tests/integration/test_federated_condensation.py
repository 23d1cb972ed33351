"""FedGC from end to end: its phases, what may happen between them, what the server learns, what is released."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import safetensors
import torch
from typer.testing import CliRunner

from fedtag.client.condense.synthetic.leak import leak
from fedtag.client.run.site_run import SiteRun
from fedtag.common.errors import ConfigError, DataError, RunError
from fedtag.common.models.spec import BACKBONES
from fedtag.common.wire.records import Instruction
from fedtag.deploy.cli import app
from fedtag.server.methods.fedgc.condensation import taught
from fedtag.server.methods.fedgc.release import FILE, read_condensed
from fedtag.server.tracking.release import read_release
from fedtag.server.tracking.run_directory import RunDirectory

if TYPE_CHECKING:
    from tests.tiny import Tiny, Tried

Settings = dict[str, object]
SETTINGS: Settings = {
    "method": "fedgc",
    "rounds": 5,
    "fedgc.self-training-rounds": 2,
    "fedgc.confidence": 0.4,
    "fedgc.learn-from": "both",
    "fedgc.min-class-count": 2,
    "fedgc.hidden": 6,
    "fedgc.links": "learned",
    "fedgc.model-steps": 10,
    "fedgc.fine-tune-steps": 3,
}
SECURE: Settings = {"privacy.secure-aggregation": True}
HIDDEN: Settings = {**SECURE, "privacy.hide-statistics": True, "aggregation.weights": "uniform"}
# What a step of Adam at a rate of a tenth of a deviation makes of the rounding of fixed point.
TOLERANCE = 1e-3


class KilledError(Exception):
    """The server's process is gone."""


@pytest.fixture(scope="module")
def once(tiny: Tiny) -> Callable[..., Tried]:
    """Runs with nobody in between; equal ones are done once."""
    done: dict[str, Tried] = {}

    def run(**changes: object) -> Tried:
        settings = {name.replace("__", ".").replace("_", "-"): value for name, value in changes.items()}
        key = json.dumps(settings, sort_keys=True)
        if key not in done:
            done[key] = tiny({**SETTINGS, **settings})
        return done[key]

    return run


def sums_of(run: Tried, number: int) -> dict[str, dict[str, torch.Tensor]]:
    return {
        reply.client: reply.content.section("update")
        for reply in run.replies("condense")
        if reply.round == number
    }


def assert_equal(one: Tried, other: Tried) -> None:
    assert one.state.keys() == other.state.keys()
    for name, value in one.state.items():
        assert torch.equal(value, other.state[name]), name
    names = ("val_accuracy", "test_accuracy", "train_loss", "test_ece")
    rows = [[row[name] for name in names] for row in one.lines("metrics")]
    assert rows == [[row[name] for name in names] for row in other.lines("metrics")]


def test_the_phases_follow_one_another(once: Callable[..., Tried]) -> None:
    run = once()
    assert run.phases == ["train", "train", "condense", "condense", "condense", "close"]
    columns = [set(row["scores"]) for row in run.lines("clients") if row["client"] == "site-0"]
    graph = {"val_accuracy_graph", "test_accuracy_graph"}
    later = {f"{subset}_accuracy_{path}" for subset in ("val", "test") for path in ("condensed", "tuned")}
    assert columns == [graph, graph, later, later, later]
    assert run.summary is not None
    assert run.summary.best_round in (3, 4, 5)
    for row in run.lines("clients"):
        if row["round"] > 2:
            # The best step on validation nodes, the received model being one of them.
            assert row["scores"]["val_accuracy_tuned"] >= row["scores"]["val_accuracy_condensed"]
            assert row["val_accuracy"] == row["scores"]["val_accuracy_tuned"]


def test_each_phase_can_be_left_out(once: Callable[..., Tried]) -> None:
    without = once(fedgc__learn_from="training")
    assert without.phases == ["condense"] * 5 + ["close"]
    assert not any("teacher" in one.told.content.values for one in without.crossed)
    untuned = once(fedgc__fine_tune_steps=0)
    assert all("val_accuracy_tuned" not in row["scores"] for row in untuned.lines("clients"))
    assert_equal_graphs(once(), untuned)
    unlinked = once(fedgc__links="none")
    assert not any(name.startswith("condensed/links") for name in unlinked.state)


def assert_equal_graphs(one: Tried, other: Tried) -> None:
    for name, value in one.state.items():
        if name.startswith("condensed/"):
            assert torch.equal(value, other.state[name]), name


@pytest.mark.parametrize("at", [(2, "train"), (3, "condense"), (4, "condense")], ids=str)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    tiny: Tiny, once: Callable[..., Tried], at: tuple[int, str]
) -> None:
    place = tiny.new_place()

    def kill(client: str, told: Instruction) -> Instruction:
        if (told.round, told.phase) == at and client == "site-1":
            raise KilledError
        return told

    with pytest.raises(KilledError):
        tiny(SETTINGS, place=place, tell=kill)
    assert_equal(once(), tiny(SETTINGS, place=place))


def test_many_rounds_can_be_stopped_and_resumed(tiny: Tiny) -> None:
    settings = {**SETTINGS, "rounds": 40, "evaluation.every": 10, "fedgc.steps": 3}
    place = tiny.new_place()
    stops = iter((11, 12, 29))
    stop = [next(stops)]

    def kill(client: str, told: Instruction) -> Instruction:
        if told.round == stop[0]:
            raise KilledError
        return told

    for _ in range(3):
        with pytest.raises(KilledError):
            tiny(settings, place=place, tell=kill)
        stop[0] = next(stops, 0)
    run = tiny(settings, place=place)
    assert_equal(tiny(settings), run)
    scored = [row["round"] for row in run.lines("metrics") if row["val_accuracy"] is not None]
    assert scored == [10, 20, 30, 40]


@pytest.mark.parametrize("settings", [SECURE, HIDDEN], ids=["secure", "hidden"])
@pytest.mark.parametrize("rounds", [3, 5])
def test_masked_sums_lead_to_the_plain_graph(
    once: Callable[..., Tried], settings: Settings, rounds: int
) -> None:
    weights = "uniform" if settings is HIDDEN else "samples"
    plain = once(rounds=rounds, aggregation__weights=weights, fedgc__min_class_count=1)
    secure = once(rounds=rounds, fedgc__min_class_count=1, **settings)
    assert secure.error is None
    assert secure.state.keys() == plain.state.keys()
    for name, value in plain.state.items():
        if name.startswith(("condensed/", "teacher/")):
            assert torch.allclose(value.double(), secure.state[name].double(), rtol=0, atol=TOLERANCE), name
    assert torch.equal(plain.state["condensed/y"], secure.state["condensed/y"])


def test_the_server_sees_no_single_sum_under_masks(once: Callable[..., Tried]) -> None:
    secure = once(**SECURE)
    replies = secure.replies("condense")
    assert len(replies) == 9
    assert all(set(reply.content.section("update")) == set() for reply in replies)
    assert all("masked/vector" in reply.content.tensors for reply in replies)


def test_the_server_optimiser_moves_the_model_of_self_training_alone(once: Callable[..., Tried]) -> None:
    run, plain = once(aggregation__server_optimiser="momentum"), once()
    assert run.error is None
    assert run.rounds.run_state.memory
    assert not any("gradient" in name for name in run.rounds.run_state.memory)
    teacher = {name: value for name, value in run.state.items() if name.startswith("teacher/")}
    assert not all(torch.equal(value, plain.state[name]) for name, value in teacher.items())


def test_a_class_with_too_few_nodes_at_a_client_is_not_told_of(once: Callable[..., Tried]) -> None:
    free = once(fedgc__learn_from="training")
    trained = {client: sums["trained"] for client, sums in sums_of(free, 1).items()}
    nodes = {row["client"]: row["train_nodes"] for row in free.lines("clients")}
    counts = {client: (value * nodes[client]).round().long() for client, value in trained.items()}
    least = int(torch.stack(list(counts.values())).min()) + 1
    strict = once(fedgc__learn_from="training", fedgc__min_class_count=least)
    for client, sums in sums_of(strict, 1).items():
        silent = counts[client] < least
        for name, value in sums.items():
            if name.startswith("gradient/") or name == "counts":
                assert bool((value[silent] == 0).all())
                assert torch.equal(value[~silent], sums_of(free, 1)[client][name][~silent])
        assert torch.equal(sums["trained"], trained[client])
    assert any(bool((value < least).any()) for value in counts.values())


@pytest.mark.parametrize("settings", [{}, SECURE, HIDDEN], ids=["plain", "secure", "hidden"])
def test_nothing_is_released_of_classes_with_too_few_nodes(tiny: Tiny, settings: Settings) -> None:
    place = tiny.new_place()
    least = {"fedgc.min-class-count": 1000, "fedgc.confidence": 1.0}
    with pytest.raises(ConfigError, match=r"fedgc\.min-class-count = 1000 is more .*: lower"):
        tiny({**SETTINGS, **settings, **least}, place=place)
    assert not (place / "run" / FILE).exists()
    assert not list((place / "run").glob("model.*"))


def test_classes_that_no_client_may_tell_of_are_named_once(tiny: Tiny, tmp_path: Path) -> None:
    few = replace(tiny, data=tmp_path, folders={})
    for position in range(3):
        table = few.folder(position, True) / "nodes.csv"
        lines = table.read_text().splitlines()
        rare = [line for line in lines if ",c,train" in line]
        kept = [line.replace(",train", ",") if line in rare[1:] else line for line in lines]
        table.write_text("\n".join(kept) + "\n")
    run = few({**SETTINGS, "fedgc.learn-from": "training"})
    told = [note for note in run.notes.texts if "condensed nodes stay random" in note]
    assert len(told) == 1
    assert "fewer than 2 labelled nodes at one client (in all: c 3)" in told[0]


def test_clients_without_training_nodes_score_and_change_nothing(tiny: Tiny) -> None:
    run = tiny(SETTINGS, clients=4, idle=[1])
    assert run.error is None
    assert not any(row["empty"] for row in run.lines("metrics"))
    for row in run.lines("clients"):
        if row["client"] == "site-1":
            assert row["weight"] == 0
            assert math.isfinite(row["test_accuracy"])
            if row["round"] > 2:
                assert row["scores"]["test_accuracy_tuned"] == row["scores"]["test_accuracy_condensed"]
    assert all("update/counts" not in r.content.tensors for r in run.replies() if r.client == "site-1")


def test_nobody_has_training_nodes(tiny: Tiny) -> None:
    place = tiny.new_place()
    with pytest.raises(
        DataError, match="no client has a training node, so nothing is learned: give nodes a split"
    ):
        tiny(SETTINGS, idle=[0, 1, 2], place=place)
    assert not (place / "run" / FILE).exists()


def test_a_client_that_lost_its_preparation_gets_the_model_again(tiny: Tiny) -> None:
    place = tiny.new_place()

    def lose(client: str, told: Instruction) -> Instruction:
        kept = list((place / client).rglob("prepared-*.safetensors"))
        if told.round == 4 and client == "site-2":
            for path in kept:
                path.unlink()
        # In a deployment every message may find a new process, which knows nothing but what is on disk.
        for session in sessions:
            session.data._cached.clear()
        return told

    sessions: list[SiteRun] = []
    begin = SiteRun.__init__

    def noted(session: SiteRun, *rest: Any, **more: Any) -> None:
        begin(session, *rest, **more)
        sessions.append(session)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SiteRun, "__init__", noted)
        run = tiny({**SETTINGS, "exchange.retries": 0}, place=place, tell=lose)
    failed = [(row["round"], row["client"]) for row in run.lines("clients") if row["failed"]]
    assert failed[0] == (3, "site-2")
    assert {number for number, _ in failed} == {3, 4}
    told = [(one.told.round, one.client) for one in run.crossed if one.told.content.section("teacher")]
    assert told == [(3, "site-0"), (3, "site-1"), (3, "site-2"), (5, "site-2")]
    assert run.summary is not None


def test_no_condensed_node_is_a_real_one(once: Callable[..., Tried]) -> None:
    run = once()
    released = read_condensed(run.place / "run")
    real = torch.cat([session.data.graph.x for session in run.sessions])
    assert leak(released.graph.x, real).copied == 0
    assert not released.graph.copies


def test_the_released_graph_is_that_of_the_released_model(once: Callable[..., Tried]) -> None:
    run = once()
    released = read_condensed(run.place / "run" / FILE)
    card = released.card
    assert run.summary is not None
    assert card.round == run.summary.best_round
    assert card.rounds == card.round - 2
    assert card.ratio == run.rounds.config.ratio
    nodes = sum(session.data.graph.num_nodes for session in run.sessions)
    assert released.graph.num_nodes == math.ceil(0.2 * nodes)
    model = read_release(RunDirectory.open_release(run.place / "run")).parameters
    again = taught(released.graph, 3, run.rounds.config).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in model.items())
    text = (run.place / "run" / "condensed.md").read_text()
    assert "No membership audit" in text
    assert "0.2 of all clients' nodes" in text


def test_a_changed_file_is_refused(once: Callable[..., Tried], tmp_path: Path) -> None:
    content = (once().place / "run" / FILE).read_bytes()
    damaged = tmp_path / FILE
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(RunError, match="was changed"):
        read_condensed(damaged)
    damaged.write_bytes(content[:100])
    with pytest.raises(RunError, match="is no condensed graph of fedtag, or is damaged"):
        read_condensed(damaged)
    with pytest.raises(RunError, match="does not exist; name the condensed"):
        read_condensed(tmp_path / "elsewhere")


@pytest.mark.parametrize("backbone", BACKBONES.names)
def test_whoever_gets_the_graph_trains_on_it(
    once: Callable[..., Tried],
    write_feature_folder: Callable[..., Path],
    tmp_path: Path,
    backbone: str,
) -> None:
    run = once(rounds=8)
    folder = write_feature_folder(tmp_path / "newcomer", seed=9)
    command = ["train-on", str(run.place / "run" / FILE), "--backbone", backbone, "--device", "cpu"]
    alone = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "model")])
    assert alone.exit_code == 0, alone.output
    with safetensors.safe_open(tmp_path / "model" / "model.safetensors", framework="pt") as file:
        assert len(list(file.keys())) > 1
    fitted = CliRunner().invoke(app, [*command, "--data", str(folder)])
    assert fitted.exit_code == 0, fitted.output
    scores = {line.split("  ")[0]: line.split()[-1] for line in fitted.output.splitlines() if "%" in line}
    assert set(scores) == {"as trained on the graph", "fitted to the folder"}
    predicted = CliRunner().invoke(
        app,
        ["predict", str(tmp_path / "model"), str(folder), "--out", str(tmp_path / "out.parquet")],
    )
    assert predicted.exit_code == 0, predicted.output
    assert f"{scores['fitted to the folder']} of" in predicted.output


def test_train_on_refuses_what_it_cannot_use(
    once: Callable[..., Tried], text_folder: Callable[..., Path], tmp_path: Path
) -> None:
    graph = str(once().place / "run" / FILE)
    odd = CliRunner().invoke(app, ["train-on", graph, "--backbone", "transformer"])
    assert odd.exit_code == 2
    assert "model.backbone" in odd.output
    texts = text_folder(tmp_path / "texts", [f"node {n}" for n in range(8)])
    other = CliRunner().invoke(app, ["train-on", graph, "--data", str(texts)])
    assert other.exit_code == 2
    (tmp_path / "taken").touch()
    taken = CliRunner().invoke(app, ["train-on", "nowhere", "--out", str(tmp_path)])
    assert taken.exit_code == 1
    assert "is not empty and is no run directory" in taken.stderr
