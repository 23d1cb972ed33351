"""A site's part in secure summation."""
