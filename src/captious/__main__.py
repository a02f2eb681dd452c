"""``python -m captious``."""

from captious.cli import entry

entry()
