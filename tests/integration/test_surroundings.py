"""The real command where its surroundings are not what it would like: no alphabet, no home, no room, proxies."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd
import pytest

WriteFolder = Callable[..., Path]
NO_ALPHABET = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
DEAD = "127.0.0.1:9"
"""Where no proxy is."""


def fedtag(
    place: Path, *arguments: object, environment: Mapping[str, str], largest: int | None = None
) -> subprocess.CompletedProcess[str]:
    """The command in a folder; `largest` are the bytes that a file may have, as on a disk that is nearly full."""

    def limited() -> None:
        if largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    return subprocess.run(
        [str(Path(sys.executable).with_name("fedtag")), *map(str, arguments)],
        cwd=place,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
        preexec_fn=limited,
    )


def test_paths_names_and_texts_of_any_alphabet_under_the_c_locale(
    tmp_path: Path, write_feature_folder: WriteFolder
) -> None:
    place = tmp_path / "Prüfung ß"
    folder = write_feature_folder(place / "дом" / "Klinik Süd", nodes=24)
    meta = json.loads((folder / "meta.json").read_text())
    meta.update(name="Klinik Süd", classes=["ä", "b", "δ"])
    (folder / "meta.json").write_text(json.dumps(meta, ensure_ascii=False), encoding="utf-8")
    nodes = pd.read_csv(folder / "nodes.csv")
    nodes.assign(label=nodes["label"].replace({"a": "ä", "c": "δ"})).to_csv(folder / "nodes.csv", index=False)
    books = "id;title;fach\n" + "".join(f"{node};Über {node};{'äö'[node % 2]}\n" for node in range(10))
    (place / "Bücher.csv").write_text(books, encoding="utf-8")
    environment = {**NO_ALPHABET, "FEDTAG_CACHE": str(place / "Zwischenspeicher ü")}

    checked = fedtag(place, "validate", "дом/Klinik Süd", environment=environment)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "name      Klinik Süd" in checked.stdout
    assert "дом/Klinik Süd keeps the contract" in checked.stdout
    imported = fedtag(
        place,
        "import",
        "Bücher.csv",
        "--out",
        "Büchergraph",
        "--edges-from",
        "fach",
        "--label",
        "fach",
        environment=environment,
    )
    assert imported.returncode == 0, imported.stderr
    assert json.loads((place / "Büchergraph" / "meta.json").read_text(encoding="utf-8"))["classes"] == [
        "ä",
        "ö",
    ]
    options = ("--method", "fedavg", "--data", "дом/Klinik Süd", "--clients", 1, "--rounds", 1)
    ran = fedtag(place, "simulate", *options, "--out", "läufe/первый", environment=environment)
    assert ran.returncode == 0, ran.stderr
    assert "Klinik Süd: 24 nodes" in ran.stderr
    assert "läufe/первый" in ran.stdout
    card = (place / "läufe" / "первый" / "README.md").read_text(encoding="utf-8")
    assert "0. ä\n1. b\n2. δ\n" in card
    missing = fedtag(place, "validate", "дом/nirgends ß", environment=environment)
    assert missing.returncode == 2
    assert "дом/nirgends ß" in missing.stderr


def test_a_home_that_cannot_be_written_is_named_with_the_variable(
    tmp_path: Path, write_feature_folder: WriteFolder
) -> None:
    folder = write_feature_folder(tmp_path / "texts", nodes=12)
    (folder / "features.npy").unlink()
    # Also the superuser cannot make a folder below a file.
    (tmp_path / "home").write_text("a file")
    cache = tmp_path / "home" / ".cache" / "fedtag"
    environment = {"HOME": str(tmp_path / "home"), "FEDTAG_CACHE": "", "FEDTAG_HOME": ""}
    options = ("simulate", "--method", "fedavg", "--data", folder, "--clients", 1, "--rounds", 1)
    stuck = fedtag(tmp_path, *options, "--out", "run", environment=environment)
    assert stuck.returncode == 1
    assert (
        f"the folder of the text cache {cache / 'texts.sqlite'} cannot be made (Not a directory)"
        in stuck.stderr
    )
    assert "set FEDTAG_CACHE to another folder" in stuck.stderr
    assert "Traceback" not in stuck.stderr


def test_a_disk_without_room_is_named_with_the_place(
    tmp_path: Path, write_feature_folder: WriteFolder
) -> None:
    folder = write_feature_folder(tmp_path / "site", nodes=24)
    options = ("simulate", "--method", "fedavg", "--data", folder, "--clients", 1, "--rounds", 1)
    full = fedtag(tmp_path, *options, "--out", "run", environment={}, largest=512)
    assert full.returncode == 1
    assert "File too large; check the path, its permissions and the disk" in full.stderr
    assert str(tmp_path) in full.stderr
    assert "Traceback" not in full.stderr
    assert not (tmp_path / "run").exists()
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".fedtag")] == []


@pytest.mark.slow
def test_no_proxy_stands_before_loopback(tmp_path: Path, write_feature_folder: WriteFolder) -> None:
    folder = write_feature_folder(tmp_path / "site", nodes=24)
    variables = {
        **dict.fromkeys(("all_proxy", "ALL_PROXY"), f"socks5://{DEAD}"),
        **dict.fromkeys(
            ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "grpc_proxy"), f"http://{DEAD}"
        ),
        "no_grpc_proxy": "example.org",
        "NO_PROXY": "example.net",
    }
    options = ("--method", "fedavg", "--data", folder, "--clients", 1, "--rounds", 1, "--out", "run")
    ran = fedtag(tmp_path, "up", *options, environment=variables)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "run" / "model.safetensors").is_file()
