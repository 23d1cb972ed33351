"""A federation between hosts, as deploy/README.md says it, with what the images hold."""

from __future__ import annotations

import datetime
import itertools
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedtag.deploy.certificates import signing
from fedtag.deploy.certificates.folder import issue
from fedtag.deploy.federation.processes import Program, ProgramGroup
from tests.system.capture import frames, tcp_ports
from tests.system.hosted import REPOSITORY, Federation, said, wait_for
from tests.system.images import make_environment
from tests.system.namespaces import SERVER_ADDRESS, Hosts, why_not
from tests.system.runbook import RUNBOOK, placed

HERE = Path(__file__).resolve().parent
NAMES = ("hospital-a", "hospital-b", "hospital-c")
SERVER = "fl.example.org"
PLANTED = "quokka-marmalade-5521"
CLASSES = {"a": "larkspurdisease", "b": "foxglovedisease", "c": "teaseldisease"}

EXPIRED_PORT = 9093
TLS_HANDSHAKE = b"\x16\x03\x01"
REFUSALS = {
    "unregistered key": "Failed to activate SuperNode",
    "no key": "SuperNode authentication is enabled",
    "a second process with the key": "Failed to activate SuperNode",
    "wrong authority": "unable to get local issuer certificate",
    "plain text": "Socket closed",
    "expired certificate": "certificate has expired",
}

pytestmark = pytest.mark.slow


def rename_classes(folder: Path) -> None:
    nodes = folder / "nodes.csv"
    lines = nodes.read_text().replace("text of node", f"{PLANTED} text of node").splitlines()
    rows = [line.split(",") for line in lines]
    nodes.write_text(
        "\n".join(",".join([*row[:2], CLASSES.get(row[2], row[2]), row[3]]) for row in rows) + "\n"
    )
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({**meta, "classes": list(CLASSES.values())}))


@pytest.fixture(scope="module")
def federation(
    tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]
) -> Iterator[Federation]:
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("hosts")
    for side in ("server", "client"):
        make_environment(folder / side, side)
    checkout = folder / "checkout"
    (checkout / "deploy" / "systemd").mkdir(parents=True)
    for number, name in enumerate(NAMES):
        rename_classes(write_feature_folder(folder / "graphs" / name, seed=number))
    with Hosts(NAMES, SERVER) as hosts, ProgramGroup(folder) as group:
        made = Federation(folder, hosts, group)
        for host in ("server", *NAMES):
            (folder / host).mkdir(exist_ok=True)
            (folder / host / "state").mkdir()
        made.shell("server", "coordinator: keys")
        settings = (REPOSITORY / "deploy" / "systemd" / "flower.toml").read_text(encoding="utf-8")
        (checkout / "deploy" / "systemd" / "flower.toml").write_text(
            settings.replace("/etc/fedtag", str(made.keys.server))
        )
        for name in NAMES:
            text = (REPOSITORY / "deploy" / "systemd" / "node.toml").read_text(encoding="utf-8")
            text = placed(text.replace("hospital-a", name), made.paths(name))
            (made.keys.institution(name) / "node.toml").write_text(text)
            capture = [sys.executable, str(HERE / "capture.py"), "wire", str(made.wire(name))]
            made.start(name, f"capture-{name}", *capture)
        made.start_superlink()
        made.shell("server", "server: register")
        # One institution takes the test's own end of TLS for the server, which passes everything on.
        hosts.knows(NAMES[0], "127.0.0.1")
        inside = [str(made.keys.server), SERVER, SERVER_ADDRESS, str(folder / "inside.raw")]
        made.start(NAMES[0], "eavesdropper", sys.executable, str(HERE / "eavesdropper.py"), *inside)
        for name in NAMES:
            made.start(name, name, *made.script(name, "institution: start"))
        for name in NAMES:
            wait_for(said(made.programs[name], "SuperNode ID"), made.programs[name])
        made.heard = made.shell("server", "server: train")
        made.training = {name: made.wire(name).read_bytes() for name in NAMES}
        yield made


