"""Updates of a phase as one: in clear, or under masks."""
