"""What a specification says of itself, and what the pages of a run say of it."""

from __future__ import annotations

import subprocess
import sys

from fedtag.common.settings.registry import HERE
from fedtag.server.tracking.markdown import cell
from fedtag.testing.subject import Subject, require


def it_says_what_it_is(subject: Subject) -> None:
    """Title and interface are there, and everything that it names can be imported."""
    for registry, name in subject.config.chosen:
        spec = registry.get(name)
        require(spec.title.strip(), subject, "has no title")
        for reference in spec.imports:
            registry.resolved(spec, reference)


def reading_it_imports_no_torch(subject: Subject) -> None:
    """Help and settings are instant, with it installed."""
    chosen = [
        (registry.group, name)
        for registry, name in subject.config.chosen
        if registry.origin(name).package != HERE
    ]
    code = (
        "import sys; from fedtag.common.config.catalogue import REGISTRIES; "
        f"[one.get(name) for one in REGISTRIES for group, name in {chosen!r} if one.group == group]; "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = done.stderr[-300:]
    require(done.returncode == 0, subject, f"imports PyTorch when its specification is read {told}")


def its_pages_are_written(subject: Subject) -> None:
    """The card names the method, and the report all that the run is made of."""
    trial = subject.plain
    card, page = (path.read_text(encoding="utf-8") for path in (trial.path / "README.md", trial.run.report()))
    require(
        cell(subject.config.method) in card, subject, f"has a card that does not name {subject.config.method}"
    )
    missing = [name for _, name in subject.config.chosen if name not in page]
    require(not missing, subject, f"has a report that does not name {', '.join(missing)}")
