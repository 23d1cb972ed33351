from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from fedtag.client.context.session import Session
from fedtag.client.site.site import Site
from fedtag.client.train.classifier import fresh_backbone, local_examples, score_backbone, train_backbone
from fedtag.client.train.examples import Examples
from fedtag.common.config import RunConfig
from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.parameters import fingerprint, parameters_of
from fedtag.common.synthetic.condensed import Condensed

Open = Callable[..., Session]


@pytest.fixture
def open_session(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Open:
    folder = write_feature_folder(tmp_path / "site")

    def build(name: str = "site", **changes: Any) -> Session:
        config = RunConfig.from_flat({"method": "fedavg", "model.hidden": 8, **changes})
        return Session(Site(name, folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)

    return build


def trained(session: Session, round_number: int = 1) -> str:
    model = fresh_backbone(session)
    train_backbone(session, model, local_examples(session), round_number)
    return fingerprint(parameters_of(model))


def test_training_without_dropout_is_a_plain_loop(open_session: Open) -> None:
    session = open_session(**{"model.dropout": 0.0, "train.epochs": 4, "train.learning-rate": 0.05})
    model, plain = fresh_backbone(session), fresh_backbone(session)
    told = train_backbone(session, model, local_examples(session), 1)
    graph = session.graph
    stepper = torch.optim.Adam(plain.parameters(), lr=0.05, weight_decay=5e-4)
    for _ in range(4):
        stepper.zero_grad()
        logits = plain(graph.x, graph.adjacency())
        loss = functional.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask])
        loss.backward()
        stepper.step()
    assert told is not None
    assert told.loss == pytest.approx(loss.item(), rel=1e-5)
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_dropout_depends_on_seed_round_and_client_only(open_session: Open) -> None:
    assert trained(open_session()) == trained(open_session())
    distinct = {
        trained(open_session()),
        trained(open_session(), 2),
        trained(open_session("other")),
        trained(open_session(seed=1)),
    }
    assert len(distinct) == 4


def test_scores_are_those_of_the_model_without_dropout(open_session: Open) -> None:
    session = open_session()
    model = fresh_backbone(session)
    train_backbone(session, model, local_examples(session), 1)
    told = score_backbone(session, model, "graph")
    graph = session.graph
    predicted = model(graph.x, graph.adjacency()).argmax(1)
    right = int((predicted == graph.y)[graph.test_mask].sum())
    assert int(told["graph/test/confusion"].trace()) == right
    assert not any(value.requires_grad for value in told.values())


def test_training_learns(open_session: Open) -> None:
    session = open_session(**{"train.epochs": 30})
    model = fresh_backbone(session)
    told = train_backbone(session, model, local_examples(session), 1)
    assert told is not None
    assert told.loss < 0.7


def test_examples_decide_what_is_learned(open_session: Open) -> None:
    session = open_session(**{"model.dropout": 0.0})
    graph = session.graph
    nodes = graph.train_mask.nonzero().squeeze(1)
    condensed = Condensed.without_links(graph.x[nodes], graph.y[nodes], copies=True)
    model, plain = fresh_backbone(session), fresh_backbone(session)
    told = train_backbone(session, model, Examples.of_condensed(condensed), 1)
    alone = normalised_adjacency(graph.edge_index[:, :0], nodes.numel())
    stepper = torch.optim.Adam(plain.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(session.config.train.epochs):
        stepper.zero_grad()
        loss = functional.cross_entropy(plain(graph.x[nodes], alone), graph.y[nodes])
        loss.backward()
        stepper.step()
    assert told is not None
    assert told.loss == pytest.approx(loss.item(), rel=1e-5)
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_nothing_is_learned_from_an_empty_condensed_graph(open_session: Open) -> None:
    session = open_session()
    empty = Condensed.without_links(session.graph.x[:0], session.graph.y[:0], copies=False)
    assert train_backbone(session, fresh_backbone(session), Examples.of_condensed(empty), 1) is None
