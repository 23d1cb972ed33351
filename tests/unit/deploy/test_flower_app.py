from __future__ import annotations

import io
import zipfile
from pathlib import Path

from flwr.cli.build import build_fab_from_disk

from deploy.flower_app import PACKAGES, write_app


def test_bundle_holds_all_modules_of_the_app_and_nothing_else(tmp_path: Path) -> None:
    app = write_app(tmp_path / "app")
    bundle = build_fab_from_disk(app)
    content = bundle[0] if isinstance(bundle, tuple) else bundle
    names = set(zipfile.ZipFile(io.BytesIO(content)).namelist())
    expected = {
        f"{package.__name__}/{path.relative_to(Path(package.__file__).parent).as_posix()}"
        for package in PACKAGES
        for path in Path(str(package.__file__)).parent.rglob("*.py")
    }
    assert expected <= names
    assert {name.partition("/")[0] for name in names} == {
        "pyproject.toml",
        ".info",
        *(package.__name__ for package in PACKAGES),
    }
    assert "server/report/page_template.py" in names
