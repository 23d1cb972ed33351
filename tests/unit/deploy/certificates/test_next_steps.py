from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

from flwr.common.config import parse_config_args

from fedtag.deploy.certificates.folder import issue, renew
from fedtag.deploy.certificates.next_steps import connection_settings, next_steps, node_settings
from tests.unit.deploy.serving_options import serving_options

REPOSITORY = Path(__file__).resolve().parents[4]
NAMES = ["hospital-a", "hospital b"]


def commands(text: str, program: str) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith(program + " ")]


def test_the_commands_are_understood(tmp_path: Path) -> None:
    text = next_steps(issue(tmp_path / "keys", ["2001:db8::7"], NAMES, 90, 90), renewed=False)
    (server,) = commands(text, "fedtag serve link")
    options = serving_options("link", server[2:])
    assert (options["port"], options["keys"], options["insecure"]) == (8000, "/etc/fedtag", False)
    nodes = [serving_options("site", words[2:]) for words in commands(text, "fedtag serve site")]
    assert {node["config"] for node in nodes} == {"/etc/fedtag/node.toml"}
    for place, name in enumerate(NAMES):
        file = tmp_path / f"node-{place}.toml"
        file.write_text(node_settings(name), encoding="utf-8")
        assert node_settings(name) in text
        assert parse_config_args([str(file)])["name"] == name
    assert {node["superlink"] for node in nodes} == {"[2001:db8::7]:9092"}
    assert not any(node["insecure"] for node in nodes)
    registered = commands(text, "flwr")
    assert [words[2] for words in registered] == [f"/etc/fedtag/institutions/{name}.pub" for name in NAMES]


def test_places_exist_in_the_folders_that_go_away(tmp_path: Path) -> None:
    made = issue(tmp_path / "keys", ["fl.example.org"], ["hospital-a"], 90, 90)
    text = next_steps(made, renewed=False)
    # This one the institution writes itself.
    named = set(re.findall(r"/etc/fedtag/([\w./-]+)", text)) - {"node.toml"}
    there = {
        path.relative_to(folder).as_posix()
        for folder in (made.folder.server, made.folder.institution("hospital-a"))
        for path in folder.rglob("*")
    }
    assert named <= there
    assert "institutions/hospital-a.pub" in named
    # What --keys names has all that the services read.
    assert {"ca.crt", "server.crt", "server.key", "node.key"} <= there


def test_renewal_tells_of_new_institutions_only(tmp_path: Path) -> None:
    issue(tmp_path / "keys", ["fl.example.org"], ["hospital-a"], 90, 3650)
    text = next_steps(renew(tmp_path / "keys", [], ["hospital-d"], 90), renewed=True)
    assert "systemctl restart fedtag-superlink" in text
    assert "hospital-a" not in text
    assert [words[2] for words in commands(text, "flwr")] == ["/etc/fedtag/institutions/hospital-d.pub"]


def test_connection_is_that_of_the_file_in_deploy() -> None:
    file = tomllib.loads((REPOSITORY / "deploy" / "systemd" / "flower.toml").read_text(encoding="utf-8"))
    assert tomllib.loads(connection_settings())["superlink"]["fedtag"] == file["superlink"]["fedtag"]


def test_what_is_printed_is_what_the_runbook_says(tmp_path: Path) -> None:
    """The programs of both roles with the same options, and the registration of the same keys."""
    runbook = (REPOSITORY / "deploy" / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    made = issue(tmp_path / "keys", ["fl.example.org"], ["hospital-a"], 90, 90)
    text = next_steps(made, renewed=False)
    for program in ("fedtag serve link", "fedtag serve site"):
        (printed,) = commands(text, program)
        assert printed in commands(runbook, program)
    (quiet,) = {line for line in text.splitlines() if line.startswith("export ")}
    assert quiet in runbook.splitlines()
    registered = re.search(r"for key in (\S+)/\*\.pub; do echo \"\$key\"; (.+); done", runbook)
    assert registered is not None
    (words,) = commands(text, "flwr")
    key = words[2]
    assert Path(key).parent.as_posix() == registered[1]
    assert shlex.split(registered[2].replace("$key", key))[1:] == words


def test_the_file_of_a_node_is_that_of_the_runbook() -> None:
    file = (REPOSITORY / "deploy" / "systemd" / "node.toml").read_text(encoding="utf-8")
    assert tomllib.loads(file) == tomllib.loads(node_settings("hospital-a"))
