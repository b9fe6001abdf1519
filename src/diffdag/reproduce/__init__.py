"""The paper's experiments, and the methods it is compared with."""
