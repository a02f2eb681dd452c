"""``from captious.compat.pycocoevalcap.eval import COCOEvalCap``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from captious.compat.pycocoevalcap._scorers import Bleu, Cider, Meteor, PTBTokenizer, Rouge, Spice

__all__ = ["Bleu", "COCOEvalCap", "Cider", "Meteor", "PTBTokenizer", "Rouge", "Spice"]


class COCOEvalCap:
    """Scores COCO results against COCO annotations.

    Args:
        coco: the references: a ``pycocotools.coco.COCO``, or anything with ``getImgIds()`` and
            ``imgToAnns``.
        cocoRes: the captions, one per image, likewise (``coco.loadRes(file)``).

    Attributes:
        params: ``params["image_id"]`` are the images to score; all of ``coco`` at first.
        eval: metric -> corpus value, after :meth:`evaluate`.
        imgToEval: image -> metric -> value.
        evalImgs: the same as a list.
    """

    def __init__(self, coco: Any, cocoRes: Any) -> None:
        self.evalImgs: list[dict[str, Any]] = []
        self.eval: dict[str, Any] = {}
        self.imgToEval: dict[Any, dict[str, Any]] = {}
        self.coco = coco
        self.cocoRes = cocoRes
        self.params: dict[str, Any] = {"image_id": coco.getImgIds()}

    def evaluate(self) -> None:
        """Score with every metric and print as pycocoevalcap does."""
        imgIds = self.params["image_id"]
        gts = {imgId: self.coco.imgToAnns[imgId] for imgId in imgIds}
        res = {imgId: self.cocoRes.imgToAnns[imgId] for imgId in imgIds}
        print("tokenization...")
        tokenizer = PTBTokenizer()
        gts_tokens, res_tokens = tokenizer.tokenize(gts), tokenizer.tokenize(res)
        print("setting up scorers...")
        scorers: list[tuple[Any, Any]] = [
            (Bleu(4), ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4"]),
            (Meteor(), "METEOR"),
            (Rouge(), "ROUGE_L"),
            (Cider(), "CIDEr"),
            (Spice(), "SPICE"),
        ]
        for scorer, method in scorers:
            print(f"computing {scorer.method()} score...")
            score, scores = scorer.compute_score(gts_tokens, res_tokens)
            if isinstance(method, list):
                for sc, scs, m in zip(score, scores, method, strict=True):
                    self.setEval(sc, m)
                    self.setImgToEvalImgs(scs, gts_tokens.keys(), m)
                    print(f"{m}: {sc:0.3f}")
            else:
                # SPICE returns the images in sorted order. pycocoevalcap gives them to the images
                # in their own order, which mixes them up where the ids are not sorted.
                keys = sorted(gts_tokens) if method == "SPICE" else gts_tokens.keys()
                self.setEval(score, method)
                self.setImgToEvalImgs(scores, keys, method)
                print(f"{method}: {score:0.3f}")
        self.setEvalImgs()

    def setEval(self, score: Any, method: str) -> None:
        """Note a corpus value."""
        self.eval[method] = score

    def setImgToEvalImgs(self, scores: Iterable[Any], imgIds: Iterable[Any], method: str) -> None:
        """Note the values of images."""
        for imgId, score in zip(imgIds, scores, strict=False):
            self.imgToEval.setdefault(imgId, {"image_id": imgId})[method] = score

    def setEvalImgs(self) -> None:
        """Make the list of images from the dictionary of images."""
        self.evalImgs = list(self.imgToEval.values())
