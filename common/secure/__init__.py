"""Sums that hide what was added: fixed point, masks, shares, identities and what is signed."""
