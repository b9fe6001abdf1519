"""How far a result can be trusted."""
