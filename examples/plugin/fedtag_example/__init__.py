"""A method, a part, a condenser and a backbone for fedtag, from outside of it."""
