"""What the captioning tasks of lmms-eval and VLMEvalKit call, without Java.

lmms-eval: a task's ``utils.py`` names its aggregations in YAML (``!function utils.coco_cider``);
the functions here have those names and take the same results, those of the tasks flickr30k
(``flickr_cider``), nocaps, textcaps and vatex too. They write no submission file, and
``coco_spice`` gives a value where lmms-eval has no scorer. VLMEvalKit: its caption data sets
make a ``COCO_Caption_Scorer(ref, gt)`` and call ``compute_scores()``.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from captious.compat.pycocoevalcap import Bleu, Cider, Meteor, PTBTokenizer, Rouge, Spice

__all__ = [
    "COCO_Caption_Scorer",
    "coco_aggregation_result",
    "coco_bleu1",
    "coco_bleu2",
    "coco_bleu3",
    "coco_bleu4",
    "coco_cider",
    "coco_meteor",
    "coco_rougel",
    "coco_spice",
]

_SCORERS: dict[str, Any] = {
    "Bleu_1": Bleu,
    "Bleu_2": Bleu,
    "Bleu_3": Bleu,
    "Bleu_4": Bleu,
    "METEOR": Meteor,
    "ROUGE_L": Rouge,
    "CIDEr": Cider,
    "SPICE": Spice,
}


def coco_aggregation_result(
    results: Sequence[Mapping[str, Any]], metric: str, args: Any = None
) -> float:
    """Return the corpus value of a metric, as the function of lmms-eval does.

    Args:
        results: what ``process_results`` gave per image: ``pred``, ``answer``, ``image_id``.
        metric: ``Bleu_1`` to ``Bleu_4``, ``METEOR``, ``ROUGE_L``, ``CIDEr``, ``SPICE``.
        args: of the harness; not read.

    Raises:
        KeyError: a metric or a field of a result that is not there, with its index.
        TypeError: a caption or reference that is no text, with its index.
    """
    if metric not in _SCORERS:
        raise KeyError(f"{metric!r} is not offered here; the metrics are {', '.join(_SCORERS)}")
    gts: dict[Any, list[dict[str, str]]] = {}
    res: dict[Any, list[dict[str, str]]] = {}
    for i, result in enumerate(results):
        absent = [name for name in ("pred", "answer", "image_id") if name not in result]
        if absent:
            raise KeyError(f"results[{i}] has no {absent[0]!r}")
        answers = result["answer"]
        texts = [answers] if isinstance(answers, str) else list(answers)
        if not all(isinstance(text, str) for text in (result["pred"], *texts)):
            raise TypeError(f"results[{i}]: pred and answer must be texts")
        # Two results of one image: its answers are joined and the last caption counts, as there.
        gts.setdefault(result["image_id"], []).extend({"caption": text} for text in texts)
        res[result["image_id"]] = [{"caption": result["pred"]}]
    tokenizer = PTBTokenizer()
    with contextlib.redirect_stdout(io.StringIO()):
        score, _ = _SCORERS[metric]().compute_score(
            tokenizer.tokenize(gts), tokenizer.tokenize(res)
        )
    return float(score[int(metric[-1]) - 1] if isinstance(score, list) else score)


def coco_bleu4(results: Any, args: Any = None) -> float:
    """Return BLEU-4."""
    return coco_aggregation_result(results, "Bleu_4", args)


def coco_bleu3(results: Any, args: Any = None) -> float:
    """Return BLEU-3."""
    return coco_aggregation_result(results, "Bleu_3", args)


def coco_bleu2(results: Any, args: Any = None) -> float:
    """Return BLEU-2."""
    return coco_aggregation_result(results, "Bleu_2", args)


def coco_bleu1(results: Any, args: Any = None) -> float:
    """Return BLEU-1."""
    return coco_aggregation_result(results, "Bleu_1", args)


def coco_meteor(results: Any, args: Any = None) -> float:
    """Return METEOR."""
    return coco_aggregation_result(results, "METEOR", args)


def coco_rougel(results: Any, args: Any = None) -> float:
    """Return ROUGE-L."""
    return coco_aggregation_result(results, "ROUGE_L", args)


def coco_cider(results: Any, args: Any = None) -> float:
    """Return CIDEr-D, which the toolkit calls CIDEr."""
    return coco_aggregation_result(results, "CIDEr", args)


def coco_spice(results: Any, args: Any = None) -> float:
    """Return SPICE with the parser of captious: not the number of the Java tool."""
    return coco_aggregation_result(results, "SPICE", args)


_TASKS = ("flickr", "nocaps", "textcaps", "vatex")


def __getattr__(name: str) -> Any:
    """Return the function of another task: it does what that of COCO does."""
    task, _, what = name.partition("_")
    if task in _TASKS and f"coco_{what}" in __all__:
        return globals()[f"coco_{what}"]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class COCO_Caption_Scorer:
    """The scorer of VLMEvalKit's caption data sets.

    Args:
        ref: image -> list of the one caption that is judged (it is called ``ref`` there).
        gt: image -> list of references.
    """

    def __init__(self, ref: Mapping[Any, list[str]], gt: Mapping[Any, list[str]]) -> None:
        self.ref, self.gt = ref, gt
        print("setting up scorers...")
        self.scorers: list[tuple[Any, Any]] = [
            (Bleu(4), ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4"]),
            (Rouge(), "ROUGE_L"),
            (Cider(), "CIDEr"),
        ]

    def compute_scores(self) -> dict[str, Any]:
        """Return values times 100 (``Bleu`` is a list of four) and print them as there."""
        total: dict[str, Any] = {}
        for scorer, method in self.scorers:
            print(f"computing {scorer.method()} score...")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # one image has CIDEr 0, as there
                score, _ = scorer.compute_score(self.gt, self.ref)
            if isinstance(method, list):
                for value, name in zip(score, method, strict=True):
                    print(f"{name}: {value * 100:0.3f}")
                total["Bleu"] = [value * 100 for value in score]
            else:
                print(f"{method}: {score * 100:0.3f}")
                total[method] = score * 100
        print("*****DONE*****")
        for key, value in total.items():
            print(f"{key}:{value}")
        return total
