"""Sums over neighbours at other institutions, asked for and given."""
