"""What `mkdocs build` is told beside mkdocs.yml: the runbook is a page, and files that are no pages are not linked."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"
ELSEWHERE = {REPOSITORY / "deploy" / "README.md": "runbook.md"}
"""Pages of the site that lie beside what they describe."""
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s:#]+)(#[^)\s]+)?\)")


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the pages that lie elsewhere."""
    for path, name in ELSEWHERE.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page with links as they lead from where the site has it."""
    source, here = Path(page.file.abs_src_path), Path(page.file.src_uri).parent

    def in_site(found: re.Match[str]) -> str:
        text, target, anchor = found[1], (source.parent / found[2]).resolve(), found[3] or ""
        name = ELSEWHERE.get(target)
        if name is None and target.is_relative_to(DOCS):
            name = target.relative_to(DOCS).as_posix()
        if name is None and target.exists():
            # A file of the repository, which whoever reads the site need not have.
            return text
        return found[0] if name is None else f"[{text}]({os.path.relpath(name, here)}{anchor})"

    return LINK.sub(in_site, markdown)
