from __future__ import annotations

import io
import zipfile
from pathlib import Path

from flwr.cli.build import build_fab_from_disk

from fedtag.deploy.federation.bundle import write_app


def test_bundle_holds_settings_and_no_code(tmp_path: Path) -> None:
    bundle = build_fab_from_disk(write_app(tmp_path / "app"))
    content = bundle[0] if isinstance(bundle, tuple) else bundle
    names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    assert {name.partition("/")[0] for name in names} == {"pyproject.toml", ".info"}
