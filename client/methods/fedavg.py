"""FedAvg (McMahan et al., 2017): train the received model on the local graph, upload the difference.

With train.prox-mu above 0 it is FedProx (Li et al., 2020); with a condenser the model is trained on what it makes of
the graph, and scored on the full one all the same.
"""

from __future__ import annotations

from fedtag.client.methods.base import ClientMethod

METHOD = ClientMethod[None]()
