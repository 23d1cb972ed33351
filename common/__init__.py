"""What both sides share: settings, graph, models, numerics, wire records."""
