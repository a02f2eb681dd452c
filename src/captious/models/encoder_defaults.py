"""What is known of single text encoders: layers, thresholds, baselines, training data.

BERTScore's layers are the ones its authors tuned on translation; BERT-TBR's layer 8 and threshold
0.4 for BERT-base are those of its release, 0.83 for RoBERTa-large those of its paper. Baselines
are the mean BERTScore (P, R, F) of random sentence pairs. For the two encoders that install from
the package registry (``minilm``, ``mpnet``) the layer was chosen on one half of Flickr8k's images
(docs/decisions, 11) and the threshold is the rule for models without a published one: the
recall of random pairs, by ``captious calibrate`` on COCO captions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Baseline = tuple[float, float, float]

SEEN_CAPTIONS = "trained on COCO and Flickr30k captions among others"


@dataclass(frozen=True)
class EncoderDefaults:
    """Facts about one encoder.

    Attributes:
        bertscore_layer: hidden state for BERTScore (0 is the embedding output).
        tbr_layer: hidden state for BERT-TBR.
        threshold: BERT-TBR's cut for ``tbr_layer``; None = calibrate first.
        baselines: hidden state -> BERTScore (P, R, F) of random pairs.
        baseline_texts: what the random pairs were drawn from.
        asset: manifest entry that brings the weights; "" = the model hub or a path.
        caution: what a reader of human correlations must know.
    """

    bertscore_layer: int
    tbr_layer: int
    threshold: float | None = None
    baselines: dict[int, Baseline] = field(default_factory=dict)
    baseline_texts: str = ""
    asset: str = ""
    caution: str = ""


_CRAWL = "web text, published with bert-score"
_COCO = "COCO val2014 captions, by captious calibrate"

KNOWN: dict[str, EncoderDefaults] = {
    "minilm": EncoderDefaults(
        6,
        6,
        0.19,
        {
            0: (0.3894, 0.3907, 0.3874),
            1: (0.4724, 0.4733, 0.4712),
            2: (0.4912, 0.4921, 0.4904),
            3: (0.4893, 0.4901, 0.4886),
            4: (0.4908, 0.4914, 0.4900),
            5: (0.5139, 0.5146, 0.5123),
            6: (0.1877, 0.1886, 0.1868),
        },
        _COCO,
        "encoder-minilm",
        SEEN_CAPTIONS,
    ),
    "mpnet": EncoderDefaults(
        12,
        12,
        0.13,
        {
            0: (0.3297, 0.3288, 0.3244),
            1: (0.3410, 0.3407, 0.3375),
            2: (0.3558, 0.3547, 0.3528),
            3: (0.3727, 0.3712, 0.3699),
            4: (0.3896, 0.3879, 0.3866),
            5: (0.4097, 0.4077, 0.4067),
            6: (0.4219, 0.4203, 0.4194),
            7: (0.4211, 0.4195, 0.4187),
            8: (0.4156, 0.4135, 0.4127),
            9: (0.4121, 0.4097, 0.4089),
            10: (0.3873, 0.3849, 0.3841),
            11: (0.3694, 0.3670, 0.3663),
            12: (0.1346, 0.1342, 0.1313),
        },
        _COCO,
        "encoder-mpnet",
        SEEN_CAPTIONS,
    ),
    "bert-base-uncased": EncoderDefaults(
        9,
        8,
        0.4,
        {8: (0.37231025, 0.37226102, 0.37049443), 9: (0.35375935, 0.3537393, 0.35219112)},
        _CRAWL,
    ),
    "roberta-large": EncoderDefaults(
        17, 17, 0.83, {17: (0.83150584, 0.8314941, 0.83122575)}, _CRAWL
    ),
    "bert-large-uncased": EncoderDefaults(18, 18),
    "roberta-base": EncoderDefaults(10, 10),
    "bert-base-multilingual-cased": EncoderDefaults(9, 9),
    "distilbert-base-uncased": EncoderDefaults(5, 5),
    "microsoft/deberta-xlarge-mnli": EncoderDefaults(40, 40),
}


def defaults(name: str) -> EncoderDefaults | None:
    """Return what is known of an encoder (hub names with or without their owner), or None.

    Example:
        >>> defaults("google-bert/bert-base-uncased").bertscore_layer
        9
    """
    if name in KNOWN:
        return KNOWN[name]
    owner, _, short = name.partition("/")
    if owner in {"google-bert", "FacebookAI", "distilbert"}:
        return KNOWN.get(short)
    return None
