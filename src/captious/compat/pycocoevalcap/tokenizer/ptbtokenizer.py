"""``from captious.compat.pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer``."""

from captious.compat.pycocoevalcap._scorers import PTBTokenizer

__all__ = ["PTBTokenizer"]