@pytest.fixture(scope="module")
def refused(federation: Federation) -> dict[str, Program]:
    """SuperNodes that must not get in, all at once at one institution; each tries twice at most."""
    folder, own = federation.folder / "foreign", federation.keys.institution("hospital-b")
    foreign = issue(folder, [SERVER], ["stranger"], 30, 30).folder
    serve_expired(federation)
    port = itertools.count(9194)

    def start(name: str, **changed: str | None) -> Program:
        options: dict[str, str | None] = {
            "superlink": f"{SERVER}:9092",
            "root-certificates": f"{own}/ca.crt",
            "auth-supernode-private-key": f"{own}/node.key",
            "port": str(next(port)),
            "max-retries": "1",
            **{key.replace("_", "-"): value for key, value in changed.items()},
        }
        words = [
            f"--{key}={value}" if value else f"--{key}" for key, value in options.items() if value is not None
        ]
        return federation.start("hospital-b", name, "flower-supernode", *words)

    return {
        "unregistered key": start(
            "unregistered", auth_supernode_private_key=f"{foreign.institution('stranger')}/node.key"
        ),
        "no key": start("no-key", auth_supernode_private_key=None),
        "a second process with the key": start("second"),
        "wrong authority": start("wrong-authority", root_certificates=str(foreign.authority / "ca.crt")),
        "plain text": start("plain", insecure="", root_certificates=None, auth_supernode_private_key=None),
        "expired certificate": start("expired", superlink=f"{SERVER}:{EXPIRED_PORT}"),
    }


