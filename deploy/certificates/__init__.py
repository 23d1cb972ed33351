"""Who may speak with whom: certificates, keys, names."""
