"""Search over causal orders for the sparsest change (METHOD 3d): the default method."""
