"""A record of what a site or a coordinator did, which nobody can change unnoticed."""
