"""A run is about one state of a site's data: counts are stated once, and what is kept goes by positions of nodes.

Between runs data may change as they like: everything that is derived from them is kept by their content, or by the run.
"""

from __future__ import annotations

from collections.abc import Callable

from fedtag.client.data.stamp import data_digest, stamp_of
from fedtag.client.site.site import Site
from fedtag.client.site.state import Remembered, StateStore
from fedtag.common.errors import ProtocolError

DATA = "data"
"""Under which a site keeps what its data were when a run came."""
FEATURES = "features"
"""Under which it keeps what their features are made by."""


def begin(site: Site, run: str, read: Callable[[], object], note: Callable[[str], None]) -> None:
    """Fix the data of a run, if it is new to the site and they can be read.

    Args:
        site: whose data they are.
        run: its identifier.
        read: reads them; what it raises leaves the run new, so that it can begin with data that are put right.
        note: told the digest of the data of a new run; what it raises leaves the run new as well, so that no run goes
            on that was not noted, and one may be noted twice.

    Raises:
        ProtocolError: somebody wrote them meanwhile.
    """
    store = StateStore(site.state, run)
    if store.find(DATA) is not None:
        return
    stamp = stamp_of(site.folder)
    read()
    digest = data_digest(site.folder)
    if stamp_of(site.folder) != stamp:
        raise ProtocolError(f"the data of {site.name} were written while they were read: start a new run")
    note(digest)
    store.keep(DATA, Remembered({}, {"stamp": stamp, "digest": digest}))


def keep_features(site: Site, run: str, features: str) -> None:
    """Keep what the features of a run are made by, and refuse others afterwards.

    Raises:
        ProtocolError: naming both.
    """
    store = StateStore(site.state, run)
    kept = store.find(FEATURES)
    if kept is None:
        store.keep(FEATURES, Remembered({}, {"features": features}))
    elif kept.values["features"] != features:
        raise ProtocolError(
            f"the features of {site.name} come from {features}, and in this run before from "
            f"{kept.values['features']}: restore the files of that encoder, or start a new run"
        )


def check_unchanged(site: Site, run: str) -> None:
    """Refuse to go on with other data than the run began with; files that were written again alike are the same.

    Raises:
        ProtocolError: the data have changed.
    """
    store = StateStore(site.state, run)
    kept = store.find(DATA)
    if kept is None:
        return
    stamp = stamp_of(site.folder)
    if kept.values["stamp"] == [list(file) for file in stamp]:
        return
    if data_digest(site.folder) != kept.values["digest"]:
        raise ProtocolError(
            f"the data of {site.name} have changed since this run began there, and a run is about one state of them: "
            "restore them, or start a new run"
        )
    store.keep(DATA, Remembered({}, {**kept.values, "stamp": stamp}))
