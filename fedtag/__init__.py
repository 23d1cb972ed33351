"""Federated learning on text-attributed graphs, on Flower."""
