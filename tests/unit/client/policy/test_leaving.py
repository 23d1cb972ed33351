from __future__ import annotations

from typing import Any

import pytest

from fedtag.client.policy.leaving import leaving
from fedtag.common.config import RunConfig
from fedtag.common.methods.spec import METHODS
from fedtag.common.parts.spec import declared_records

MASKS = {"privacy.secure-aggregation": True}
HIDDEN = {**MASKS, "privacy.hide-statistics": True, "aggregation.weights": "uniform"}
OPEN = {"scores", "sizes", "training"}


@pytest.mark.parametrize(
    ("settings", "clear", "sums", "sealed"),
    [
        ({}, {*OPEN, "update"}, set(), set()),
        (MASKS, OPEN, {"update"}, set()),
        (HIDDEN, {"trains"}, {*OPEN, "update"}, set()),
        ({"method": "fedc4"}, {*OPEN, "update", "condensation"}, set(), {"nodes", "portrait"}),
        ({"method": "da_dfgas"}, {*OPEN, "update", "statistics", "architecture"}, set(), set()),
        ({"parts": "neighbour-generator"}, {*OPEN, "update"}, set(), set()),
    ],
)
def test_settings_say_what_leaves_and_how(
    settings: dict[str, Any], clear: set[str], sums: set[str], sealed: set[str]
) -> None:
    found = leaving(RunConfig.from_flat({"method": "fedavg", **settings}))
    by_how = {how: {one.record.name for one in found if one.how == how} for how in {one.how for one in found}}
    wanted = {"in clear": clear, "in sums": sums, "sealed, to other sites": sealed}
    assert by_how == {how: names for how, names in wanted.items() if names}
    assert all((one.kind == "masked") == (one.how == "in sums") for one in found)


@pytest.mark.parametrize("method", METHODS.names)
def test_what_a_server_sends_is_no_record_that_leaves(method: str) -> None:
    config = RunConfig.from_flat({"method": method})
    found = {one.record.name for one in leaving(config)}
    assert found <= declared_records(config).keys()
    assert not found & {"model", "average", "best", "sum", "peers"}
