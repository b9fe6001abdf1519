"""Algorithm 1 of the paper, one file a function of it."""
