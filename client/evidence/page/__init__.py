"""The audit page of a site: what it shows, and the file that shows it."""
