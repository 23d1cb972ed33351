"""A process of the site that keeps its data, models and device ready between Flower's messages."""
