"""Synthetic graphs: what a client's own condensation and a condensation over clients have in common."""
