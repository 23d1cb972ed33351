"""FedGC on the client: self-training, class-wise gradients, fine-tuning."""

from client.methods.fedgc.method import FedGC

METHOD = FedGC()
