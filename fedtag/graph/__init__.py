"""A graph of texts as its owner has it: what is wrong with it, and the remedy."""
