"""Evidence of several runs in one workspace: the newest run's lies in the folder itself, that of others below it."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from fedtag.client.site.state import RUN, check_run
from fedtag.client.site.whole_file import write_whole
from fedtag.common.secure.canonical import canonical

OWNER = "run.txt"
EARLIER = "earlier"
UNKNOWN = "unknown"


def evidence_of_run(folder: Path, run: str) -> Path:
    """The evidence folder of a site, ready for a run: what another one wrote there is in EARLIER/RUN first.

    Files are moved one by one: whoever is killed in between goes on with the next call.

    Args:
        folder: of the site's evidence; need not exist.
        run: identifier of the run, which the server chose.

    Raises:
        RunError: it is no identifier.
    """
    check_run(run)
    owner = folder / OWNER
    try:
        latest = owner.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        latest = ""
    if latest != run:
        move_files(folder, folder / EARLIER / (latest if RUN.fullmatch(latest) else UNKNOWN))
        write_whole(owner, f"{run}\n".encode())
    aside = folder / EARLIER / run
    if aside.is_dir():
        # Runs that take turns find what they had.
        move_files(aside, folder)
        shutil.rmtree(aside)
    return folder


def evidence_digest(folder: Path, run: str) -> tuple[int, int, str]:
    """How many files and bytes a run's evidence has, and SHA-256 (hex) over their names and contents.

    Args:
        folder: of the site's evidence; without evidence of the run it counts as empty.
        run: identifier of the run.
    """
    owner = folder / OWNER
    own = owner.is_file() and owner.read_text(encoding="utf-8", errors="replace").strip() == run
    place = folder if own else folder / EARLIER / run
    digest, files, size = hashlib.sha256(), 0, 0
    for path in sorted(place.rglob("*")):
        inside = path.relative_to(place)
        if path.is_file() and inside.parts[0] not in (EARLIER, OWNER):
            content = path.read_bytes()
            digest.update(canonical(inside.as_posix(), content))
            files, size = files + 1, size + len(content)
    return files, size, digest.hexdigest()


def move_files(source: Path, target: Path) -> None:
    """Move the files of one run, with the folders that they are in, to another place."""
    for path in sorted(source.rglob("*")):
        place = path.relative_to(source)
        if path.is_dir() or place.parts[0] in (EARLIER, OWNER):
            continue
        new = target / place
        new.parent.mkdir(parents=True, exist_ok=True)
        path.replace(new)
