"""Pictures on matplotlib's axes."""
