"""Parts on the side of an institution."""
