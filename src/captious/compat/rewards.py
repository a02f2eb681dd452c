"""Metrics as rewards for training: ``captious.reward("cider_d")``.

A reward is called as TRL calls it, ``reward(prompts, completions, **columns) -> list``; its methods
``verl`` and ``openrlhf`` have the signatures of those trainers. It is a prepared scorer with frozen
document frequencies, so that a completion's reward does not depend on its batch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from captious.engine.scorer import Scorer
from captious.errors import InputError, UsageError
from captious.metrics.base import Metric, Need
from captious.types import Column, Floats

__all__ = ["Reward", "reward"]

REFERENCE_COLUMNS = ("references", "reference", "captions", "ground_truth", "answer", "solution")
# Marks of beginning and end, as tokenizers of chat models write them, at either end of a response.
_MARK = (
    r"(?:<\|[^<>|\s]{1,40}\|>|</?s>|<(?:bos|eos|pad|end_of_turn|end_of_utterance)>|\[(?:EOS|PAD)\])"
)
MARKS = re.compile(rf"^(?:\s*{_MARK})+|(?:{_MARK}\s*)+$")
IMAGE_COLUMNS = ("image", "images", "image_path")


class Reward:
    """Weighted metrics of completions; :func:`reward` says how it is made."""

    def __init__(
        self,
        metrics: Any = "cider_d",
        weights: Sequence[float] | None = None,
        scale: bool = False,
        length: tuple[int, int] | None = None,
        outside: float | None = 0.0,
        references: str | None = None,
        images: str | None = None,
        extract: Callable[[str], str | None] | None = None,
        df: str = "coco-val",
        name: str | None = None,
    ) -> None:
        self._given = (
            metrics, weights, scale, length, outside, references, images, extract, df, name,
        )  # fmt: skip
        if isinstance(metrics, Mapping):
            if weights is not None:
                raise UsageError("weights are given twice: in metrics and in weights")
            metrics, weights = list(metrics), list(metrics.values())
        self.scorer = Scorer(metrics, None, df)
        columns = [column for step in self.scorer.steps for column in step.columns]
        names = self.scorer.columns
        if weights is None:
            if len(names) > 1 and not isinstance(metrics, list | tuple):
                raise UsageError(
                    f"{metrics} has several columns ({', '.join(names)}): name one, or give weights"
                )
            weights = [1.0] * len(names)
        if len(weights) != len(names):
            raise UsageError(f"{len(names)} columns ({', '.join(names)}), {len(weights)} weights")
        if not all(map(math.isfinite, weights)) or not any(weights):
            raise UsageError(f"weights are numbers that are not all zero, not {list(weights)}")
        if length is not None and not 0 <= length[0] <= length[1]:
            raise UsageError(f"length is (fewest, most) words, not {length!r}")
        self.weights = dict(zip(names, map(float, weights), strict=True))
        self.scale, self.length, self.outside = scale, length, outside
        self._columns = dict(zip(names, columns, strict=True))
        if scale:
            for column in columns:
                if not math.isfinite(column.high - column.low):
                    raise UsageError(f"{column.name} has no bounds, so it cannot be scaled to 0..1")
        self._references, self._images, self._extract = references, images, extract
        self._needs = frozenset[Need]().union(*(s.metric.needs for s in self.scorer.steps))
        self.__name__ = name or "_".join([*names, "reward"])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._given

    def __repr__(self) -> str:
        return f"captious.reward({self.weights}{', scale=True' if self.scale else ''})"

    def __call__(
        self, prompts: Any = None, completions: Any = None, **columns: Any
    ) -> list[float | None]:
        """Return one reward per completion, as TRL asks for it.

        Args:
            prompts: not read.
            completions: texts, or conversations whose last assistant message is the caption.
            **columns: of the data set; those with references (and images) are read.

        Returns:
            None where there is no reference, no caption in the completion, or no value.

        Raises:
            ValueError: naming every completion and reference that cannot be read.
        """
        if completions is None:
            raise ValueError("a reward is called with completions=[...]")
        texts = self._texts(completions)
        references = self._column(columns, self._references, REFERENCE_COLUMNS, len(texts))
        if references is None and Need.REFERENCES in self._needs:
            raise ValueError(
                f"no column holds references. Looked for: "
                f"{self._references or ', '.join(REFERENCE_COLUMNS)}; the data set has: "
                f"{', '.join(columns) or 'none'}. Name the column with "
                "captious.reward(references=...)"
            )
        looking = any(need is not Need.REFERENCES for need in self._needs)
        images = self._column(columns, self._images, IMAGE_COLUMNS, len(texts)) if looking else None
        return self._rewards(texts, references, images)

    def verl(
        self,
        data_source: Any = None,
        solution_str: str | None = None,
        ground_truth: Any = None,
        extra_info: Any = None,
        *,
        data_sources: Any = None,
        solution_strs: Sequence[str] | None = None,
        ground_truths: Any = None,
        extra_infos: Any = None,
        **others: Any,
    ) -> float | list[float]:
        """Return a reward as verl's ``compute_score`` does: of one solution, or of a batch.

        verl has no "does not apply": where TRL would get None, verl gets 0.0. Metrics that look
        take the photograph from ``extra_info`` (``image``, ``images``, ``image_path``, or the name
        given as ``images=``).
        """
        single = solution_strs is None
        if single:
            if solution_str is None:
                raise ValueError("solution_str (or solution_strs) is missing")
            solution_strs, ground_truths, extra_infos = [solution_str], [ground_truth], [extra_info]
        texts = [] if solution_strs is None else list(solution_strs)
        infos = [] if extra_infos is None else list(extra_infos)  # verl hands over arrays
        columns = {self._references or "references": _rows(ground_truths)}
        for name in (self._images,) if self._images else IMAGE_COLUMNS:
            found = [i.get(name) if isinstance(i, Mapping) else None for i in infos]
            if any(image is not None for image in found):
                columns[name] = found
        rewards = self(completions=texts, **columns)
        values = [0.0 if value is None else value for value in rewards]
        return values[0] if single else values

    def openrlhf(self, queries: Any, prompts: Any, labels: Any, **others: Any) -> dict[str, Any]:
        """Return rewards as OpenRLHF's ``reward_func`` does.

        Args:
            queries: prompt and response in one text, with the marks of the model (``</s>``,
                ``<|im_end|>``): OpenRLHF decodes them with everything in it. Marks are taken away.
            prompts: the prompts, which are cut off the front.
            labels: references of each: one text, or several.
            **others: not read.

        Returns:
            ``rewards`` and ``scores`` as tensors, and ``extra_logs``; 0.0 where there is none.
        """
        import torch

        responses = [_response(q, p) for q, p in zip(queries, prompts, strict=True)]
        columns = {self._references or "references": _rows(labels)}
        values = self(completions=responses, **columns)
        rewards = torch.tensor([0.0 if v is None else v for v in values], dtype=torch.float32)
        return {"rewards": rewards, "scores": rewards, "extra_logs": {self.__name__: rewards}}

    # -- reading -----------------------------------------------------------------------------

    def _texts(self, completions: Any) -> list[str | None]:
        problems: list[str] = []
        texts: list[str | None] = []
        for i, completion in enumerate(completions):
            text = _said(completion)
            if text is None:
                problems.append(
                    f"completions[{i}] is neither a text nor a conversation with an assistant's "
                    f"message: {repr(completion)[:80]}"
                )
            elif self._extract is not None:
                text = self._extract(text)
            texts.append(None if text is None else text.strip())
        if problems:
            raise ValueError("\n".join(problems))
        return texts

    def _column(
        self, columns: Mapping[str, Any], named: str | None, known: Iterable[str], size: int
    ) -> list[Any] | None:
        name = named or next((n for n in known if columns.get(n) is not None), None)
        if name is None or columns.get(name) is None:
            return None
        rows = list(columns[name])
        if len(rows) != size:
            raise ValueError(f"{size} completions, but the column {name!r} has {len(rows)} rows")
        return rows

    def _rewards(
        self, texts: list[str | None], references: list[Any] | None, images: list[Any] | None
    ) -> list[float | None]:
        out: list[float | None] = [None] * len(texts)
        rows = []
        needed = references is not None and Need.REFERENCES in self._needs
        for i, text in enumerate(texts):
            if text is None or (needed and _nothing(references[i])):  # type: ignore[index]
                continue
            if self.length is not None:
                words = len(text.split())
                if not self.length[0] <= words <= self.length[1]:
                    out[i] = self.outside
                    continue
            rows.append(i)
        if not rows:
            return out
        try:
            scores = self.scorer(
                {str(i): texts[i] for i in rows},
                None if references is None else {str(i): references[i] for i in rows},
                images=None if images is None else {str(i): _first(images[i]) for i in rows},
            )
        except InputError as err:
            raise ValueError(str(err)) from err
        total = np.zeros(len(rows))
        for name, weight in self.weights.items():
            if weight:
                total += weight * self._scaled(scores[name], self._columns[name])
        if self.scale:
            total /= sum(map(abs, self.weights.values()))
        for i, value in zip(rows, total.tolist(), strict=True):
            out[i] = None if math.isnan(value) else value
        return out

    def _scaled(self, values: Floats, column: Column) -> Floats:
        if not self.scale:
            return values
        share = np.clip((values - column.low) / (column.high - column.low), 0.0, 1.0)
        return share if column.higher_is_better else 1.0 - share


def reward(
    metrics: str | Metric | Mapping[str, float] | Sequence[Any] = "cider_d",
    *,
    weights: Sequence[float] | None = None,
    scale: bool = False,
    length: tuple[int, int] | None = None,
    outside: float | None = 0.0,
    references: str | None = None,
    images: str | None = None,
    extract: Callable[[str], str | None] | None = None,
    df: str = "coco-val",
    name: str | None = None,
) -> Reward:
    """Make a reward function of metrics.

    Args:
        metrics: a name or spec, several, or ``{"cider_d": 1.0, "bleu_4": 0.5}``.
        weights: one per column; 1 each if None.
        scale: whether every column is brought to 0..1 by its bounds (CIDEr-D: divided by 10) and
            the reward is their weighted mean; else it is the weighted sum of the columns.
        length: fewest and most words of a completion that is scored.
        outside: the reward of one that is shorter or longer; None to leave it out.
        references: the column of the data set that holds them; a usual name if None.
        images: the column that holds them, for metrics that look.
        extract: gives the caption within a completion, or None if there is none.
        df: document frequencies: ``coco-val`` or a file of ``captious df build``.
        name: what the trainer's log calls it.

    Example:
        >>> judge = reward("rouge_l")
        >>> judge(prompts=["?", "?"], completions=["a dog", "a cat"], references=[["a dog"], None])
        [1.0, None]
    """
    return Reward(
        metrics, weights, scale, length, outside, references, images, extract, df, name
    )  # fmt: skip


def _said(completion: Any) -> str | None:
    """Return the text of a completion; of a conversation, the assistant's last message."""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Mapping):
        completion = [completion]
    if not isinstance(completion, Sequence) or isinstance(completion, bytes):
        return None
    for message in reversed(completion):
        if isinstance(message, Mapping) and message.get("role", "assistant") == "assistant":
            content = message.get("content")
            if isinstance(content, str):
                return content
            if isinstance(content, Sequence) and not isinstance(content, bytes):
                parts = [p.get("text") for p in content if isinstance(p, Mapping)]
                return "".join(p for p in parts if isinstance(p, str))
            return None
    return None


def _response(query: str, prompt: str) -> str:
    """Return what follows the prompt, without the marks of the model around it."""
    if not query.startswith(prompt):  # a mark in front, or other spaces: the tokenizer's doing
        found = query.find(prompt.strip())
        query = query[max(found, 0) :]
        prompt = prompt.strip() if found >= 0 else ""
    return MARKS.sub("", query[len(prompt) :])


def _nothing(references: Any) -> bool:
    return references is None or (hasattr(references, "__len__") and len(references) == 0)


def _first(image: Any) -> Any:
    if isinstance(image, list | tuple):
        return image[0] if image else None
    return image


def _rows(labels: Any) -> list[Any]:
    """Return references per row; arrays, as data frames hold them, become lists."""
    rows = [labels] if isinstance(labels, str) else list(labels)
    return [r.tolist() if hasattr(r, "tolist") else r for r in rows]
