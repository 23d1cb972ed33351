"""What turns Flower's tasks into work: forked processes that run what is installed, and a SuperNode that waits little."""
