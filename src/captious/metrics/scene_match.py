"""scene_match: for long captions, what is said right and what is left out, thing by thing.

In the manner of CAPTURE (Dong et al. 2024), over the scene graphs of our SPICE. Caption and
references are cut into sentences, every sentence is parsed, and the graphs of one side are merged.
Objects, (object, attribute) pairs and (object, relation, object) triples are compared:

    similarity of two words = 1 if equal or of one WordNet synset, else half the cosine of their
                              word vectors where the cosine is at least ``soft``, else 0
    similarity of tuples    = the smallest similarity of their parts
    P = mean over the caption's tuples of their best similarity, R the same for the references'
    F = 2PR / (P + R);  scene_match = (5 F_object + 5 F_attribute + 2 F_relation) / 12

A kind of tuple that neither side states is left out of the mean. Words that name no thing of the
scene (*image, picture, background, side* ...) are dropped. scene_coverage is R of the objects: how
much of what the references mention the caption mentions.

Worked example: *a brown dog* against *a brown dog in a park*: objects P = 1, R = 1/2, F = 2/3;
attributes F = 1; the caption states no relation and the references one, F = 0:
(5 x 2/3 + 5 x 1 + 2 x 0) / 12 = 0.694; coverage 0.5.

The explanation scores every sentence: its precision, weighted as above, and the share of the
references' objects that it mentions; and it lists what no sentence mentions.

Each sentence is parsed by itself, so that long texts stay cheap. Of a text the first 200 sentences
are read, of a sentence the first 512 words; what is cut off is counted. CAPTURE itself uses another
parser and sentence vectors; its authors report, as means over DetailCaps-100 and -4870, Pearson's
rho .509 and Kendall's tau .386 with people, against .439 and .324 for SPICE: **not verified here**.
There is no ``profile``: the metric is ours, and neither CAPTURE's paper nor its code computes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious import assets
from captious.errors import UsageError
from captious.metrics._words import scene_view
from captious.metrics.base import Column, Explanation, Metric, Stats
from captious.metrics.spice import Reader, reader
from captious.text import tokenizers
from captious.text.scene_graph import Concept, SceneGraph
from captious.text.scene_parser import ASSETS as PARSERS
from captious.text.scene_parser import LONGEST
from captious.text.vectors import DEFAULT, WordVectors, open_vectors
from captious.types import CaptionSet, Floats, Graph, Node, Sample, SceneGraphs

Key = tuple[int, ...]
SENTENCES = 200
_NONE = "neither caption nor references mention any"
_WEIGHTS = np.array([5.0, 5.0, 2.0])
_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_NO_THINGS = """
image picture photo photograph scene background foreground side view sight front back top bottom
middle center centre left right area part piece kind type sort lot number group bunch pair couple
variety series addition detail distance way end position sense feeling atmosphere ambiance overall
presence focus setting essence moment
"""
_STOP = frozenset(_NO_THINGS.split())


@dataclass(frozen=True)
class SceneMatch(Metric):
    """scene_match: F of objects, attributes and relations, sentence by sentence, with soft matches.

    Args:
        vectors: name or path of the word vectors for soft matches.
        soft: smallest cosine that counts as a match; 1 allows equal words and synonyms only.
        model: parser, as for spice.
        tables: the METEOR 1.5 jar or its folder, for synsets; None to find the installed one.
        tokenizer: how sentences become words.
    """

    vectors: str = DEFAULT
    soft: float = 0.6
    model: str = "default"
    tables: str | None = None
    tokenizer: str = "ptb"

    name: ClassVar[str] = "scene_match"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("scene_match", 0.0, 1.0, "weighted F of objects, attributes and relations"),
        Column("scene_object", 0.0, 1.0, "F of objects", undefined=_NONE),
        Column("scene_attribute", 0.0, 1.0, "F of attributes", undefined=_NONE),
        Column("scene_relation", 0.0, 1.0, "F of relations", undefined=_NONE),
        Column("scene_coverage", 0.0, 1.0, "share of the references' objects that are mentioned",
               undefined="the references name no object"),
    )  # fmt: skip
    modules: ClassVar[dict[str, str]] = {"spacy": "spice"}
    identity: ClassVar[float | None] = 1.0
    batch: ClassVar[int] = 20_000
    data: ClassVar[tuple[str, ...]] = (
        "trap: long descriptions by models were the ones that CAPTURE was tuned on; people's "
        "references are shorter and leave out what a caption may rightly say.",
    )

    def __post_init__(self) -> None:
        if not 0.0 < self.soft <= 1.0:
            raise UsageError(f"scene_match: soft is above 0 and at most 1, not {self.soft}")

    @property
    def assets(self) -> tuple[str, ...]:
        """Vectors, parser and word tables, where they are named assets."""
        named = [self.vectors] if self.vectors in assets.known() else []
        named += [PARSERS[self.model]] if self.model in PARSERS else []
        return (*named, *(("meteor-tables",) if self.tables is None else ()))

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return value and definedness of the score and its parts; equal sides are read once."""
        numbers = np.unique(np.concatenate([samples.caption, samples.reference])).tolist()
        texts = samples.pool.strings(np.array(numbers, np.int64))
        cut = {n: self._sentences(text) for n, text in zip(numbers, texts, strict=True)}
        scenes = self._reader().scenes(s for sentences in cut.values() for s in sentences)
        space = _Likeness(self)
        rows = np.zeros((len(samples), 2 * len(self.columns)))
        graphs: dict[tuple[int, ...], SceneGraph] = {}

        def graph(group: tuple[int, ...]) -> SceneGraph:
            if group not in graphs:
                sentences = sorted({s for number in group for s in cut[number]})
                synsets = self._reader().synsets_of
                graphs[group] = SceneGraph.of((scenes[s] for s in sentences), synsets)
            return graphs[group]

        bounds = samples.offsets.tolist()
        for row, caption in enumerate(samples.caption.tolist()):
            theirs = tuple(sorted(set(samples.reference[bounds[row] : bounds[row + 1]].tolist())))
            rows[row] = space.row(graph((caption,)), graph(theirs))
        return Stats(rows, notes=_notes(samples.captions()))

    def scores(self, rows: Floats) -> Floats:
        """Return the values; a part that is undefined is NaN."""
        values = np.where(rows[..., 1::2] > 0, rows[..., 0::2], np.nan)
        values[..., 0] = rows[..., 0]
        return values

    def corpus(self, totals: Floats, counts: Floats) -> Floats:
        """Return means over the captions where a part is defined."""
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = totals[..., 0::2] / totals[..., 1::2]
            parts[..., 0] = totals[..., 0] / np.asarray(counts)
        return parts

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name vectors, parser, word tables and tokeniser."""
        used = self._reader()
        return {
            "vectors": open_vectors(self.vectors).signature,
            "parser": used.parser.version,
            "tables": f"meteor-1.5({used.tables.fingerprint})",
            "tokenizer": tokenizers.get(self.tokenizer).signature,
        }

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Score every sentence of the caption; say what is supported and what is left out."""
        mine = self._sentences(sample.caption)
        theirs = sorted({s for text in sample.references for s in self._sentences(text)})
        used = self._reader()
        scenes = used.scenes([*mine, *theirs])
        make = used.synsets_of
        references = SceneGraph.of((scenes[s] for s in theirs), make)
        whole = SceneGraph.of((scenes[s] for s in sorted(set(mine))), make)
        space = _Likeness(self)
        values = self.scores(space.row(whole, references))
        lines = [f"scene_match {values[0]:.4f}, coverage {values[4]:.4f}"]
        told = []
        for sentence in mine:
            graph = SceneGraph.of([scenes[sentence]], make)
            said = _said(graph, space.best(graph, references))
            score, covers = space.sentence(graph, references)
            numbers = {"score": _plain(score), "coverage": _plain(covers)}
            told.append({"sentence": sentence, **numbers, **said})
            lines += [
                f"  {sentence}",
                f"    score {_told(score)}, coverage {_told(covers)}: "
                + "; ".join(f"{how} {', '.join(words)}" for how, words in said.items() if words),
            ]
        found = space.best(references, whole)
        missing = [
            words[0]
            for key, words in _named(references).items()
            if len(key) == 1 and found[key] == 0
        ]
        lines.append(f"Not mentioned: {', '.join(missing) or 'nothing'}.")
        drawn = SceneGraphs(_drawn(whole, space.best(whole, references)), _drawn(references, found))
        data = {"score": float(values[0]), "sentences": told, "missing": missing}
        return Explanation("\n".join(lines), data, (drawn,))

    def _reader(self) -> Reader:
        return reader(self.model, self.tables)

    def _sentences(self, text: str) -> list[str]:
        """The sentences of a text as token strings, the first of them."""
        tokenize: Any = tokenizers.get(self.tokenizer)
        parts = _END.split(text.strip(), maxsplit=SENTENCES)[:SENTENCES]
        return [cut for part in parts if (cut := " ".join(tokenize(part)))]


