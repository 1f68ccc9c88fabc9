"""``python -m lanefold``."""

from lanefold.cli import main

main()
