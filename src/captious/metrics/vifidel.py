"""VIFIDEL (Madhyastha, Wang and Specia, ACL 2019): is the caption faithful to the objects seen?

The labels of the objects in an image and the content words of the caption are two bags of words;
``vifidel = exp(-d)`` with d the earth mover's distance between them, and |x_i - x_j|^power the cost
of moving label i to word j. No reference is needed.

References, where a row has them, say how important each word is and are never compared with the
caption: rho_k = mean over references of (1 - cosine of k to its nearest content word)/2, and the
cost becomes |rho_i x_i - rho_j x_j|^power. What everybody mentions costs little.

Worked example without references: labels {dog}, caption *a dog runs*, unit vectors with
|dog - run| = 1.2: half of *dog* stays, half travels 1.2, d = 0.6, score exp(-0.6) = 0.549.

Paper and released code disagree, so a ``profile`` chooses (single parameters override it):

    =========  =====  ====  ======  ======  ====================================================
    profile    power  unit  counts  labels  what it is
    =========  =====  ====  ======  ======  ====================================================
    measured   1      yes   no      phrase  the default: agreed best with people on PASCAL-50S
    paper      2      yes   yes     phrase  the text of the paper (which leaves ``unit`` open; the
                                            authors' code says yes)
    release    1      yes   yes     split   the released scorer; its output is d = -ln(vifidel)
    =========  =====  ====  ======  ======  ====================================================

Labels are read as people write them (``pottedplant`` is *potted plant*, ``Traffic_light`` is
*traffic light*), whatever their source.

Defined behaviour: words without a vector are dropped; a caption without content words scores 0; an
image without (known) labels cannot be scored (``no_objects='zero'`` gives 0 instead); d = 0 scores
1 (the released code returns infinity there); a reference without content words is skipped, and
with none left the plain cost is used, as it is for rows without references.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious import assets
from captious.errors import UsageError
from captious.evidence.classes import readable
from captious.metrics._words.importance import Importance
from captious.metrics._words.plan import Plan
from captious.metrics.base import Column, Explanation, Metric, Need, Stats
from captious.text import bags, tokenizers, transport
from captious.text.vectors import DEFAULT, WordVectors, open_vectors
from captious.types import CaptionSet, Ints, LabelledPhotograph, Place, Sample

_TOKENIZER = tokenizers.get("words")
_PROFILES: dict[str, dict[str, Any]] = {
    "measured": {"power": 1.0, "unit": True, "counts": False, "labels": "phrase"},
    "paper": {"power": 2.0, "unit": True, "counts": True, "labels": "phrase"},
    "release": {"power": 1.0, "unit": True, "counts": True, "labels": "split"},
}


@dataclass(frozen=True)
class Vifidel(Metric):
    """Closeness of the caption's words to the object labels of its image.

    Args:
        profile: ``measured``, ``paper`` or ``release``: decides what is left at None below.
        vectors: name or path of the word vectors.
        references: how many references of a row weigh the words (None = all, 0 = none).
        power: exponent of the distance between two words.
        unit: bring vectors to length 1.
        counts: a label seen three times weighs three times as much.
        labels: ``phrase`` (a label is one phrase if it has a vector) or ``split`` (always words).
        stop_words: stop list of the captions and references.
        no_objects: ``undefined`` or ``zero``: the score of an image without labels.
    """

    profile: str = "measured"
    vectors: str = DEFAULT
    references: int | None = None
    power: float | None = None
    unit: bool | None = None
    counts: bool | None = None
    labels: str | None = None
    stop_words: str = "sklearn"
    no_objects: str = "undefined"

    name: ClassVar[str] = "vifidel"
    renamed: ClassVar[dict[str, str]] = {"stop": "stop_words"}
    needs: ClassVar[frozenset[Need]] = frozenset({Need.IMAGE_OBJECTS})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("vifidel", 0.0, 1.0, "exp(-distance) of the caption's words to the objects seen"),
    )
    modules: ClassVar[dict[str, str]] = {"ot": "vectors"}

    def __post_init__(self) -> None:
        choices = {
            "profile": (self.profile, tuple(_PROFILES)),
            "labels": (self.labels, ("phrase", "split", None)),
            "no_objects": (self.no_objects, ("undefined", "zero")),
        }
        for name, (value, allowed) in choices.items():
            if value not in allowed:
                known = ", ".join(repr(a) for a in allowed if a is not None)
                raise UsageError(f"vifidel: {name} is one of {known}, not {value!r}")
        if self.references is not None and self.references < 0:
            raise UsageError("vifidel: references must be 0 or more; leave it out to use all")

    @property
    def assets(self) -> tuple[str, ...]:
        """The word vectors, where they are a named asset."""
        return (self.vectors,) if self.vectors in assets.known() else ()

    def resolved(self, name: str) -> Any:
        """Return a parameter as given, or as the profile says."""
        value = getattr(self, name)
        return _PROFILES[self.profile][name] if value is None else value

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return one similarity per row."""
        task = _Task.of(self, samples)
        similarity = np.exp(-task.distances())
        rows = np.full((len(samples), 1), np.nan)
        known = task.seen.sizes[task.label_set] > 0
        rows[known, 0] = similarity[known]
        if self.no_objects == "zero":
            rows[~known, 0] = 0.0
            return Stats(rows, {}, task.notes())
        reasons = {int(r): task.why_unseen(int(r)) for r in np.flatnonzero(~known)}
        return Stats(rows, reasons, task.notes())

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Show the transport plan: which label went to which word, at what cost."""
        task = _Task.of(self, CaptionSet.of([sample]))
        if not task.seen.sizes[0]:
            return Explanation(f"Cannot be scored: {task.why_unseen(0)}.", {"flows": []})
        caption = int(task.samples.caption[0])
        if not task.words.sizes[caption]:
            return Explanation("The caption has no content word: score 0.", {"flows": []})
        flow = Plan.between(task.seen, 0, task.words, caption, task.cost(), task.table)
        data = flow.as_data()
        used = flow.left + flow.right
        data["importance"] = task.weights(used)
        data["score"] = float(np.exp(-data["distance"]))
        lines = [
            f"{self.name} {data['score']:.4f} = exp(-{data['distance']:.4f}), the cost of turning "
            "the objects of the image into the words of the caption",
            flow.as_text(),
        ]
        if data["importance"]:
            told = ", ".join(f"{w} {r:.2f}" for w, r in data["importance"].items())
            lines.append(f"Weights from the references (0 = everybody mentions it): {told}.")
        lost = int(task.seen.dropped[0] + task.words.dropped[caption])
        if lost:
            lines.append(f"{lost} words have no vector and were left out.")
        plan = flow.as_part("objects in the image", "caption")
        places = _places(sample)
        if sample.image is None or not places:
            return Explanation("\n".join(lines), data, (plan,))
        shown = LabelledPhotograph("what was seen", sample.image, places)
        return Explanation("\n".join(lines), data, (shown, plan))

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the vectors with their checksum, and what the profile decided."""
        parts = {"vectors": open_vectors(self.vectors).signature, "tokenizer": _TOKENIZER.signature}
        parts["power"] = f"{self.resolved('power'):g}"
        parts["labels"] = self.resolved("labels")
        for name in ("unit", "counts"):
            parts[name] = "yes" if self.resolved(name) else "no"
        parts["references"] = "all" if self.references is None else str(self.references)
        return parts


