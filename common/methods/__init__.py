"""What a method is: its specification, and what both sides of it agree on."""
