"""Folders of nodes and edges: reading, validating, partitioning, writing."""