@dataclass(frozen=True, eq=False)
class _Task:
    """A batch made ready: bags of labels and words, and the distinct problems to solve."""

    metric: Vifidel
    samples: CaptionSet
    table: WordVectors
    words: bags.Bags
    seen: bags.Bags
    label_set: Ints
    sets: list[tuple[str, ...] | None]
    space: transport.Space
    first: Ints  # one row for each distinct problem
    problem: Ints  # the problem of each row
    importance: Importance | None

    @classmethod
    def of(cls, metric: Vifidel, samples: CaptionSet) -> _Task:
        table = open_vectors(metric.vectors)
        words = bags.of_pool(samples.pool, table, metric.stop_words, _TOKENIZER.name)
        label_set, sets = _label_sets(samples)
        seen = bags.of_labels(
            [s or () for s in sets],
            table,
            split=metric.resolved("labels") == "split",
            stop=metric.stop_words,
            binary=not metric.resolved("counts"),
        )
        group, groups = _reference_sets(samples, metric.references, words)
        pair = label_set * max(len(groups), 1) + group
        key = np.unique(pair, return_inverse=True)[1] * len(samples.pool) + samples.caption
        _, first, problem = np.unique(key, return_index=True, return_inverse=True)
        texts = np.unique(np.concatenate([samples.caption, *groups]).astype(np.int64))
        used = np.concatenate([seen.rows, words.words_of(texts)[0]])
        space = transport.Space(table, used, metric.resolved("unit"))
        importance = None
        if any(len(g) for g in groups):
            importance = Importance.of_problems(
                space, words, seen, groups, group[first], label_set[first], samples.caption[first]
            )
        return cls(
            metric, samples, table, words, seen, label_set, sets, space, first, problem, importance
        )

    def cost(self) -> transport.Cost:
        power = self.metric.resolved("power")
        return self.importance.cost(power) if self.importance else self.space.cost(power)

    def distances(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Distance of every row; each distinct problem is solved once."""
        labels = self.label_set[self.first]
        captions = self.samples.caption[self.first].astype(np.int64)
        costs = transport.distances(self.seen, labels, self.words, captions, self.cost())
        return costs[self.problem]

    def weights(self, used: list[str]) -> dict[str, float]:
        """The importance of some words in the first problem; empty without references."""
        if self.importance is None:
            return {}
        rho = self.importance.of(np.zeros(1, np.int64), self.table.rows(used)[None, :])
        return dict(zip(used, rho[0].tolist(), strict=True))

    def why_unseen(self, row: int) -> str:
        labels = self.sets[self.label_set[row]]
        if labels is None:
            return "no object labels are known for this image"
        if not labels:
            return "no object was found in this image"
        return f"no label has a word vector: {', '.join(sorted(set(labels)))}"

    def notes(self) -> dict[str, int]:
        captions = self.samples.caption
        counts = {
            "captions with a word that has no vector": (self.words.dropped[captions] > 0).sum(),
            "captions without any content word (score 0)": (self.words.sizes[captions] == 0).sum(),
            "images with a label word that has no vector": (
                self.seen.dropped[self.label_set] > 0
            ).sum(),
        }
        return {remark: int(count) for remark, count in counts.items() if count}


def _places(sample: Sample) -> tuple[Place, ...]:
    labels = sample.evidence.labels
    return () if labels is None or sample.image is None else labels.places.get(sample.image, ())


def _label_sets(samples: CaptionSet) -> tuple[Ints, list[tuple[str, ...] | None]]:
    """Number the distinct multisets of labels; None (nothing known) is one of them.

    Labels are turned into words here, whatever source they come from: a name that is written as
    one word (``pottedplant``) has no vector and would be lost.
    """
    numbers: dict[tuple[str, ...] | None, int] = {}
    rows = np.empty(len(samples), np.int64)
    objects = samples.objects if samples.objects is not None else [None] * len(samples)
    words: dict[tuple[str, ...] | None, tuple[str, ...] | None] = {None: None}
    for i, labels in enumerate(objects):
        if labels is not None and labels not in words:
            words[labels] = tuple(map(readable, labels))
        rows[i] = numbers.setdefault(words[labels], len(numbers))
    return rows, list(numbers)


def _reference_sets(
    samples: CaptionSet, limit: int | None, words: bags.Bags
) -> tuple[Ints, list[Ints]]:
    """Number the distinct lists of references, those without content words left out."""
    if limit == 0 or not len(samples.reference):
        return np.zeros(len(samples), np.int64), []
    numbers: dict[bytes, int] = {}
    groups: list[Ints] = []
    rows = np.empty(len(samples), np.int64)
    bounds = samples.offsets.tolist()
    for i in range(len(samples)):
        stop = bounds[i + 1] if limit is None else min(bounds[i + 1], bounds[i] + limit)
        mine = samples.reference[bounds[i] : stop]
        number = numbers.setdefault(mine.tobytes(), len(groups))
        if number == len(groups):
            groups.append(mine[words.sizes[mine] > 0].astype(np.int64))
        rows[i] = number
    return rows, groups
