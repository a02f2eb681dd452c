"""judge: what does a vision-language model say of the caption?

The model looks at the photograph and rates the caption from 0.0 to 1.0. As in FLEUR (Lee et al.,
ACL 2024), the score is not the number that it writes but the mean over the digits that it could
have written, by their probabilities:

    judge = sum over digits d of p(d at the first decimal) x d / 10   (likewise a second decimal)
    judge = p(1) + 0.9 x p(0) where it writes 1.0

Worked example: it writes 0.8, with p(8) = 0.5, p(9) = 0.25, p(7) = 0.25: judge 0.8; with p(9) = 0.5
and p(8) = 0.5 it is 0.85.

``endpoint`` is any OpenAI-compatible address (vLLM, llama.cpp, Ollama, a service), ``model`` a name
it knows. Without an endpoint, ``model`` is the folder or hub name of a vision-language model of
transformers (LLaVA, Qwen-VL, Idefics, ...), which is asked on this machine. Answers are kept in a
file by content; ``offline=true`` replays them and asks nobody, so that others can verify the
numbers without the model. ``mode='pairwise'`` asks instead which of caption and reference is
better, in both orders, and gives the mean probability of the caption. Questions, stored answers and
tokens are counted in the notes. Where a service gives no probabilities (one that refuses to is
asked without), the written number stands and is counted. The explanation shows what was written and
the probabilities behind the score.

**Not verified here**: no judge of useful size runs on the machine this was built on. The arithmetic
equals that of FLEUR's released code (tests/golden/fleur); asking is tested with a stub service and
with a tiny LLaVA of made-up weights. FLEUR reports tau-c 53.0 on Flickr8k-Expert with LLaVA-1.5
13B; its prompt is not ours. There is no ``profile``: what FLEUR fixes is the smoothing, and ours is
that of its code. Another question is a ``prompt``, another model a ``model``.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from captious import settings
from captious.errors import CaptiousError, InputError, MissingExtra, UsageError
from captious.evidence.images import open_photograph, photograph_digest
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.progress import Progress
from captious.reading import read_text
from captious.types import CaptionSet, Sample, WordMark, WordMarks

if TYPE_CHECKING:
    from captious.models.judge_answers import Answer, AnswerFile, Question

PROMPTS = {
    "rating": "Look at the picture and rate how well the caption describes it. 0.0 means that the "
    "caption has nothing to do with the picture, 1.0 that it describes the picture correctly and "
    "clearly. Answer with one number from 0.0 to 1.0 and nothing else.\n\nCaption: {caption}\n\n"
    "Rating:",
    "pairwise": "Look at the picture. Which of the two captions describes it better? Answer with "
    "the letter A or B and nothing else.\n\nA: {caption}\nB: {other}\n\nAnswer:",
}
_SIDE = 672
_CHOICES = 10


@dataclass(frozen=True)
class Judge(Metric):
    """judge: rating of a vision-language model, smoothed over the digits' probabilities.

    Args:
        model: name of the model at the endpoint; without an endpoint, folder or hub name of a
            vision-language model of transformers; to replay, the name in the signature.
        endpoint: OpenAI-compatible address, ``http://localhost:8000/v1``; empty for a local model.
        mode: ``rating``, or ``pairwise`` against the references.
        prompt: file with the question, ``{caption}`` (and ``{other}``) in it; empty for ours.
        answers: file of stored answers; empty for the one in the cache.
        offline: only replay stored answers.
        dtype: number type of a local model, ``auto`` for that of its weights.
    """

    model: str = "default"
    endpoint: str = ""
    mode: str = "rating"
    prompt: str = ""
    answers: str = ""
    offline: bool = False
    dtype: str = "auto"

    name: ClassVar[str] = "judge"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("judge", 0.0, 1.0, "rating by a vision-language model"),
    )
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IMAGE_PIXELS})
    modules: ClassVar[dict[str, str]] = {"PIL": "vision"}
    empty: ClassVar[float] = float("nan")
    batch: ClassVar[int] = 1000
    data: ClassVar[tuple[str, ...]] = (
        "model: none is shipped; the one that you name, at an address or in a folder. Licence: "
        "that of its card, or of the service.",
        "answers: what it wrote, with the probabilities, in `judge/answers.jsonl` of the cache or "
        "the file that `answers` names; captions and photographs go to the address and nowhere "
        "else, and the file holds neither.",
        "trap: a service may change the model behind a name; keep the file of answers with the "
        "numbers.",
    )

    def __post_init__(self) -> None:
        if self.mode not in PROMPTS:
            raise UsageError(f"judge: mode is rating or pairwise, not {self.mode!r}")
        if self.dtype not in ("auto", "float32", "bfloat16", "float16"):
            raise UsageError(
                f"judge: dtype is auto, float32, bfloat16 or float16, not {self.dtype!r}"
            )
        if self.mode == "pairwise":
            needs = frozenset({Need.IMAGE_PIXELS, Need.REFERENCES})
            object.__setattr__(self, "needs", needs)

    def missing(self) -> list[CaptiousError]:
        """Return what is not here: packages, and somebody to ask."""
        lacking = super().missing()
        if self.endpoint and self.model == "default":
            lacking.append(UsageError(
                f"judge: name the model behind {self.endpoint}, judge(endpoint=...,model='NAME'): "
                "stored answers and the signature are told apart by it"
            ))  # fmt: skip
        if self.endpoint or self.offline:
            return lacking
        if self.model == "default":
            lacking.append(UsageError(
                "judge asks a model: name its OpenAI-compatible address, "
                "judge(endpoint='http://localhost:8000/v1',model='NAME'), or a vision-language "
                "model of transformers, judge(model='FOLDER'), or replay stored answers with "
                "judge(answers='FILE',offline=true)"
            ))  # fmt: skip
            return lacking
        for module in ("torch", "transformers"):
            if find_spec(module) is None:
                lacking.append(MissingExtra(module, "neural", "judge with a local model"))
        if not lacking:
            from captious.models import judge_local

            try:
                judge_local.locate(self.model)
            except CaptiousError as error:
                lacking.append(error)
        return lacking

    @property
    def _local(self) -> bool:
        return not self.endpoint and not self.offline

    def _known_as(self) -> str:
        """Return the name that answers are stored under."""
        if not self._local:
            return self.model
        from captious.models import judge_local

        folder = judge_local.locate(self.model)
        return judge_local.known_as(self.model, folder, self.dtype)

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Ask once per distinct question; stored answers are taken first."""
        asking = _Asking(self)
        rows = np.full((len(samples), 1), np.nan)
        reasons: dict[int, str] = {}
        with Progress(f"asking {self.model}", len(samples), "captions") as bar:
            for row, sample in enumerate(samples):
                value, reason = asking.value(sample)
                if value is None:
                    reasons[row] = reason
                else:
                    rows[row, 0] = value
                bar.advance()
        return Stats(rows, reasons, {k: v for k, v in asking.notes.items() if v})

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the question by its content; where answers lie does not matter."""
        question = hashlib.sha256(self._question().encode()).hexdigest()[:8]
        parts = {
            "prompt": f"{Path(self.prompt).name or 'captious'}-{question}",
            "pixels": str(_SIDE),
        }
        if self._local:
            parts["judge"] = self._known_as()
        return parts | {"smoothed": "fleur" if self.mode == "rating" else "no", "answers": "stored"}

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Show what the model wrote, and what it could have written by its probabilities."""
        asking = _Asking(self)
        value, reason = asking.value(sample)
        if value is None:
            return Explanation(f"Cannot be scored: {reason}.", {"answers": []})
        said = [answer.text for answer in asking.told]
        written = "; ".join(repr(text) for text in said)
        lines = [f"judge {value:.4f}; the model wrote {written}."]
        parts, chances = [], []
        for title, shares in self._choices(asking.told):
            often = sorted(shares.items(), key=lambda item: (-item[1], item[0]))[:_CHOICES]
            lines.append(f"  {title}: {', '.join(f'{word} {share:.2f}' for word, share in often)}")
            chances.append({"what": title, "probabilities": dict(often)})
            marks = tuple(WordMark(word, "plain", share) for word, share in often)
            parts.append(WordMarks(title, marks, "the number is the probability"))
        data = {"score": value, "answers": said, "probabilities": chances}
        return Explanation("\n".join(lines), data, tuple(parts))

    def _choices(self, told: list[Answer]) -> list[tuple[str, dict[str, float]]]:
        """What the score is a mean over: digits of a rating, or the letters of each order."""
        from captious.models import judge_answers

        if self.mode == "rating":
            return judge_answers.digits_read(told[-1])
        letters = [judge_answers.preference(answer) for answer in told]
        return [
            (f"reference {1 + at // 2}, the caption is {'AB'[at % 2]}", {"A": a, "B": 1 - a})
            for at, a in enumerate(letters)
            if a is not None
        ]

    def _question(self) -> str:
        text = read_text(self.prompt) if self.prompt else PROMPTS[self.mode]
        if "{caption}" not in text or (self.mode == "pairwise" and "{other}" not in text):
            raise InputError(
                f"{self.prompt}: the question has no place for the caption: {{caption}}"
            )
        return text

    def _file(self) -> AnswerFile:
        from captious.models.judge_answers import AnswerFile

        default = settings.get().cache_dir / "judge" / "answers.jsonl"
        return AnswerFile(Path(self.answers) if self.answers else default)