class _Likeness:
    """Compares graphs; the vector of a word is looked up once."""

    def __init__(self, metric: SceneMatch) -> None:
        self.soft = metric.soft
        self.table: WordVectors = open_vectors(metric.vectors)
        self._vectors: dict[str, Floats] = {}

    def row(self, caption: SceneGraph, references: SceneGraph) -> Floats:
        """Value and definedness of every column."""
        out = np.zeros(10)
        kinds = self._kinds(caption, references)
        shares = []
        for place, likeness in enumerate(kinds):
            mine, theirs = likeness.shape
            if mine == 0 and theirs == 0:
                shares.append(np.nan)
                continue
            precision = float(likeness.max(axis=1).mean()) if mine and theirs else 0.0
            recall = float(likeness.max(axis=0).mean()) if mine and theirs else 0.0
            total = precision + recall
            share = 2 * precision * recall / total if total else 0.0
            shares.append(share)
            out[2 + 2 * place : 4 + 2 * place] = share, 1.0
            if place == 0 and theirs:
                out[8:10] = recall, 1.0
        values = np.array(shares)
        known = ~np.isnan(values)
        if known.any():
            out[0] = float((values[known] * _WEIGHTS[known]).sum() / _WEIGHTS[known].sum())
        out[1] = 1.0
        return out

    def best(self, graph: SceneGraph, other: SceneGraph) -> dict[Key, float]:
        """Return the tuples of a graph by their numbers, with their best similarity."""
        best: list[float] = []
        for likeness in self._kinds(graph, other):
            mine, theirs = likeness.shape
            best += likeness.max(axis=1).tolist() if theirs else [0.0] * mine
        return dict(zip(_named(graph), best, strict=True))

    def sentence(self, graph: SceneGraph, references: SceneGraph) -> tuple[float, float]:
        """Return a sentence's precision, weighted as the score, and its recall of objects.

        NaN where the sentence, or the references, name nothing.
        """
        kinds = self._kinds(graph, references)
        shares = [k.max(axis=1).mean() if k.shape[1] else 0.0 for k in kinds if k.shape[0]]
        weights = [w for k, w in zip(kinds, _WEIGHTS, strict=True) if k.shape[0]]
        score = float(np.average(shares, weights=weights)) if shares else float("nan")
        mine, theirs = kinds[0].shape
        recall = float(kinds[0].max(axis=0).mean()) if mine and theirs else 0.0
        return score, recall if theirs else float("nan")

    def _kinds(self, a: SceneGraph, b: SceneGraph) -> tuple[Floats, Floats, Floats]:
        """Similarities of objects, of attributes, of relations."""
        kept = [_things(graph) for graph in (a, b)]
        things = self._between([a.objects[i] for i in kept[0]], [b.objects[i] for i in kept[1]])
        place = [{old: new for new, old in enumerate(some)} for some in kept]
        owned = [
            [
                (at[i], concept)
                for i, some in enumerate(graph.attributes)
                if i in at
                for concept in some
            ]
            for graph, at in zip((a, b), place, strict=True)
        ]
        attributes = np.minimum(
            _picked(things, [o for o, _ in owned[0]], [o for o, _ in owned[1]]),
            self._between([c for _, c in owned[0]], [c for _, c in owned[1]]),
        )
        related = [
            [(at[s], at[t], concept)
             for (s, t), some in graph.relations.items() if s in at and t in at for concept in some]
            for graph, at in zip((a, b), place, strict=True)
        ]  # fmt: skip
        sources = _picked(things, [r[0] for r in related[0]], [r[0] for r in related[1]])
        targets = _picked(things, [r[1] for r in related[0]], [r[1] for r in related[1]])
        middle = self._between([r[2] for r in related[0]], [r[2] for r in related[1]])
        return things, attributes, np.minimum(np.minimum(sources, targets), middle)

    def _between(self, left: Sequence[Concept], right: Sequence[Concept]) -> Floats:
        if not left or not right:
            return np.zeros((len(left), len(right)))
        cosine = (
            np.stack([self._vector(c) for c in left]) @ np.stack([self._vector(c) for c in right]).T
        )
        likeness = np.where(cosine >= self.soft, np.minimum(cosine, 1.0) / 2, 0.0)
        if self.soft >= 1.0:
            likeness[:] = 0.0
        for i, mine in enumerate(left):
            for j, other in enumerate(right):
                if mine.alike(other):
                    likeness[i, j] = 1.0
        return likeness

    def _vector(self, concept: Concept) -> Floats:
        name = " ".join(sorted(concept.words))
        if name not in self._vectors:
            rows = self.table.rows(name.split())
            total = self.table.take(rows[rows >= 0], unit=True).sum(axis=0)
            length = float(np.linalg.norm(total))
            self._vectors[name] = total / length if length else np.zeros(self.table.dim)
        return self._vectors[name]


