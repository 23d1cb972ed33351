"""Predictions of a released model for a folder: what they are, and the table that holds them."""
