"""``from captious.compat.pycocoevalcap.cider.cider import Cider``."""

from captious.compat.pycocoevalcap._scorers import Cider

__all__ = ["Cider"]
