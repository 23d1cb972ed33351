from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from fedtag.common.config import RunConfig, default_settings, run_defaults
from fedtag.common.config.catalogue import installed_tables
from fedtag.common.errors import ConfigError
from fedtag.deploy.federation.bundle import app_table
from fedtag.runs.settings import gather, given_settings

REPOSITORY = Path(__file__).resolve().parents[4]


def test_pyproject_repeats_the_app_table() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["flwr"]["app"] == app_table({}), "call make settings"


def test_the_table_is_of_the_default_run() -> None:
    flat, known = run_defaults(RunConfig().specs), default_settings()
    assert flat == {key: value for key, value in known.items() if key in flat}
    assert {key.partition(".")[0] for key in known.keys() - flat.keys()} == {
        name for name in installed_tables() if name not in RunConfig().tables
    }
    assert {key: type(value) for key, value in flat.items()} == {key: type(known[key]) for key in flat}


def test_given_settings_are_those_alone_in_the_types_of_their_defaults(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("rounds = 7\n[train]\nepochs = 2\n")
    given = given_settings(file, {"method": "da_dfgas"}, ["train.prox-mu=1", "rounds=3"])
    assert given == {"rounds": 3, "train.epochs": 2, "method": "da_dfgas", "train.prox-mu": 1.0}
    assert type(given["train.prox-mu"]) is float


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('rounds = 7\nseed = 7\nclients = 7\n"train.epochs" = 7\n[data]\noverlap = 0.7\n')
    config = gather(file, {"seed": 8, "clients": 8, "ratio": None}, ["clients=9"])
    assert (config.rounds, config.seed, config.clients) == (7, 8, 9)
    assert (config.train.epochs, config.data.overlap, config.ratio) == (7, 0.7, 0.08)


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[train]\nepoch = 3\n")
    options = {"method": "nothing", "ratio": 2.0, "data.split": "0.5"}
    with pytest.raises(ConfigError) as caught:
        gather(file, options, ["rounds=x", "resume=true", "nonsense"])
    sentences = str(caught.value).splitlines()
    assert len(sentences) == 7
    for part in (
        "unknown setting 'train.epoch': did you mean 'train.epochs'?",
        "ratio = 2.0: input should be less than or equal to 1",
        "method = 'nothing': no method is called so; use one of centralised,",
        "split is '0.5'; write given, or three fractions",
        "rounds=x: write a whole number",
        "resume is set by the command; use resume=",
        "nonsense: write key=value",
    ):
        assert part in str(caught.value)


def test_settings_of_an_earlier_run_do_not_name_its_folder(tmp_path: Path) -> None:
    own = {"out": str(tmp_path), "resume": True, "data.sites": str(tmp_path / "sites")}
    config = RunConfig.from_flat({"rounds": 3, **own})
    lines = [
        f'out = "{config.out}"',
        "resume = true",
        "rounds = 3",
        "[data]",
        f'sites = "{config.data.sites}"',
    ]
    (tmp_path / "config.toml").write_text("\n".join(lines))
    again = gather(tmp_path / "config.toml", {}, [])
    assert (again.out, again.resume, again.data.sites, again.rounds) == ("", False, "", 3)
    elsewhere = tmp_path / "copy"
    elsewhere.mkdir()
    (elsewhere / "mine.toml").write_text('out = "runs/mine"')
    assert gather(elsewhere / "mine.toml", {}, []).out == "runs/mine"


@pytest.mark.parametrize(
    ("text", "match"), [(None, "missing.toml: No such file"), ("rounds =", "missing.toml is not TOML")]
)
def test_unusable_file(tmp_path: Path, text: str | None, match: str) -> None:
    file = tmp_path / "missing.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=match):
        gather(file, {}, [])
