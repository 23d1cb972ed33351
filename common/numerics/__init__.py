"""Pure functions by topic."""
