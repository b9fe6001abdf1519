"""The compiled core of the order search."""
