"""``from captious.compat.pycocoevalcap.spice.spice import Spice``."""

from captious.compat.pycocoevalcap._scorers import Spice

__all__ = ["Spice"]
