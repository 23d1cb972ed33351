"""Compose, Kubernetes, systemd and the runbook start the same programs on the same files."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedtag.client.site.site import site_from_node_config
from fedtag.common.errors import ConfigError
from fedtag.deploy.certificates.folder import CertificateFolder, issue
from fedtag.server.tracking.meters import metrics_address
from tests.system.runbook import NEEDS_MACHINES, block, blocks
from tests.unit.deploy.serving_options import serving_options

REPOSITORY = Path(__file__).resolve().parents[3]
DEPLOY = REPOSITORY / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
NAMES = ("hospital-a", "hospital-b", "hospital-c")
SUPERLINK = ["--keys", "/etc/fedtag", "--database", "/var/lib/fedtag/superlink.db"]
SUPERNODE = [
    "--superlink",
    "fl.example.org:9092",
    "--keys",
    "/etc/fedtag",
    "--config",
    "/etc/fedtag/node.toml",
]
MOST_EXPOSED = 1.8


def documents(path: Path) -> dict[str, Any]:
    """The objects of a file by their kinds; the last of a kind."""
    return {part["kind"]: part for part in yaml.safe_load_all(path.read_text(encoding="utf-8"))}


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yml").read_text(encoding="utf-8"))


def unit(name: str) -> dict[str, list[str]]:
    text = (DEPLOY / "systemd" / f"fedtag-{name}.service").read_text(encoding="utf-8").replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def container(path: str) -> Any:
    (found,) = documents(KUBERNETES / path)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found


def arguments(place: str, program: str) -> list[str]:
    if place == "compose":
        found = compose()["services"]["superlink" if program == "superlink" else "hospital-b"]["command"]
    elif place == "kubernetes":
        folder = "server" if program == "superlink" else "institution"
        found = [
            word.replace("/etc/fedtag-node/", "/etc/fedtag/")
            for word in container(f"{folder}/{program}.yaml")["args"]
        ]
    elif place == "systemd":
        (line,) = unit(program)["ExecStart"]
        found = shlex.split(line)[3:]
    else:
        text = block("server: start" if program == "superlink" else "institution: start", {})
        found = shlex.split(text[text.index("fedtag serve") :].replace("\\\n", " "))[3:]
    return list(map(str, found))


PLACES = ("compose", "kubernetes", "systemd", "runbook")


@pytest.mark.parametrize("place", PLACES)
def test_every_superlink_is_started_alike(place: str) -> None:
    found, usual = serving_options("link", arguments(place, "superlink")), serving_options("link", SUPERLINK)
    assert str(found.pop("key")) == ("${CREDENTIALS_DIRECTORY}/server.key" if place == "systemd" else "None")
    usual.pop("key")
    assert found == usual


@pytest.mark.parametrize("place", PLACES)
def test_every_supernode_is_started_alike(place: str) -> None:
    found, usual = serving_options("site", arguments(place, "supernode")), serving_options("site", SUPERNODE)
    assert str(found.pop("key")) == ("${CREDENTIALS_DIRECTORY}/node.key" if place == "systemd" else "None")
    usual.pop("key")
    address = found.pop("superlink")
    assert address.endswith(":9092") or address in ("${SUPERLINK}", "$(SUPERLINK)")
    usual.pop("superlink")
    assert found == usual


def test_compose_mounts_what_certificates_writes(tmp_path: Path) -> None:
    keys = issue(tmp_path / "keys", ["superlink"], NAMES, 90, 90).folder
    content = compose()
    for name, service in content["services"].items():
        own = keys.server if name == "superlink" else keys.institution(name)
        for use in service["secrets"]:
            file = Path(content["secrets"][use["source"]]["file"].replace("${FEDTAG_KEYS}", str(keys.root)))
            assert file.read_bytes() == (own / Path(use["target"]).name).read_bytes()
        for use in service["configs"]:
            assert (DEPLOY / content["configs"][use["source"]]["file"]).is_file()
    (public,) = [volume for volume in content["services"]["superlink"]["volumes"] if "FEDTAG_KEYS" in volume]
    assert public.endswith("/server/institutions:/etc/fedtag/institutions:ro")
    assert (keys.server / "institutions").is_dir()


def test_compose_publishes_the_fleet_port_alone_and_keeps_institutions_apart() -> None:
    content = compose()
    services = content["services"]
    assert {name: service.get("ports") for name, service in services.items() if "ports" in service} == {
        "superlink": ["9092:9092"]
    }
    for name in NAMES:
        assert services[name]["networks"] == [name]
        assert content["networks"][name] == {"internal": True}
        assert f"{name}:/var/lib/fedtag" in services[name]["volumes"]
        assert [volume for volume in services[name]["volumes"] if volume.endswith("/data:ro")]
    assert set(services["superlink"]["networks"]) == {"outside", *NAMES}


def test_compose_programs_have_no_rights() -> None:
    for service in compose()["services"].values():
        assert service["user"].startswith("${FEDTAG_USER:?")
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["healthcheck"]["test"][:3] == ["CMD", "python", "/opt/fedtag/health.py"]
        assert "privileged" not in service


def test_compose_mounts_nothing_of_the_checkout() -> None:
    for service in compose()["services"].values():
        assert not [volume for volume in service["volumes"] if volume.startswith(".")]


def test_gpus_are_for_the_institutions() -> None:
    content = yaml.safe_load((DEPLOY / "compose.cuda.yml").read_text(encoding="utf-8"))
    assert set(content["services"]) == set(NAMES)
    assert all(service["build"]["args"] == {"VARIANT": "cuda"} for service in content["services"].values())


@pytest.mark.parametrize("path", ["server/superlink.yaml", "institution/supernode.yaml"])
def test_pods_have_no_rights(path: str) -> None:
    deployment = documents(KUBERNETES / path)["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["automountServiceAccountToken"] is False
    assert container(path)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    keys = next(volume for volume in pod["volumes"] if volume["name"] == "keys")
    assert keys["secret"]["defaultMode"] == 0o440


def test_clusters_open_the_fleet_port_alone() -> None:
    (port,) = documents(KUBERNETES / "server" / "service.yaml")["Service"]["spec"]["ports"]
    assert port["port"] == 9092
    assert [port["containerPort"] for port in container("server/superlink.yaml")["ports"]] == [9092]
    assert "ports" not in container("institution/supernode.yaml")
    server = documents(KUBERNETES / "server" / "network.yaml")["NetworkPolicy"]["spec"]
    assert server["ingress"] == [{"ports": [{"protocol": "TCP", "port": 9092}]}]
    assert server["egress"] == []
    institution = documents(KUBERNETES / "institution" / "network.yaml")["NetworkPolicy"]["spec"]
    assert institution["ingress"] == []
    assert [port["port"] for rule in institution["egress"] for port in rule["ports"]] == [9092, 53, 53]
    for policy in (server, institution):
        assert (policy["podSelector"], policy["policyTypes"]) == ({}, ["Ingress", "Egress"])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
@pytest.mark.parametrize("name", NAMES)
def test_kustomize_gives_every_institution_a_place_of_its_own(name: str) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES / "institutions" / name)],
        capture_output=True,
        text=True,
        check=True,
    )
    objects = {part["kind"]: part for part in yaml.safe_load_all(done.stdout)}
    assert objects["Namespace"]["metadata"]["name"] == f"fedtag-{name}"
    assert {part["metadata"].get("namespace", f"fedtag-{name}") for part in objects.values()} == {
        f"fedtag-{name}"
    }
    settings = objects["ConfigMap"]["data"]
    assert tomllib.loads(settings["node.toml"])["name"] == name
    assert settings["superlink"] == "superlink.fedtag-server.svc:9092"
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    assert {"name": "node", "configMap": {"name": objects["ConfigMap"]["metadata"]["name"]}} in pod["volumes"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
def test_secrets_of_the_runbook_hold_what_the_pods_read(tmp_path: Path) -> None:
    issue(tmp_path / "keys", ["superlink.fedtag-server.svc"], ["hospital-a"], 90, 90)
    text = block("kubernetes: secrets", {}).replace(
        "kubectl create", "kubectl create --dry-run=client -o yaml"
    )
    lines = text.replace("\\\n", " ").splitlines()
    script = "\necho ---\n".join(line for line in lines if line.startswith("kubectl"))
    done = subprocess.run(["sh", "-ec", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    server, institution = yaml.safe_load_all(done.stdout)
    for secret, path in ((server, "server/superlink.yaml"), (institution, "institution/supernode.yaml")):
        pod = documents(KUBERNETES / path)["Deployment"]["spec"]["template"]["spec"]
        assert secret["metadata"]["name"] in {v.get("secret", {}).get("secretName") for v in pod["volumes"]}
        side = {"superlink": {"ca.crt", "server.crt", "server.key"}, "supernode": {"ca.crt", "node.key"}}
        assert "--keys=/etc/fedtag" in container(path)["args"]
        assert set(secret["data"]) == side[secret["metadata"]["name"]]


@pytest.mark.parametrize("name", ["superlink", "supernode"])
def test_services_restart_as_flower_needs_it(name: str) -> None:
    found = unit(name)
    assert (found["User"], found["Restart"], found["RestartSec"]) == (["fedtag"], ["always"], ["5"])
    assert found["StartLimitIntervalSec"] == ["0"]
    assert "NoNewPrivileges" in found


@pytest.mark.parametrize("program", ["superlink", "supernode"])
def test_logs_of_services_cannot_quote_data_and_metrics_stay_on_loopback(program: str) -> None:
    folder, service = ("server", "superlink") if program == "superlink" else ("institution", "hospital-b")
    places = {
        "systemd": dict(pair.split("=", 1) for line in unit(program)["Environment"] for pair in line.split()),
        "kubernetes": {
            entry["name"]: entry["value"]
            for entry in container(f"{folder}/{program}.yaml")["env"]
            if "value" in entry
        },
        "compose": compose()["services"][service]["environment"],
    }
    for name, variables in places.items():
        assert variables["FEDTAG_LOG"].replace("${FEDTAG_LOG:-json}", "json") == "json", name
        address = metrics_address(variables.get("FEDTAG_METRICS", ""))
        assert address == (("127.0.0.1", 9464) if program == "superlink" and name != "compose" else None)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    for path in (DEPLOY / "systemd").glob("*.service"):
        # The programs are not where the units expect them on this machine.
        text = re.sub(r"/opt/fedtag/\.venv/bin/fedtag", "/bin/true", path.read_text(encoding="utf-8"))
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    units = sorted(map(str, tmp_path.glob("*.service")))
    assert len(units) == 2
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
@pytest.mark.parametrize("name", ["superlink", "supernode"])
def test_services_are_exposed_to_little(name: str) -> None:
    path = DEPLOY / "systemd" / f"fedtag-{name}.service"
    command = ["systemd-analyze", "security", "--offline=true", str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"exposure level for \S+: ([\d.]+)", told)
    assert found is not None
    assert float(found[1]) <= MOST_EXPOSED


@pytest.mark.parametrize(
    "path", ["systemd/node.toml", *(f"kubernetes/institutions/{name}/node.toml" for name in NAMES)]
)
def test_node_settings_describe_a_site(path: str, tmp_path: Path) -> None:
    node = tomllib.loads((DEPLOY / path).read_text(encoding="utf-8"))
    assert set(node) == {"name", "data", "workspace", "cache"}
    assert not Path(node["workspace"]).is_relative_to(node["data"])
    with pytest.raises(ConfigError, match=r"the data folder .* does not exist"):
        site_from_node_config({**node, "data": str(tmp_path / "absent")}, "cpu")
    assert site_from_node_config({**node, "data": str(tmp_path)}, "cpu").name == node["name"]


@pytest.mark.parametrize("title", sorted(NEEDS_MACHINES))
def test_files_that_a_block_names_exist(title: str) -> None:
    text = blocks()[title]
    named = re.findall(r"(?<![\w/])deploy/[\w./-]*\w", text)
    assert named
    assert all((REPOSITORY / path).exists() for path in named)
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0


def test_keys_stay_in_the_certificate_folder() -> None:
    text = (DEPLOY / "README.md").read_text(encoding="utf-8")
    folder = CertificateFolder(Path("keys"))
    for path in (folder.server, folder.authority, folder.institution("NAME")):
        assert f"`{path}`" in text
