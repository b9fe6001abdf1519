"""``python -m diffdag``."""

from diffdag.cli import main

main()
