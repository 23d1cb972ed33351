"""A site's key is lost: what the runbook says brings the site back, and the lost key opens nothing any more."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fedtag.deploy.certificates.folder import CertificateFolder, renew
from tests.system.breakable import Breakable


@pytest.mark.slow
def test_a_site_whose_key_is_lost_gets_another_one(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    sites = {name: write_feature_folder(tmp_path / name, seed=n) for n, name in enumerate("ab")}
    with Breakable(tmp_path / "federation", sites, tls=True) as federation:
        folder = CertificateFolder(tmp_path / "federation" / "keys")
        own = folder.institution("node-1")
        federation.stop("b")
        shutil.copytree(own, tmp_path / "stolen")
        shutil.rmtree(own)
        federation.start_node("b", wait=False)
        deadline = time.monotonic() + 60
        while federation.programs["b"].exit_code is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert f"there is no {own / 'ca.crt'}: fedtag certificates makes it" in federation.log("b")

        # Another key of the same name; the public key of the lost one goes as well, or it would be found again.
        folder.public_key("node-1").unlink(missing_ok=True)
        renew(folder.root, [], ["node-1"], 30)
        federation.control("registration").register(folder.public_key("node-1"))
        federation.start_node("b")
        running = federation.run("again", rounds=1, clients=2).finish()
        assert {row.client for row in running.clients} == {"a", "b"}
