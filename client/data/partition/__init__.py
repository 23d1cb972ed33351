"""Dividing one graph over clients: by communities, by cut, at random, by label, or as published."""

from fedtag.client.data.partition.choice import PARTITIONERS, partition

__all__ = ["PARTITIONERS", "partition"]
