"""Whether what the method assumes looks right."""
