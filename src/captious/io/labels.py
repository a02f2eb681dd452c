"""Names as papers print them, and how numbers are shown: x100 where the field does."""

from __future__ import annotations

from captious.types import Column

_LABELS = {
    "rouge_l": "ROUGE-L",
    "cider": "CIDEr",
    "cider_d": "CIDEr-D",
    "meteor": "METEOR",
    "spice": "SPICE",
    "spider": "SPIDEr",
    "tiger": "TIGEr",
    "rrs": "TIGEr RRS",
    "wds": "TIGEr WDS",
    "vifidel": "VIFIDEL",
    "vifidel_cider": "VIFIDEL+CIDEr",
    "vifidel_lm": "VIFIDEL+LM",
    "wmd": "WMD",
    "lm": "LM",
    "chair": "CHAIR",
    "chair_s": "CHAIRs",
    "chair_i": "CHAIRi",
    "chair_recall": "CHAIR recall",
    "chair_f1": "CHAIR F1",
    "scan": "SCAN",
    "scan_similarity": "SCAN similarity",
    "scan_words": "SCAN words",
    "bert_tbr": "BERT-TBR",
    "unigram_tbr": "unigram-TBR",
    "bertscore_p": "BERTScore P",
    "bertscore_r": "BERTScore R",
    "bertscore_f": "BERTScore F",
    "vilbertscore_p": "ViLBERTScore P",
    "vilbertscore_r": "ViLBERTScore R",
    "vilbertscore_f": "ViLBERTScore F",
}


def label(column: str) -> str:
    """Return the name of a column as papers print it.

    Example:
        >>> label("bleu_4"), label("cider_d"), label("spice_object"), label("captious_ref")
        ('BLEU-4', 'CIDEr-D', 'SPICE object', 'captious_ref')
    """
    if column.startswith("bleu_") and column[5:].isdigit():
        return f"BLEU-{column[5:]}"
    if column.startswith("spice_"):
        return f"SPICE {column[6:]}"
    return _LABELS.get(column, column)


def times(column: Column) -> int:
    """Return by what a value is multiplied when it is shown."""
    return 100 if abs(column.high) <= 10 else 1
