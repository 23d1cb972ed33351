"""A run from its first exchange to its release."""
