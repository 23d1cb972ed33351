from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fedtag.client.context.run_context import RunContext
from fedtag.client.methods.fedgc.method import METHOD
from fedtag.client.methods.fedgc.preparation import Prepared, prepared, prepared_by
from fedtag.client.methods.fedgc.tuning import fine_tune
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.train.batches import WHOLE
from fedtag.common.config import RunConfig
from fedtag.common.errors import ProtocolError
from fedtag.common.methods.fedgc.model import initial_teacher
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.parameters import fingerprint, parameters_of
from fedtag.common.wire.records import Content, prefixed
from tests.exchanges import context_of

STEPS = 6


@pytest.fixture
def site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> SiteRun:
    return opened(write_feature_folder(tmp_path / "site"), tmp_path)


def opened(folder: Path, place: Path, **changes: object) -> SiteRun:
    settings = {"method": "fedgc", "model.hidden": 4, "model.dropout": 0.0, "device": "cpu"}
    settings |= {"fedgc.fine-tune-steps": STEPS, "fedgc.fine-tune-rate": 0.2, "fedgc.confidence": 0.3}
    settings |= {"fedgc.learn-from": "both"}
    config = RunConfig.from_flat({**settings, **changes})
    return SiteRun(Site("site", folder, place / "work", place / "cache", "cpu"), config)


def own(site: SiteRun) -> Prepared:
    return prepared_by({}, WHOLE, site.data, context_of(site))


def student(site: SiteRun) -> Any:
    return METHOD.student(site.data, context_of(site))


def steps_of(site: SiteRun, model: Backbone) -> list[tuple[float, float, dict[str, Tensor]]]:
    """Validation accuracy, minus loss and parameters after each number of steps, by a plain loop."""
    graph, found = site.data.graph, []
    adam = torch.optim.Adam(model.parameters(), lr=0.2, weight_decay=5e-4)
    for _ in range(STEPS + 1):
        logits = model(graph.x, site.data.adjacency)
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


def test_the_best_step_on_validation_nodes_stays(site: SiteRun) -> None:
    model = student(site)
    fine_tune(model, own(site), 1, WHOLE, site.data, context_of(site))
    best = max(steps_of(site, student(site)), key=lambda step: step[:2])
    assert same(parameters_of(model), best[2])
    assert not same(parameters_of(model), parameters_of(student(site)))


def test_without_validation_nodes_the_last_step_stays(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder = write_feature_folder(tmp_path / "site")
    whole = steps_of(opened(folder, tmp_path), student(opened(folder, tmp_path)))
    table = folder / "nodes.csv"
    table.write_text(table.read_text().replace(",val", ","))
    site = opened(folder, tmp_path)
    model = student(site)
    fine_tune(model, own(site), 1, WHOLE, site.data, context_of(site))
    assert same(parameters_of(model), whole[-1][2])


def test_without_training_nodes_nothing_moves(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder = write_feature_folder(tmp_path / "site")
    table = folder / "nodes.csv"
    table.write_text(table.read_text().replace(",train", ","))
    site = opened(folder, tmp_path)
    model = student(site)
    fine_tune(model, own(site), 1, WHOLE, site.data, context_of(site))
    assert fingerprint(parameters_of(model)) == fingerprint(parameters_of(student(site)))


def exchange(site: SiteRun, teacher: Backbone, step: int, sent: bool) -> RunContext[Any]:
    parameters = parameters_of(teacher)
    tensors = prefixed("teacher", parameters) if sent else {}
    content = Content(tensors, {"teacher": fingerprint(parameters)})
    return context_of(site, step, "condense", content)


def fresh_teacher(site: SiteRun) -> Any:
    graph = site.data.graph
    return initial_teacher(site.config, graph.x.shape[1], graph.num_classes)


def test_what_was_made_of_the_model_outlives_the_process(site: SiteRun, tmp_path: Path) -> None:
    teacher = fresh_teacher(site)
    first = prepared(WHOLE, site.data, exchange(site, teacher, 1, sent=True))
    later = opened(site.site.folder, tmp_path)
    again = prepared(WHOLE, later.data, exchange(later, teacher, 2, sent=False))
    assert all(torch.equal(value, vars(again)[name]) for name, value in vars(first).items())
    assert bool((first.y >= 0).equal(first.labelled))


def test_another_model_is_not_taken_for_the_one_that_came(site: SiteRun) -> None:
    teacher = fresh_teacher(site)
    prepared(WHOLE, site.data, exchange(site, teacher, 1, sent=True))
    with torch.no_grad():
        next(teacher.parameters()).add_(1)
    with pytest.raises(ProtocolError, match="has lost what it made of the self-trained model"):
        prepared(WHOLE, site.data, exchange(site, teacher, 2, sent=False))


def test_a_fingerprint_is_no_path(site: SiteRun) -> None:
    content = Content({}, {"teacher": "../../elsewhere"})
    with pytest.raises(ProtocolError, match="of the self-trained model is none"):
        prepared(WHOLE, site.data, context_of(site, 1, "condense", content))
