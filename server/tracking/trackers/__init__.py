"""Trackers: where the numbers of a run go beside its directory, so that people compare it with other ones."""
