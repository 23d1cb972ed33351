"""Settings of a run: tables with defaults, ranges and meanings, and which of them exclude each other."""
