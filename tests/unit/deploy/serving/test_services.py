from __future__ import annotations

from pathlib import Path

import pytest

from fedtag.common.errors import ConfigError
from fedtag.deploy.serving.services import Ports, SiteService


@pytest.mark.parametrize(
    ("rules", "plain", "sentence"),
    [
        ("methds = []", False, "unknown key 'methds': did you mean 'methods'"),
        (
            "methods = []",
            True,
            "has a policy, which code that a server sends need not keep: leave --plain-executors",
        ),
    ],
)
def test_no_site_starts_whose_policy_means_nothing(
    tmp_path: Path, rules: str, plain: bool, sentence: str
) -> None:
    (tmp_path / "policy.toml").write_text(rules, encoding="utf-8")
    node = tmp_path / "node.toml"
    node.write_text(
        f"name = 'a'\ndata = '{tmp_path}'\npolicy = '{tmp_path / 'policy.toml'}'", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match=sentence):
        SiteService("127.0.0.1:1", node, Ports(0, 0), None, plain=plain).serve()
