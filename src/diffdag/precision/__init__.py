"""Differences of precision matrices."""
