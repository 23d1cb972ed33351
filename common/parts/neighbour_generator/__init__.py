"""Generated neighbours: what both sides agree on."""
