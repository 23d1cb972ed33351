"""What both sides of da_dfgas agree on."""
