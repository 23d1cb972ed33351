"""How Flower's tasks become work: processes forked from one that is ready, and a SuperNode that waits little."""
