"""All clients of a simulation trained at once, as its round loop sees them."""
