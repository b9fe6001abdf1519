"""Stub, until the façade lands."""

from diffdag.results.result import DifferenceResult as Difference

__all__ = ["Difference"]
