"""Evidence packs: writing, verifying, showing."""
