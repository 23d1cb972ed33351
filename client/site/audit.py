"""The audit log of a site."""

from __future__ import annotations

from fedtag.client.site.site import Site
from fedtag.common.audit_log.log import AuditLog
from fedtag.common.secure.identity import Identity

FOLDER = "audit"


def site_log(site: Site) -> AuditLog:
    """What a site did, in its workspace, sealed by its identity; a simulated site answers to nobody and has none."""
    folder = None if site.seed is not None else site.workspace / FOLDER
    return AuditLog(folder, site.name, lambda: Identity.at(site.keys))
