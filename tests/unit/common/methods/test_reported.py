"""What the records of the base and of methods let through."""

from __future__ import annotations

from typing import Any

import pytest

from fedtag.common.errors import WireError
from fedtag.common.methods.base import BASE_RECORDS
from fedtag.common.methods.da_dfgas.spec import SPEC
from fedtag.common.methods.records import by_name
from fedtag.common.models.supernet.architecture import FALLBACK, Architecture
from fedtag.common.parts.neighbour_exchange.spec import SPEC as EXCHANGE

RECORDS = by_name((*BASE_RECORDS, *SPEC.records, *EXCHANGE.records))
SIZES = {"nodes": 10, "train_nodes": 4, "val_nodes": 2, "test_nodes": 3}
CELLS = Architecture((FALLBACK,)).as_json()["cells"]
COUNTS = {"boundary": 3, "added": 1, "small": 1, "missing": 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sizes", SIZES),
        *(("training", {"loss": 0.5, "steps": 3, "normaliser": a, "more": 1}) for a in (0, 2.5, 1e9)),
        ("training", {"loss": 1, "steps": 0}),
        ("seconds", {"train": 0.25, "score": 0}),
        ("seconds", {}),
        ("condensation", {"core": 2, "nodes": 10, "copied": 0, "close": 1.0}),
        *(("condensation", {"core": 2, "nodes": 10, "approximate": one}) for one in (True, False)),
        ("shown", {"nodes": {"peer": 3}}),
        ("tokens", {"llm": 3}),
        ("unread", []),
        ("unopened", ["site B"]),
        ("trains", True),
        ("initial", "00ff"),
        ("architecture", {"cells": CELLS, "parameters": 7}),
        ("neighbours", COUNTS),
        ("parts", [["site A", "00", 2, 16]]),
    ],
)
def test_what_honest_clients_report_passes(name: str, value: Any) -> None:
    RECORDS[name].check(value)


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        *(("sizes", value, "sizes: ") for value in (None, [], {}, 5)),
        ("sizes", {**SIZES, "nodes": True}, "sizes: nodes: "),
        ("sizes", {**SIZES, "train_nodes": -1}, "sizes: train_nodes: "),
        ("sizes", {**SIZES, "train_nodes": 4.0}, "sizes: train_nodes: "),
        ("sizes", {**SIZES, "nodes": 10**13}, "sizes: nodes: "),
        ("sizes", {**SIZES, "test_nodes": None}, "sizes: test_nodes: "),
        ("sizes", {**SIZES, "nodes": 8}, "sizes: names more training, validation and test nodes than nodes"),
        ("training", 5, "training: "),
        ("training", None, "training: "),
        ("training", {}, "training: loss: "),
        *(("training", {"loss": loss, "steps": 1}, "training: loss: ") for loss in (float("nan"), True)),
        *(("training", {"loss": 1.0, "steps": steps}, "training: steps: ") for steps in (1.0, -1)),
        *(
            ("training", {"loss": 1.0, "steps": 1, "normaliser": a}, "training: normaliser: ")
            for a in (None, "1", True, -0.1, 1.1e9, float("inf"), float("nan"), 10**400)
        ),
        ("seconds", [1], "seconds: "),
        *(
            ("seconds", {"a": value}, "seconds: a: ")
            for value in (-1, True, float("inf"), float("nan"), 10**300)
        ),
        ("seconds", {str(k): 1 for k in range(65)}, "seconds: "),
        ("shown", 3, "shown: "),
        ("shown", {"nodes": [1]}, "shown: nodes: "),
        *(("shown", {"nodes": {"peer": count}}, "shown: nodes.peer: ") for count in (-1, "many")),
        ("condensation", 3, "condensation: "),
        ("condensation", {"core": 2, "nodes": 9, "copied": 1.5}, "condensation: copied: "),
        ("condensation", {"core": 2, "nodes": 9, "close": "all"}, "condensation: close: "),
        ("condensation", {"core": 2, "nodes": 9, "approximate": 1}, "condensation: approximate: "),
        ("condensation", {"core": 2}, "condensation: nodes: "),
        ("condensation", {"core": 11, "nodes": 10}, "condensation: names more condensed nodes than nodes"),
        ("condensation", {"core": True, "nodes": 10}, "condensation: core: "),
        *(("tokens", value, "tokens: ") for value in ([1], None)),
        ("unread", 3, "unread: "),
        ("trains", 1, "trains: "),
        ("architecture", {"cells": CELLS}, "architecture: parameters: "),
        ("architecture", {"cells": CELLS, "parameters": -1}, "architecture: parameters: "),
        ("architecture", {"cells": CELLS, "parameters": 7, "texts": []}, "architecture: texts: "),
        ("architecture", {"cells": [{}], "parameters": 7}, "architecture: cells: a cell of an architecture"),
        ("neighbours", {**COUNTS, "added": -1}, "neighbours: added: "),
        ("neighbours", {**COUNTS, "more": 1}, "neighbours: more: "),
        ("parts", [[1.5]], "parts: "),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_its_place(name: str, value: Any, place: str) -> None:
    with pytest.raises(WireError) as refused:
        RECORDS[name].check(value)
    assert str(refused.value).startswith(place)


@pytest.mark.parametrize("name", ["best", "sum", "peers", "masked", "longer"])
def test_what_only_the_server_sends_is_no_value_of_a_client(name: str) -> None:
    with pytest.raises(WireError, match=f"'{name}' is no value that clients send"):
        RECORDS[name].check({})
