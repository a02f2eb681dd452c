"""Names of metrics as people write them, and groups of metrics.

pycocoevalcap prints ``Bleu_4``, ``METEOR``, ``ROUGE_L``, ``CIDEr``, ``SPICE``; papers print
``CIDEr-D`` and ``BLEU@4``. All of these are understood, in any case.
"""

from __future__ import annotations

import re

COCO = "coco"
"""The default: what is installed of the metrics that COCO's own tool prints."""

GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    COCO: {"bleu": (), "meteor": (), "rouge_l": (), "cider_d": (), "spice": ("spice",)},
    "papers": {
        "tiger": ("tiger",),
        "eval_mwcs": (),
        "bert_tbr": (),
        "vilbertscore": ("vilbertscore_f",),
        "vifidel": (),
    },
    "fast": {"bleu": (), "rouge_l": (), "cider_d": ()},
}
"""Group -> metric -> the columns to show (none named: all of them)."""

MEANING: dict[str, str] = {
    COCO: "what pycocoevalcap prints: BLEU-1 to 4, METEOR, ROUGE-L, CIDEr-D, SPICE (the default)",
    "papers": "the metrics of the five papers",
    "free": "all that need no references",
    "fast": "the n-gram metrics, which need no model",
    "all": "everything that can run here on your files",
}
"""What each group is; ``free`` and ``all`` are worked out from the registry."""

_OTHER: dict[str, str] = {
    "ciderd": "cider_d",
    "cider": "cider_d",
    "rouge": "rouge_l",
    "bertscoref1": "bertscore_f",
    "wordmoversdistance": "wmd",
    **{f"b{n}": f"bleu_{n}" for n in range(1, 5)},
}
"""A name in plain letters and digits -> ours; our own spelling, ``cider``, stays what it is."""

VARIANT: dict[str, str] = {
    "bleu": "corpus BLEU without smoothing on PTB tokens, as pycocoevalcap computes it",
    "meteor": "METEOR 1.5 with the tables of its jar, without Java",
    "rouge_l": "the F-score of ROUGE-L with beta 1.2, as pycocoevalcap computes it",
    "cider_d": "CIDEr-D, which pycocoevalcap prints as CIDEr; document frequencies come from "
    "these references. The original CIDEr is called cider",
    "cider": "the original CIDEr; what pycocoevalcap prints as CIDEr is cider_d",
    "spice": "SPICE with captious' own parser; the Java tool's values differ a little",
}
"""Which variant of a well-known name a metric is."""


def letters(name: str) -> str:
    """Return a name in small letters and digits.

    Example:
        >>> letters("BLEU@4"), letters("CIDEr-D")
        ('bleu4', 'ciderd')
    """
    return re.sub(r"[^a-z0-9]", "", name.lower())


def other_name(name: str) -> str | None:
    """Return our name for a name of other tools, if it is one.

    Example:
        >>> other_name("CIDEr"), other_name("B@4"), other_name("dog")
        ('cider_d', 'bleu_4', None)
    """
    return _OTHER.get(letters(name))
