from __future__ import annotations

import io
import tomllib
import zipfile
from pathlib import Path

import pytest
from flwr.cli.build import build_fab_from_disk
from typer.testing import CliRunner

from fedtag.common.config import RunConfig, flatten, run_defaults
from fedtag.common.errors import DeploymentError
from fedtag.common.wire.protocol import app_versions
from fedtag.deploy.cli import app
from fedtag.deploy.federation.bundle import write_app


def written(given: dict[str, object]) -> dict[str, object]:
    """What an app says of a run: the versions, and the settings of what that run is made of."""
    return {**app_versions(), **run_defaults(RunConfig.from_flat(given).specs), **given}


def config_of(folder: Path) -> dict[str, object]:
    """The run configuration of an app by dotted keys."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    return flatten(project["tool"]["flwr"]["app"]["config"])


def test_bundle_holds_settings_and_no_code(tmp_path: Path) -> None:
    bundle = build_fab_from_disk(write_app(tmp_path / "app"))
    content = bundle[0] if isinstance(bundle, tuple) else bundle
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert {name.partition("/")[0] for name in names} == {"pyproject.toml", ".info"}
    assert config_of(tmp_path / "app") == written({})


def test_an_app_takes_the_place_of_an_earlier_one_and_of_nothing_else(tmp_path: Path) -> None:
    folder = write_app(tmp_path / "app", {"rounds": 3})
    assert config_of(write_app(folder, {"rounds": 4}))["rounds"] == 4
    (folder / "notes.txt").touch()
    with pytest.raises(DeploymentError, match="holds other files than an app's: name a new folder"):
        write_app(folder)
    assert config_of(folder)["rounds"] == 4
    for name, text in (("own", "[project]\nname = 'own'\n"), ("no toml", "="), ("other", "tool = 3\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text(text, encoding="utf-8")
        with pytest.raises(DeploymentError, match="holds other files"):
            write_app(tmp_path / name)
    with pytest.raises(DeploymentError, match="cannot be written"):
        write_app(folder / "notes.txt")


def test_the_command_writes_the_settings_that_were_given(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("rounds = 7\n[train]\nepochs = 2\n", encoding="utf-8")
    arguments = ["--method", "fedavg", "--clients", "3", "--config", str(file), "--set", "train.prox-mu=1"]
    result = CliRunner().invoke(app, ["bundle", str(tmp_path / "app"), *arguments, "--out", "run"])
    assert result.exit_code == 0, result.stderr
    assert f"flwr run {tmp_path / 'app'}" in result.stdout.replace("\n", "")
    given = {
        "method": "fedavg",
        "clients": 3,
        "rounds": 7,
        "out": "run",
        # Institutions have their own.
        "data.source": "",
        "train.epochs": 2,
        "train.prox-mu": 1.0,
    }
    found = config_of(tmp_path / "app")
    assert found == written(given)
    # What is left to the method stays so, as in any settings that people write.
    assert found["train.learning-rate"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "train.epoch=3"], "did you mean 'train.epochs'?"),
        (["--method", "nothing"], "method = 'nothing': no method is called so"),
        (["--set", "resume=true"], "resume is set by the command"),
        (
            ["--out", "/srv/run"],
            "out = /srv/run is a place on this machine, and settings go to every institution",
        ),
        (
            ["--set", "text.encoder=/srv/e5"],
            "let each site's --node-config say under `models` where that lies",
        ),
        (["--set", "text.encoder=~/e5"], "text.encoder = ~/e5 is a place on this machine"),
        (["--set", "summaries.model=/srv/lm"], "summaries.model = /srv/lm is a place on this machine"),
        (["--data", "site-a;/srv/graph"], "leave it out, since sites name their data in --node-config"),
    ],
)
def test_wrong_settings_write_nothing(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, ["bundle", str(tmp_path / "app"), *arguments])
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not (tmp_path / "app").exists()
