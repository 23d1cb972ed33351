"""What both sides of dance agree on."""
