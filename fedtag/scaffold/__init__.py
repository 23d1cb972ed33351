"""Packages of one's own, begun: `fedtag new`."""
