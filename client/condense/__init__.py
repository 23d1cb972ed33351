"""Condensation: the core, its evidence, its topology."""