class _Asking:
    """One run over captions: stored answers, new answers, counts."""

    def __init__(self, metric: Judge) -> None:
        self.metric, self.file, self.question = metric, metric._file(), metric._question()
        self.model = metric._known_as()
        self.told: list[Answer] = []
        self.notes = dict.fromkeys(
            ("questions asked", "answers from the file", "prompt tokens", "completion tokens",
             "ratings without probabilities of digits (taken as written)"), 0,
        )  # fmt: skip
        self._pictures: dict[str, tuple[str, bytes]] = {}

    def value(self, sample: Sample) -> tuple[float | None, str]:
        """Return the score of a sample, or why there is none."""
        from captious.models import judge_answers

        if sample.image is None:
            return None, "the sample has no image"
        if not sample.caption.strip():
            return None, "the caption is empty"
        if self.metric.mode == "pairwise" and not sample.references:
            return None, "no references"
        try:
            digest, picture = self._picture(sample)
            if self.metric.mode == "pairwise":
                return self._preferred(sample, digest, picture)
            answer = self._answer(self._text(sample.caption), digest, picture)
        except (judge_answers.NoAnswer, InputError) as error:
            return None, str(error)
        value, smooth = judge_answers.smoothed(answer)
        if value is None:
            return None, f"the judge wrote no rating from 0 to 1: {answer.text[:40]!r}"
        self.notes["ratings without probabilities of digits (taken as written)"] += not smooth
        return value, ""

    def _preferred(self, sample: Sample, digest: str, picture: bytes) -> tuple[float | None, str]:
        from captious.models.judge_answers import preference

        shares = []
        for other in sample.references:
            first = preference(self._answer(self._text(sample.caption, other), digest, picture))
            second = preference(self._answer(self._text(other, sample.caption), digest, picture))
            shares += [s for s in (first, None if second is None else 1 - second) if s is not None]
        return (float(np.mean(shares)), "") if shares else (None, "the judge named neither A nor B")

    def _text(self, caption: str, other: str = "") -> str:
        return self.question.replace("{other}", other).replace("{caption}", caption)

    def _answer(self, text: str, digest: str, picture: bytes) -> Answer:
        from captious.models.judge_answers import NoAnswer, Question

        question = Question(text, digest, picture)
        key = question.key(self.model)
        answer = self.file.get(key)
        if answer is not None:
            self.notes["answers from the file"] += 1
        elif self.metric.offline:
            raise NoAnswer("the file of stored answers has none to this question")
        else:
            answer = self._asked(question)
            self.file.put(key, answer)
            self.notes["questions asked"] += 1
            self.notes["prompt tokens"] += answer.prompt_tokens
            self.notes["completion tokens"] += answer.completion_tokens
        self.told.append(answer)
        return answer

    def _asked(self, question: Question) -> Answer:
        """Ask the service, or the model on this machine."""
        if self.metric.endpoint:
            from captious.models.judge_answers import ask

            return ask(self.metric.endpoint, self.metric.model, question)
        from captious.models import judge_local

        try:
            model = judge_local.load(self.metric.model, self.metric.dtype)
        except InputError as error:  # of the model, not of this caption: nothing can be rated
            raise UsageError(str(error)) from error
        return model.ask(question)

    def _picture(self, sample: Sample) -> tuple[str, bytes]:
        """What a photograph is known by, and a JPEG of it that fits the model."""
        image = str(sample.image)
        if image not in self._pictures:
            held: Path | bytes = sample.evidence.photographs.get(image) or Path(image)
            digest = sample.evidence.digests.get(image) or photograph_digest(held)
            content = b""
            if not self.metric.offline:
                picture = open_photograph(held, image)
                picture.thumbnail((_SIDE, _SIDE))
                out = io.BytesIO()
                picture.save(out, "JPEG", quality=90)
                content = out.getvalue()
            self._pictures = {image: (digest, content)}
        return self._pictures[image]
