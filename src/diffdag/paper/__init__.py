"""Algorithm 1 of the paper, from differences to the graph."""
