"""What both sides of fedc4 agree on."""
