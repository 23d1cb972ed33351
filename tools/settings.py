"""The table of settings in pyproject.toml, where Flower looks for the keys that a run may override.

python -m tools.settings          # rewrite it
python -m tools.settings --check  # fail if it is not what the models say
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tomli_w

from fedtag.runs.settings import app_config

FILE = Path(__file__).resolve().parents[1] / "pyproject.toml"
TABLE = re.compile(r"(?ms)^\[tool\.flwr\.app\.config\]\n.*?(?=^\[(?!tool\.flwr\.app\.config))")


def rewritten(project: str) -> str:
    """The text of pyproject.toml with the table as it should be."""
    table = tomli_w.dumps({"tool": {"flwr": {"app": {"config": app_config({})}}}})
    return TABLE.sub(lambda _: table + "\n", project, count=1)


def main(arguments: list[str]) -> int:
    """Rewrite or check; the exit code."""
    before = FILE.read_text(encoding="utf-8")
    after = rewritten(before)
    if arguments == ["--check"]:
        if before != after:
            sys.stderr.write(
                "the settings in pyproject.toml are not those of the models: call make settings\n"
            )
        return int(before != after)
    FILE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
