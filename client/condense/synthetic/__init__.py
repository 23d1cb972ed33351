"""Condensation of a client's graph into a few labelled nodes on which any model can be trained."""
