from __future__ import annotations

import datetime
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from fedtag.common.errors import ConfigError
from fedtag.deploy.certificates import signing
from fedtag.deploy.certificates.folder import CertificateFolder, issue, renew
from fedtag.deploy.cli import app

SERVERS = ["FL.example.org", "192.0.2.7", "2001:db8::7"]
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
needs_ssh_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen")


@pytest.fixture
def keys(tmp_path: Path) -> CertificateFolder:
    return issue(tmp_path / "keys", SERVERS, ["hospital-a", "hospital b"], 90, 3650).folder


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def server_certificate(keys: CertificateFolder) -> x509.Certificate:
    return x509.load_pem_x509_certificate((keys.server / "server.crt").read_bytes())


@needs_openssl
@pytest.mark.parametrize(
    ("option", "name", "good"),
    [
        ("-verify_hostname", "fl.example.org", True),
        ("-verify_hostname", "localhost", True),
        ("-verify_hostname", "other.example.org", False),
        ("-verify_ip", "192.0.2.7", True),
        ("-verify_ip", "2001:db8::7", True),
        ("-verify_ip", "127.0.0.1", True),
        ("-verify_ip", "192.0.2.8", False),
    ],
)
def test_openssl_accepts_the_server_under_its_names_only(
    keys: CertificateFolder, option: str, name: str, good: bool
) -> None:
    common = ["-x509_strict", "-purpose", "sslserver", "-CAfile", keys.authority / "ca.crt"]
    done = run("openssl", "verify", *common, option, name, keys.server / "server.crt")
    assert (done.returncode == 0) is good, done.stdout + done.stderr


@needs_openssl
def test_openssl_refuses_another_authority_and_a_server_as_authority(
    keys: CertificateFolder, tmp_path: Path
) -> None:
    other = issue(tmp_path / "other", SERVERS, [], 90, 90).folder
    assert run(
        "openssl", "verify", "-CAfile", other.authority / "ca.crt", keys.server / "server.crt"
    ).returncode
    done = run("openssl", "verify", "-CAfile", keys.server / "server.crt", keys.server / "server.crt")
    assert done.returncode


@needs_ssh_keygen
@pytest.mark.parametrize("name", ["hospital-a", "hospital b"])
def test_ssh_keygen_derives_the_same_public_key(keys: CertificateFolder, name: str) -> None:
    done = run("ssh-keygen", "-y", "-f", keys.institution(name) / "node.key")
    assert done.returncode == 0, done.stderr
    public = (keys.institution(name) / "node.pub").read_text()
    assert public.split()[:2] == done.stdout.split()[:2]
    assert public.split()[0] == "ecdsa-sha2-nistp384"
    assert keys.public_key(name).read_text() == public
    listed = run("ssh-keygen", "-l", "-f", keys.public_key(name)).stdout
    assert listed.startswith("384 ")
    assert name in listed


def test_flower_reads_the_keys(keys: CertificateFolder) -> None:
    from flwr.cli.supernode.register import try_load_public_key

    key = serialization.load_ssh_private_key((keys.institution("hospital-a") / "node.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp384r1"
    assert try_load_public_key(keys.public_key("hospital-a"))


def test_only_the_owner_reads_private_keys(keys: CertificateFolder) -> None:
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in keys.root.rglob("*")}
    private = {
        path.relative_to(keys.root).as_posix() for path, mode in modes.items() if path.suffix == ".key"
    }
    assert private == {
        "authority/ca.key",
        "server/server.key",
        "institutions/hospital-a/node.key",
        "institutions/hospital b/node.key",
    }
    assert {mode for path, mode in modes.items() if path.suffix == ".key"} == {0o600}
    assert {mode for path, mode in modes.items() if path.suffix in (".crt", ".pub")} == {0o644}
    for folder in (keys.authority, keys.server, keys.institution("hospital-a")):
        assert modes[folder] == 0o700


def test_what_goes_away_holds_no_foreign_key(keys: CertificateFolder) -> None:
    assert {path.name for path in keys.institution("hospital-a").iterdir()} == {
        "ca.crt",
        "node.key",
        "node.pub",
    }
    assert {path.name for path in keys.server.rglob("*") if path.is_file()} == {
        "ca.crt",
        "server.crt",
        "server.key",
        "hospital-a.pub",
        "hospital b.pub",
    }
    for name in ("hospital-a", "hospital b"):
        assert (keys.institution(name) / "ca.crt").read_bytes() == (keys.authority / "ca.crt").read_bytes()


def test_validity_is_what_was_asked_for(keys: CertificateFolder) -> None:
    left = server_certificate(keys).not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(days=89, hours=23) < left <= datetime.timedelta(days=90)


def test_renewal_replaces_the_server_certificate_alone(keys: CertificateFolder) -> None:
    before, old = contents(keys.root), server_certificate(keys)
    made = renew(keys.root, [], ["hospital-a", "hospital-d"], 200)
    after, new = contents(keys.root), server_certificate(keys)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"server/server.crt", "server/server.key"}
    assert made.added == ("hospital-d",)
    assert set(after) - set(before) == {
        "server/institutions/hospital-d.pub",
        "institutions/hospital-d/ca.crt",
        "institutions/hospital-d/node.key",
        "institutions/hospital-d/node.pub",
    }
    assert new.serial_number != old.serial_number
    assert made.names == ("fl.example.org", "localhost", "192.0.2.7", "2001:db8::7", "127.0.0.1", "::1")
    new.verify_directly_issued_by(x509.load_pem_x509_certificate((keys.authority / "ca.crt").read_bytes()))


