"""FedGC on the server: self-training, then one condensed graph from the clients' gradients."""

from fedtag.server.methods.fedgc.method import FedGC

METHOD = FedGC()
