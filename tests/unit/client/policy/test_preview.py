from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedtag.client.policy.leaving import leaving
from fedtag.client.policy.preview import parameters, preview, waiting_line
from fedtag.client.policy.requests import Request, request_of
from fedtag.client.policy.rules import Policy
from fedtag.client.policy.spending import Spent, write_spent
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.errors import ConfigError
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.spec import BACKBONES

FLAT: dict[str, Any] = {"method": "fedavg", "rounds": 10, "clients": 5, "aggregation.weights": "uniform"}


@pytest.fixture
def folder(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Path:
    return write_feature_folder(tmp_path / "data", nodes=12)


def asked(folder: Path, **settings: Any) -> Request:
    config = RunConfig.from_flat(without_foreign({**FLAT, **settings}))
    return request_of("run-1", config, leaving(config), Site("site", folder, folder, folder / "cache"))


def told(request: Request, place: Path, **rules: Any) -> str:
    return "\n".join(preview(request, Policy.model_validate({"folder": str(place), **rules})))


@pytest.mark.parametrize("name", BACKBONES.names)
def test_parameters_are_those_of_the_model_that_a_site_trains(folder: Path, name: str) -> None:
    config = RunConfig.from_flat({**FLAT, "model.backbone": name})
    model = initial_backbone(config, 8, 3)
    assert parameters(config, folder) == sum(value.numel() for value in model.state_dict().values())


def test_where_the_folder_says_too_little_only_the_bound_is_told(folder: Path, tmp_path: Path) -> None:
    (folder / "features.npy").unlink()
    request = asked(folder, **{"text.encoder": "some/encoder", "exchange.max-message-mb": 7.0})
    shown = told(request, tmp_path)
    assert "parameters of the backbone" not in shown
    assert "at most 7 MiB a message" in shown
    assert "384" not in shown
    bundled = parameters(RunConfig.from_flat(FLAT), folder)
    assert bundled is not None
    assert bundled > 384 * 64


def test_of_a_run_that_extends_another_the_new_rounds_and_what_changes_are_shown(
    folder: Path, tmp_path: Path
) -> None:
    parent = {"parent.run": "first", "parent.rounds": 6, "train.schedule": "cosine"}
    noise = {"privacy.dp.mode": "central", "privacy.dp.noise": 4.0}
    shown = told(asked(folder, **parent, **noise), tmp_path)
    assert "It extends run first, which has done 6 rounds, by 4" in shown
    assert "step sizes of rounds 1 to 6 followed a schedule over fewer rounds" in shown
    assert "for 4 sums" in shown
    assert "for 10 sums" in told(asked(folder, **noise), tmp_path)


def test_masked_vectors_are_twice_as_large(folder: Path, tmp_path: Path) -> None:
    clear, masked = (
        told(asked(folder), tmp_path),
        told(asked(folder, **{"privacy.secure-aggregation": True}), tmp_path),
    )
    assert "in clear: update" in clear
    assert "4 bytes each" in clear
    assert "in sums: update" in masked
    assert "8 bytes each" in masked


def test_what_a_run_costs_stands_beside_what_was_spent(folder: Path, tmp_path: Path) -> None:
    noisy = {"privacy.dp.mode": "central", "privacy.dp.noise": 4.0}
    one, both = Spent(noise=10 / 16), Spent(noise=10 / 16 + 0.5)
    write_spent(tmp_path, {"before": Spent(1, 1, 1, 0.5)})
    shown = told(asked(folder, **noisy), tmp_path, budget={"epsilon": 9})
    assert f"ε = {one.epsilon(1e-5):.3g} at δ = 1e-05 for 10 sums with noise 4" in shown
    assert f"spent by earlier runs: ε = {Spent(noise=0.5).epsilon(1e-5):.3g} of 9" in shown
    assert f"with this run: ε = {both.epsilon(1e-5):.3g} of 9" in shown
    assert "no rule refuses it" in shown
    strict = told(asked(folder, **noisy), tmp_path, budget={"epsilon": 4})
    assert "rule 'budget.epsilon' refuses it" in strict
    assert "rule 'budget.epsilon' refuses it: this run adds no noise" in told(
        asked(folder), tmp_path, budget={"epsilon": 4}
    )


def test_only_what_is_not_usual_for_the_method_is_listed(folder: Path, tmp_path: Path) -> None:
    shown = told(asked(folder, **{"train.epochs": 7, "privacy.secure-aggregation": True}), tmp_path)
    (line,) = [line for line in shown.splitlines() if line.startswith("Settings that are not")]
    assert line.split(": ")[1].split(", ") == [
        "rounds = 10",
        "train.epochs = 7",
        "aggregation.weights = uniform",
        "privacy.secure-aggregation = True",
    ]


FORGED = "csv:/x\nWhat would leave\n  nothing\u202e"


def test_a_setting_writes_no_line_of_the_preview(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"data.source = 'csv:/x\\nWhat .*: must hold no control character"):
        asked(folder, **{"data.source": FORGED})
    # Were such a setting let in, it would stay on its line all the same.
    monkeypatch.setattr("fedtag.common.settings.sections.CONTROL", re.compile("(?!)"))
    request = asked(folder, **{"data.source": FORGED, "text.encoder": "x" * 5000})
    lines = told(request, tmp_path).split("\n")
    assert lines.count("What would leave") == 1
    assert "  nothing" not in lines
    assert "\u202e" not in "".join(lines)
    assert max(map(len, lines)) < 1000
    listed = replace(request, settings={"method": FORGED})
    assert "\n" not in waiting_line(listed)
    # With neither defence the forged section stands before the true one.
    monkeypatch.setattr("fedtag.client.policy.preview.visible_line", str)
    assert told(request, tmp_path).split("\n").count("What would leave") == 2
    assert "\n" in waiting_line(listed)
