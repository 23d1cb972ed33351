from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fedtag.client.context.session import Session
from fedtag.client.methods.fedgc.preparation import Prepared, prepared, prepared_by
from fedtag.client.methods.fedgc.tuning import fine_tune
from fedtag.client.site.site import Site
from fedtag.client.train.classifier import fresh_backbone
from fedtag.common.config import RunConfig
from fedtag.common.errors import ProtocolError
from fedtag.common.methods.fedgc.model import initial_teacher
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.parameters import fingerprint, parameters_of
from fedtag.common.wire.records import Content, Instruction, prefixed

STEPS = 6


@pytest.fixture
def session(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Session:
    return opened(write_feature_folder(tmp_path / "site"), tmp_path)


def opened(folder: Path, place: Path, **changes: object) -> Session:
    settings = {"method": "fedgc", "model.hidden": 4, "model.dropout": 0.0, "device": "cpu"}
    settings |= {"fedgc.fine-tune-steps": STEPS, "fedgc.fine-tune-rate": 0.2, "fedgc.confidence": 0.3}
    config = RunConfig.from_flat({**settings, **changes})
    return Session(Site("site", folder, place / "work", place / "cache", "cpu"), config)


def own(session: Session) -> Prepared:
    return prepared_by(session, {})


def steps_of(session: Session, model: Backbone) -> list[tuple[float, float, dict[str, Tensor]]]:
    """Validation accuracy, minus loss and parameters after each number of steps, by a plain loop."""
    graph, found = session.graph, []
    adam = torch.optim.Adam(model.parameters(), lr=0.2, weight_decay=5e-4)
    for _ in range(STEPS + 1):
        logits = model(graph.x, session.adjacency)
        val = graph.val_mask
        accuracy = float((logits[val].argmax(1) == graph.y[val]).double().mean())
        loss = float(functional.cross_entropy(logits[val], graph.y[val]).detach())
        found.append((accuracy, -loss, parameters_of(model)))
        adam.zero_grad()
        functional.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask]).backward()
        adam.step()
    return found


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.allclose(value, other[name], atol=1e-6) for name, value in one.items())


def test_the_best_step_on_validation_nodes_stays(session: Session) -> None:
    model = fresh_backbone(session)
    fine_tune(session, model, own(session), 1)
    best = max(steps_of(session, fresh_backbone(session)), key=lambda step: step[:2])
    assert same(parameters_of(model), best[2])
    assert not same(parameters_of(model), parameters_of(fresh_backbone(session)))


def test_without_validation_nodes_the_last_step_stays(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder = write_feature_folder(tmp_path / "site")
    whole = steps_of(opened(folder, tmp_path), fresh_backbone(opened(folder, tmp_path)))
    table = folder / "nodes.csv"
    table.write_text(table.read_text().replace(",val", ","))
    session = opened(folder, tmp_path)
    model = fresh_backbone(session)
    fine_tune(session, model, own(session), 1)
    assert same(parameters_of(model), whole[-1][2])


def test_without_training_nodes_nothing_moves(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder = write_feature_folder(tmp_path / "site")
    table = folder / "nodes.csv"
    table.write_text(table.read_text().replace(",train", ","))
    session = opened(folder, tmp_path)
    model = fresh_backbone(session)
    fine_tune(session, model, own(session), 1)
    assert fingerprint(parameters_of(model)) == fingerprint(parameters_of(fresh_backbone(session)))


def instruction(session: Session, teacher: Backbone, step: int, sent: bool) -> Instruction:
    parameters = parameters_of(teacher)
    tensors = prefixed("teacher", parameters) if sent else {}
    return Instruction("run", step, step, "condense", Content(tensors, {"teacher": fingerprint(parameters)}))


def test_what_was_made_of_the_model_outlives_the_process(session: Session, tmp_path: Path) -> None:
    graph = session.graph
    teacher = initial_teacher(session.config, graph.x.shape[1], graph.num_classes)
    told = instruction(session, teacher, 1, sent=True)
    session._instruction = told
    first = prepared(session, told)
    later = opened(session.site.folder, tmp_path)
    later._instruction = instruction(session, teacher, 2, sent=False)
    again = prepared(later, later._instruction)
    assert all(torch.equal(value, vars(again)[name]) for name, value in vars(first).items())
    assert bool((first.y >= 0).equal(first.labelled))


def test_another_model_is_not_taken_for_the_one_that_came(session: Session, tmp_path: Path) -> None:
    graph = session.graph
    teacher = initial_teacher(session.config, graph.x.shape[1], graph.num_classes)
    told = instruction(session, teacher, 1, sent=True)
    session._instruction = told
    prepared(session, told)
    with torch.no_grad():
        next(teacher.parameters()).add_(1)
    other = instruction(session, teacher, 2, sent=False)
    session._instruction = other
    with pytest.raises(ProtocolError, match="has lost what it made of the self-trained model"):
        prepared(session, other)


def test_a_fingerprint_is_no_path(session: Session) -> None:
    told = Instruction("run", 1, 1, "condense", Content({}, {"teacher": "../../elsewhere"}))
    session._instruction = told
    with pytest.raises(ProtocolError, match="of the self-trained model is none"):
        prepared(session, told)
