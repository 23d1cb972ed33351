"""Every built-in backbone under every method that trains one, on condensed graphs with weights, and in batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedtag.common.methods.spec import METHODS
from fedtag.common.models.spec import BACKBONES
from fedtag.common.settings.registry import FEDTAG
from fedtag.testing.checks import prediction, rows
from fedtag.testing.subject import Subject
from tests.contract.subjects import settings_of

BUILT_IN = [name for name in BACKBONES.names if BACKBONES.origin(name).package == FEDTAG]
UNDER: list[dict[str, Any]] = [
    *(
        {"method": name}
        for name, spec in METHODS.usable().items()
        if spec.traits.backbone and spec.traits.sums and METHODS.origin(name).package == FEDTAG
    ),
    {"method": "fedavg", "condenser.name": "gcond"},
    {"method": "fedavg", "train.batch-size": 3, "train.fan-out": 0},
]


@pytest.mark.parametrize("backbone", BUILT_IN)
@pytest.mark.parametrize("further", UNDER, ids=lambda further: ", ".join(map(str, further.values())))
def test_it_trains_and_predicts(further: dict[str, Any], backbone: str, tmp_path: Path) -> None:
    if further.get("train.fan-out") == 0 and not BACKBONES.get(backbone).sums:
        further = {**further, "train.fan-out": 2}
    subject = Subject(f"backbone {backbone}", settings_of(BACKBONES, backbone, further), tmp_path)
    rows.no_number_is_infinite(subject)
    prediction.predictions_score_as_the_run_did(subject)
