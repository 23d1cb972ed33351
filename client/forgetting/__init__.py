"""Removing a node from all that a site has."""
