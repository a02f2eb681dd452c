"""pycocoevalcap 1.2 without Java: change the import and the script works.

``pycocoevalcap.eval`` becomes ``captious.compat.pycocoevalcap.eval``, and so on; all names are here
too. Keys, order, printed lines and return values are those of pycocoevalcap. BLEU, METEOR, ROUGE-L,
CIDEr and the tokens are its numbers; **SPICE is not**: it is computed with another parser (see
:class:`Spice`).
"""

from captious.compat.pycocoevalcap._scorers import Bleu, Cider, Meteor, PTBTokenizer, Rouge, Spice
from captious.compat.pycocoevalcap.eval import COCOEvalCap

__all__ = ["Bleu", "COCOEvalCap", "Cider", "Meteor", "PTBTokenizer", "Rouge", "Spice"]
