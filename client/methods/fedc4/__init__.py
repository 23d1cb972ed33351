"""FedC4 at a client."""

from fedtag.client.methods.fedc4.method import METHOD as METHOD
