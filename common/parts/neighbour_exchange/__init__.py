"""Sums over neighbours at other institutions: what both sides agree on."""
