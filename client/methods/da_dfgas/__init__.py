"""DA-DFGAS on the client: search of an architecture, then training of what it was discretised to."""

from fedtag.client.methods.da_dfgas.method import METHOD as METHOD
