"""How contributions become one model."""
