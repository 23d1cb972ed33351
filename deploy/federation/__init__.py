"""Flower's programs on this machine, and a run on them."""
