"""Pictures on matplotlib's axes. Whoever imports any of them without matplotlib is told how to install it."""

from diffdag._base.extras import extra

with extra("matplotlib", "plots"):
    import matplotlib  # noqa: F401
