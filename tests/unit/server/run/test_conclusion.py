from __future__ import annotations

import numpy as np

from fedtag.server.run.conclusion import installed_versions


def test_packages_that_are_not_installed_are_left_out() -> None:
    assert installed_versions(("numpy", "no-such-package")) == {"numpy": np.__version__}
