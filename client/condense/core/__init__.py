"""The core of a graph: its most telling real nodes, chosen anew by the received model."""
