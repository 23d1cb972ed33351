from __future__ import annotations

import pytest

from fedtag.client.worker.settings import WorkerSettings, worker_settings
from fedtag.common.errors import ConfigError


@pytest.mark.parametrize(
    ("node", "settings"),
    [
        ({}, WorkerSettings(True, 600.0)),
        ({"worker": "on", "worker-idle": 5}, WorkerSettings(True, 5.0, 20.0)),
        ({"worker-patience": "0.5"}, WorkerSettings(True, 600.0, 0.5)),
        ({"worker": "off", "worker-idle": "0.5"}, WorkerSettings(False, 0.5)),
        ({"worker": False}, WorkerSettings(False, 600.0)),
        ({"worker": True}, WorkerSettings(True, 600.0)),
    ],
)
def test_settings_of_a_site(node: dict[str, object], settings: WorkerSettings) -> None:
    assert worker_settings(node) == settings


@pytest.mark.parametrize("value", ["no", "", 2, None])
def test_other_choices_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="neither 'on' nor 'off'"):
        worker_settings({"worker": value})


@pytest.mark.parametrize("name", ["worker-idle", "worker-patience"])
@pytest.mark.parametrize("value", [0, -1, "soon", "nan", "inf", True])
def test_a_time_must_be_seconds(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{name} .* is not a number of seconds above 0"):
        worker_settings({name: value})
