"""``from captious.compat.pycocoevalcap.bleu.bleu import Bleu``."""

from captious.compat.pycocoevalcap._scorers import Bleu

__all__ = ["Bleu"]
