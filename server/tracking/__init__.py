"""The run directory and what is written there."""
