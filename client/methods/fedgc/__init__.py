"""FedGC on the client: self-training, class-wise gradients, fine-tuning."""

from fedtag.client.methods.fedgc.method import METHOD as METHOD
