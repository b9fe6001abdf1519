"""Search over causal orders for the sparsest change: the default method."""
