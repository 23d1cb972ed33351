from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from fedtag.client.policy.rules import Hours, allowed_at, read_policy
from fedtag.common.errors import ConfigError


def policy(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("methds = []", "unknown key 'methds': did you mean 'methods'?"),
        ("zzz = 1", "unknown key 'zzz': use approval, budget, folder, hours"),
        ("path = 'x'", "unknown key 'path'"),
        ("budget.epsilonn = 3", "unknown key 'budget.epsilonn': did you mean 'epsilon'?"),
        (
            "[settings]\n'privacy.dp.noise' = {mni = 1}",
            "'settings.privacy.dp.noise.mni': did you mean 'min'?",
        ),
        (
            "[settings]\nprivacy.dp.nois = {min = 1}",
            "unknown setting 'privacy.dp.nois': did you mean 'privacy.dp.noise'?",
        ),
        ("[settings]\nmethod = {min = 1}", "settings.method has min or max, but is no number: use one-of"),
        ("[settings]\nrounds = {one-of = ['a']}", "settings.rounds has 'a' in one-of, but is a number"),
        ("[settings]\nprivacy.secure-aggregation = {one-of = [1]}", "has 1 in one-of, but is true or false"),
        ("[settings]\nrounds = {}", "settings.rounds says nothing: give min, max or one-of"),
        ("[settings]\nrounds = {min = 3, max = 2}", "settings.rounds min = 3 is above max = 2"),
        ("[settings]\nrounds = 5", "settings.rounds = 5: must be a table"),
        ("settings = 5", "settings = 5: must be a table"),
        ("methods = ['danec']", "methods names 'danec', which is no method here: did you mean 'dance'?"),
        ("methods = 'dance'", "methods = 'dance': must be a list"),
        ("parts = ['neighbour-generatr']", "did you mean 'neighbour-generator'?"),
        ("records = ['updat']", "records names 'updat', which is no record here: did you mean 'update'?"),
        ("records = ['model']", "records names 'model', which is no record here"),
        ("approval = 'yes'", "approval = 'yes': input should be 'off', 'first' or 'every'"),
        ("approval = 'first'", "name in folder where that is kept"),
        ("budget.mb = 1", "name in folder where that is kept"),
        ("limits.run-mb = 1", "name in folder where that is kept"),
        (
            "folder = 'nowhere'",
            "is not there: mount it or correct folder; at the very first start, make it by hand",
        ),
        ("folder = '.'\nbudget.epsilon = -1", "budget.epsilon = -1: input should be greater than 0"),
        ("limits.exchange-mb = '5'", "limits.exchange-mb = '5': input should be a valid number"),
        ("participants = 0", "participants = 0: input should be greater than or equal to 1"),
        ("[hours]\ntimezone = 'Europe/Berln'\nspans = ['01:00-02:00']", "hours.timezone is no time zone"),
        (
            "[hours]\ntimezone = 'UTC'\nspans = ['20:00']",
            "hours.spans holds '20:00': write spans such as 20:00-06:00",
        ),
        ("[hours]\ntimezone = 'UTC'\nspans = ['20:00-20:00']", "no time or all of it"),
        ("[hours]\nspans = ['20:00-21:00']", "hours.timezone = "),
        ("methods", "is no TOML"),
    ],
)
def test_a_file_that_means_nothing_is_refused_in_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = policy(tmp_path, text)
    with pytest.raises(ConfigError) as refusal:
        read_policy(path)
    assert sentence in str(refusal.value)
    assert str(refusal.value).startswith(f"policy {path}")
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_not_there_is_no_policy_that_allows_everything(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory; correct policy in --node-config"):
        read_policy(tmp_path / "policy.toml")


def test_settings_may_be_written_with_and_without_quotation_marks(tmp_path: Path) -> None:
    bare = read_policy(policy(tmp_path, "[settings]\nprivacy.dp.noise = {min = 1}\nrounds = {max = 3}"))
    quoted = read_policy(policy(tmp_path, "[settings]\n'privacy.dp.noise' = {min = 1}\n'rounds' = {max = 3}"))
    assert bare.settings == quoted.settings
    assert set(bare.settings) == {"privacy.dp.noise", "rounds"}


def test_an_empty_file_allows_everything_and_keeps_nothing(tmp_path: Path) -> None:
    empty = read_policy(policy(tmp_path, ""))
    assert not empty.keeps
    assert empty.place is None


@pytest.mark.parametrize(
    ("moment", "allowed"),
    [
        ("2026-01-10 19:59", False),
        ("2026-01-10 20:00", True),
        ("2026-01-11 00:00", True),
        ("2026-01-11 05:59", True),
        ("2026-01-11 06:00", False),
        ("2026-01-11 12:30", True),
        ("2026-01-11 13:00", False),
        # In summer the clock on the wall is another hour ahead.
        ("2026-07-10 20:00", True),
    ],
)
def test_hours_are_those_of_the_clock_on_the_wall(moment: str, allowed: bool) -> None:
    zone = ZoneInfo("Europe/Berlin")
    hours = Hours(timezone="Europe/Berlin", spans=("20:00-06:00", "12:00-13:00"))
    there = datetime.fromisoformat(moment).replace(tzinfo=zone)
    assert allowed_at(hours, there.astimezone(ZoneInfo("America/New_York"))) is allowed
