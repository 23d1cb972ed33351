"""A server sends a bundle with code in it; a site runs what is installed there, and nothing else.

The control is Flower's own executor, under which everything in the bundle that is imported runs beside the data.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import tomli_w
from flwr.cli.build import build_fab_from_disk

from fedtag.common.errors import BundleError
from fedtag.deploy.executor.bundle import COMPONENTS, check_bundle
from fedtag.deploy.federation.bundle import write_app
from fedtag.deploy.federation.local import LocalFederation

SERVER = """
import time
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(0.05)
    waiting = set(grid.push_messages([Message(RecordDict(), dst_node_id=nodes[0], message_type="query", ttl=60)]))
    while waiting:
        for reply in grid.pull_messages(waiting):
            waiting.discard(reply.metadata.reply_to_message_id)
            print("REPLY " + (reply.error.reason if reply.has_error() else "carried out"), flush=True)
        time.sleep(0.05)
"""
CLIENT = """
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
import fedtag
import safetensors

app = ClientApp()


@app.query()
def answer(message, context):
    return Message(RecordDict(), reply_to=message)
"""
SHADOWS = {
    "a package of ours": "fedtag/__init__.py",
    "a dependency": "safetensors.py",
    "another client": "evilclient.py",
}


def marking(place: Path) -> str:
    """A line of code that leaves a trace."""
    return f"import pathlib; pathlib.Path({str(place)!r}).touch()\n"


def hostile_app(folder: Path, files: Mapping[str, str], **components: str) -> Path:
    """An app as `fedtag bundle` writes it, with files of its author's and other components."""
    folder.mkdir(parents=True)
    named = {**COMPONENTS, **components}
    app = {"publisher": "fedtag", "components": named, "config": {}, "fab-include": ["**/*"]}
    project = {
        "name": "hostile",
        "version": "0.0.0",
        "license": "Apache-2.0",
        "description": "",
        "dependencies": [],
    }
    (folder / "pyproject.toml").write_text(
        tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}})
    )
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_what_fedtag_bundle_writes_is_taken(tmp_path: Path) -> None:
    check_bundle(build_fab_from_disk(write_app(tmp_path / "app")))


@pytest.mark.parametrize("name", SHADOWS.values(), ids=SHADOWS)
def test_a_bundle_with_a_file_is_refused_with_its_name(tmp_path: Path, name: str) -> None:
    content = build_fab_from_disk(hostile_app(tmp_path / "app", {name: "pass\n"}))
    with pytest.raises(BundleError, match=f"holds {name}; .* fedtag bundle"):
        check_bundle(content)


def test_a_bundle_with_another_client_is_refused(tmp_path: Path) -> None:
    # An installed module will do: nothing of the attacker's has to travel.
    content = build_fab_from_disk(hostile_app(tmp_path / "app", {}, clientapp="flwr.clientapp:ClientApp"))
    with pytest.raises(
        BundleError, match=r"components serverapp = fedtag\.server.* clientapp = flwr\.clientapp"
    ):
        check_bundle(content)


def archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as made:
        for name, text in members:
            made.writestr(name, text)
    return content.getvalue()


CRAFTED: dict[str, Callable[[], bytes]] = {
    "is no archive": lambda: b"PK no zip",
    "holds a file twice": lambda: archive(("pyproject.toml", b"[a]"), ("pyproject.toml", b"[b]")),
    r"holds \.\./pyproject\.toml": lambda: archive(("../pyproject.toml", b"")),
    "holds /etc/fedtag/policy.toml": lambda: archive(("/etc/fedtag/policy.toml", b"")),
    "unpacks to more than": lambda: archive(("pyproject.toml", b"#" * 2**24)),
    "is no archive with a pyproject.toml": lambda: archive((".info/CONTENT", b"")),
    "names the components none": lambda: archive(("pyproject.toml", b"[tool.flwr]\napp = 1")),
    "m0.py, m1.py, m2.py and 97 more": lambda: archive(*((f"m{number}.py", b"") for number in range(100))),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("said", CRAFTED)
def test_crafted_archives_are_refused(said: str) -> None:
    with pytest.raises(BundleError, match=said):
        check_bundle(CRAFTED[said]())


def heard(folder: Path, plain: bool) -> tuple[list[str], set[str]]:
    """What a site answers to a bundle with all of them, and which of them ran there."""
    traces, site = folder / "traces", folder / "site"
    traces.mkdir()
    site.mkdir()
    files = {name: marking(traces / name.replace("/", "-")) for name in SHADOWS.values()}
    files["evilclient.py"] += CLIENT
    app = hostile_app(
        folder / "app",
        {**files, "evilserver.py": SERVER},
        serverapp="evilserver:app",
        clientapp="evilclient:app",
    )
    lines: list[str] = []
    nodes = [{"name": "site-a", "data": str(site), "workspace": str(folder / "workspace")}]
    with LocalFederation(app, folder / "home", nodes, plain=plain) as federation:
        assert federation.run({}, lines.append).succeeded
    answers = [line.removeprefix("REPLY ") for line in lines if line.startswith("REPLY ")]
    return answers, {path.name for path in traces.iterdir()}


def test_nothing_of_a_bundle_runs_at_a_site(tmp_path: Path) -> None:
    (answer,), ran = heard(tmp_path, plain=False)
    assert not ran
    assert answer.startswith("site-a: BundleError: the run's bundle holds ")
    assert "evilclient.py" in answer


def test_all_of_it_runs_under_flowers_own_executor(tmp_path: Path) -> None:
    answers, ran = heard(tmp_path, plain=True)
    assert answers == ["carried out"]
    assert ran == {name.replace("/", "-") for name in SHADOWS.values()}