def test_renewal_can_name_the_server_anew(keys: CertificateFolder) -> None:
    made = renew(keys.root, ["new.example.org"], [], 30)
    assert made.names == ("new.example.org", "localhost", "127.0.0.1", "::1")


def test_removed_key_is_made_anew(keys: CertificateFolder) -> None:
    old = keys.public_key("hospital-a").read_bytes()
    shutil.rmtree(keys.institution("hospital-a"))
    assert renew(keys.root, [], ["hospital-a"], 30).added == ("hospital-a",)
    assert keys.public_key("hospital-a").read_bytes() != old


def test_authority_is_never_replaced(keys: CertificateFolder) -> None:
    before = contents(keys.root)
    with pytest.raises(ConfigError, match=r"has an authority already, which is never replaced: add --renew"):
        issue(keys.root, SERVERS, ["hospital-c"], 90, 90)
    assert contents(keys.root) == before


def test_authority_whose_key_lies_elsewhere_is_not_replaced(keys: CertificateFolder) -> None:
    (keys.authority / "ca.key").unlink()
    before = contents(keys.root)
    with pytest.raises(ConfigError, match="has an authority already, which is never replaced"):
        issue(keys.root, SERVERS, [], 90, 90)
    assert contents(keys.root) == before


def test_renewal_without_authority_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"ca\.key is missing, without which nothing can be renewed: put it back"
    ):
        renew(tmp_path, SERVERS, [], 90)
    assert list(tmp_path.iterdir()) == []


def test_server_may_not_outlive_its_authority(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--ca-days 10 is less than --days 90: the authority must outlive"):
        issue(tmp_path / "keys", SERVERS, [], 90, 10)
    keys = issue(tmp_path / "keys", SERVERS, [], 90, 90).folder
    with pytest.raises(
        ConfigError, match=r"ends on \d{4}-\d\d-\d\d: use --days 89 or less, or make a new authority"
    ):
        renew(keys.root, [], [], 365)


@pytest.mark.parametrize("broken", [b"", b"no key"])
def test_broken_keys_are_named(keys: CertificateFolder, broken: bytes) -> None:
    (keys.institution("hospital-a") / "node.key").write_bytes(broken)
    with pytest.raises(
        ConfigError, match=r"hospital-a/node\.key is no private key: restore it, or remove it"
    ):
        renew(keys.root, [], ["hospital-a"], 30)
    (keys.authority / "ca.key").write_bytes(broken)
    with pytest.raises(ConfigError, match=r"ca\.key is no private key: restore it from its backup"):
        renew(keys.root, [], [], 30)


def test_key_of_another_authority_is_refused(keys: CertificateFolder) -> None:
    (keys.authority / "ca.key").write_bytes(signing.pkcs8(signing.new_key()))
    with pytest.raises(ConfigError, match=r"ca\.key does not belong to ca\.crt beside it: restore both"):
        renew(keys.root, [], [], 30)


@pytest.mark.parametrize(
    ("institutions", "days", "message"),
    [
        (["a", "A"], 90, r"--institution a, A: each needs a name of its own"),
        (["../a"], 90, r"site name '\.\./a': use 1 to 64 letters"),
        (["a"], 0, r"--days 0: use a whole number from 1 to 36500"),
    ],
)
def test_nothing_is_written_for_wrong_requests(
    tmp_path: Path, institutions: list[str], days: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        issue(tmp_path / "keys", SERVERS, institutions, days, 3650)
    assert not (tmp_path / "keys").exists()


def test_command_says_what_is_wrong_in_one_sentence(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["certificates", str(tmp_path / "keys"), "--institution", "a"])
    assert result.exit_code == 2
    assert result.stderr.strip() == (
        "name the server: --server with each host name and address that institutions dial"
    )
