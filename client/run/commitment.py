"""What a site commits to where it tells nobody how many nodes it has, so that it cannot say otherwise later."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping

from fedtag.client.site.site import Site
from fedtag.client.site.state import Remembered, StateStore
from fedtag.common.secure.canonical import canonical

COUNTS = "counts"
NONCE_BYTES = 32


def committed_counts(site: Site, run: str, sizes: Mapping[str, int]) -> str:
    """SHA-256 of the counts of nodes and a nonce, which stays in the site's state folder for whoever is to check it.

    The same in all of a run as long as the counts are; without the nonce nobody can try counts.
    """
    store = StateStore(site.state, run)
    kept = store.find(COUNTS)
    if kept is None:
        kept = Remembered({}, {"nonce": secrets.token_hex(NONCE_BYTES), "sizes": dict(sizes)})
        store.keep(COUNTS, kept)
    text = json.dumps(dict(sizes), sort_keys=True)
    return hashlib.sha256(canonical("sizes", run, site.name, kept.values["nonce"], text)).hexdigest()
