"""``from captious.compat.pycocoevalcap.rouge.rouge import Rouge``."""

from captious.compat.pycocoevalcap._scorers import Rouge

__all__ = ["Rouge"]
