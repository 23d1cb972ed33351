"""Backbones: a stack of layers of one family each, all called as layer(x, adjacency).

They share one adjacency, so that a backbone runs unchanged on the original graph and on a condensed, weighted one.
"""