def _things(graph: SceneGraph) -> list[int]:
    """Objects that name a thing of the scene."""
    return [i for i, concept in enumerate(graph.objects) if not concept.words <= _STOP]


def _named(graph: SceneGraph) -> dict[Key, tuple[str, ...]]:
    """The words of the tuples by their numbers, in the order of :meth:`_Likeness._kinds`."""
    kept = set(_things(graph))
    tuples = scene_view.tuples(graph)
    ends = {key: key[: 1 if len(key) < 3 else 2] for key in tuples}
    named = {key: words for key, words in tuples.items() if kept.issuperset(ends[key])}
    return dict(sorted(named.items(), key=lambda item: len(item[0])))


def _said(graph: SceneGraph, best: dict[Key, float]) -> dict[str, list[str]]:
    """What a sentence says, by how the references support it."""
    said: dict[str, list[str]] = {"supported": [], "nearly": [], "unsupported": []}
    for key, words in _named(graph).items():
        how = "supported" if best[key] >= 1 else "nearly" if best[key] > 0 else "unsupported"
        said[how].append(" ".join(words))
    return said


def _drawn(graph: SceneGraph, best: dict[Key, float]) -> Graph:
    """The things of a graph, their attributes and relations; each knows whether it is supported."""
    kept = _things(graph)
    place = {old: new for new, old in enumerate(kept)}
    return Graph(
        tuple(Node(str(graph.objects[i]), best[i,] >= 1) for i in kept),
        tuple(
            tuple(Node(str(c), best[i, k] >= 1) for k, c in enumerate(graph.attributes[i]))
            for i in kept
        ),
        tuple(
            (place[i], place[j], Node(str(c), best[i, j, k] >= 1))
            for (i, j), named in graph.relations.items()
            if i in place and j in place
            for k, c in enumerate(named)
        ),
    )


def _plain(value: float) -> float | None:
    return None if value != value else value


def _told(value: float) -> str:
    return "-" if value != value else f"{value:.4f}"


def _picked(likeness: Floats, rows: list[int], columns: list[int]) -> Floats:
    return (
        likeness[np.ix_(rows, columns)] if rows and columns else np.zeros((len(rows), len(columns)))
    )


def _notes(captions: Sequence[str]) -> dict[str, int]:
    many = sum(len(_END.split(text.strip(), maxsplit=SENTENCES)) > SENTENCES for text in captions)
    long = sum(any(part.count(" ") >= LONGEST for part in _END.split(text)) for text in captions)
    remarks = {
        f"captions of which {SENTENCES} sentences were read": many,
        f"captions with a sentence cut to {LONGEST} words": long,
    }
    return {remark: count for remark, count in remarks.items() if count}
