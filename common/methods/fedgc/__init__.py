"""What both sides of fedgc agree on."""
