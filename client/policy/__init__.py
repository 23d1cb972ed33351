"""What an institution allows, whatever a server asks for."""
