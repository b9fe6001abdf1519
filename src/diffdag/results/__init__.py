"""The frozen records of a result."""