def serve_expired(federation: Federation) -> None:
    """A second SuperLink whose certificate ended yesterday."""
    folder = federation.folder / "expired"
    shutil.copytree(federation.keys.server, folder)
    key = serialization.load_pem_private_key((federation.keys.authority / "ca.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    good = x509.load_pem_x509_certificate((folder / "server.crt").read_bytes())
    builder = x509.CertificateBuilder(
        good.issuer, good.subject, good.public_key(), x509.random_serial_number()
    )
    for extension in good.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    now = datetime.datetime.now(datetime.UTC)
    builder = builder.not_valid_before(now - datetime.timedelta(days=30))
    ended = builder.not_valid_after(now - datetime.timedelta(days=1)).sign(key, hashes.SHA384())
    (folder / "server.crt").write_bytes(signing.pem(ended))
    ports = ["--port", "8100", "--watch", "8101", "--fleet", f"0.0.0.0:{EXPIRED_PORT}"]
    program = federation.start(
        "server", "expired-superlink", "fedtag", "serve", "link", *ports, "--keys", str(folder)
    )
    wait_for(lambda: federation.knock("server", "127.0.0.1", 8100) == "open", program)


def test_model_is_trained_between_hosts(federation: Federation) -> None:
    assert "finished:completed" in federation.heard
    out = federation.folder / "server" / "state" / "runs" / "first"
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [(row["round"], row["clients_ok"]) for row in rows][-2:] == [(1, 3), (2, 3)]
    assert (out / "model.safetensors").is_file()
    assert {json.loads(line)["client"] for line in (out / "clients.jsonl").read_text().splitlines()} == set(
        NAMES
    )


def test_status_tells_of_the_run_and_of_the_registered_nodes(federation: Federation) -> None:
    heard = federation.shell("server", "server: status")
    assert "fedavg, 2 of 2 rounds complete, finished" in heard
    told = json.loads(heard.splitlines()[-1])
    assert (told["directory"].rpartition("/")[2], told["state"]) == ("first", "finished")
    assert [client["name"] for client in told["clients"]] == list(NAMES)
    registered = {node["node"]: node["status"] for node in told["superlink"]}
    assert registered == {client["node"]: "online" for client in told["clients"]}


def test_only_the_fleet_port_is_open(federation: Federation) -> None:
    for host in ("server", *NAMES):
        lines = federation.ask(host, "ss", "-Hltn").splitlines()
        listening = [line.split()[3].rsplit(":", 1) for line in lines]
        opened = {port for address, port in listening if address not in ("127.0.0.1", "[::1]")}
        assert opened == ({"9092"} if host == "server" else set()), lines
    assert federation.knock("server", "127.0.0.1", 8000) == "open"
    for name in NAMES:
        assert federation.knock(name, SERVER_ADDRESS, 9092) == "open"
        assert federation.knock(name, SERVER_ADDRESS, 8000) == "refused"


def test_institutions_do_not_reach_each_other(federation: Federation) -> None:
    for name in NAMES:
        assert federation.knock("server", federation.hosts.address(name), 9094) == "refused"
        for other in set(NAMES) - {name}:
            assert federation.knock(name, federation.hosts.address(other), 9094) == "silent"


def test_programs_say_that_they_are_well(federation: Federation) -> None:
    authority = str(federation.keys.server / "ca.crt")
    federation.health("server", "https://127.0.0.1:8000/health", authority)
    for name in NAMES:
        for page in ("live", "ready", "status", "metrics"):
            federation.health(name, f"http://127.0.0.1:9095/{page}")
    federation.health("server", "http://127.0.0.1:8001/ready")


def test_nothing_crosses_the_wires_in_clear(federation: Federation) -> None:
    for name in NAMES:
        everything = federation.training[name]
        segments = [ports for frame in frames(everything) if (ports := tcp_ports(frame))]
        assert len(everything) > 50_000
        assert all(9092 in ports for ports in segments)
        assert TLS_HANDSHAKE in everything
        for secret in (PLANTED, *CLASSES.values(), "safetensors", "accuracy"):
            assert secret.encode() not in everything, secret


def test_search_finds_what_is_sent_in_clear(federation: Federation) -> None:
    code = "import socket, sys; socket.create_connection((sys.argv[1], 9092)).sendall(sys.argv[2].encode())"
    federation.ask("hospital-c", sys.executable, "-c", code, SERVER_ADDRESS, "planted-for-the-search")
    wire = federation.wire("hospital-c")
    wait_for(
        lambda: b"planted-for-the-search" in wire.read_bytes(), federation.programs["capture-hospital-c"], 10
    )


def test_no_text_crosses_inside_the_encryption(federation: Federation) -> None:
    inside = (federation.folder / "inside.raw").read_bytes()
    assert all(name.encode() in inside for name in CLASSES.values()), (
        "class names do cross: the search would find text"
    )
    assert PLANTED.encode() not in inside


@pytest.mark.parametrize("case", REFUSALS)
def test_stranger_is_refused(federation: Federation, refused: dict[str, Program], case: str) -> None:
    program = refused[case]
    wait_for(lambda: program.exit_code is not None, program, 120)
    log = program.log_tail(100)
    assert program.exit_code == 1, log
    assert "Exit Code: 305" in log
    assert REFUSALS[case] in log
    # The runbook explains the very words.
    assert f"`{REFUSALS[case]}`" in RUNBOOK.read_text(encoding="utf-8")


def test_expired_certificate_is_no_health(federation: Federation, refused: dict[str, Program]) -> None:
    with pytest.raises(AssertionError, match="certificate has expired"):
        federation.health("server", "https://127.0.0.1:8100/health", str(federation.keys.server / "ca.crt"))


def test_renewal_keeps_institutions_and_revoking_ends_one(federation: Federation) -> None:
    before = (federation.keys.server / "server.crt").read_bytes()
    federation.shell("server", "coordinator: renew")
    assert (federation.keys.server / "server.crt").read_bytes() != before
    known = {node["node-id"] for node in federation.nodes()}
    assert len(known) == 3
    federation.programs["superlink"].kill()
    federation.start_superlink()

    def online() -> set[str]:
        return {node["node-id"] for node in federation.nodes() if node["status"] == "online"}

    wait_for(lambda: online() == known, federation.programs["superlink"], 120)
    found = re.search(r"SuperNode ID: (\d+)", federation.programs["hospital-c"].log_tail(1000))
    assert found
    federation.shell("server", "server: revoke", f"NODE_ID={found[1]}")
    program = federation.programs["hospital-c"]
    wait_for(said(program, "SuperNode ended with code"), program, 60)
    with pytest.raises(AssertionError, match="503"):
        federation.health("hospital-c", "http://127.0.0.1:9095/ready")
    federation.health("hospital-b", "http://127.0.0.1:9095/ready")
