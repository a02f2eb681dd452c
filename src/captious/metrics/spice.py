"""SPICE: do caption and references say the same things?

Anderson et al. 2016. Every sentence becomes a scene graph: objects, (object, attribute) pairs and
(object, relation, object) triples. The references of an image are merged into one graph. With c
tuples in the caption, r in the references and t caption tuples that have a counterpart (equal word
or shared WordNet synset in every place), P = t/c, R = t/r and SPICE = 2t/(c + r); 0 when t = 0.

Worked example: "a brown dog" against "a big dog runs in the park". Caption: dog, (dog, brown).
References: dog, park, (dog, big), (dog, run in, park). t = 1 (dog), so 2*1/(2 + 4) = 0.333.

The sub-scores use the same formula on part of the tuples: objects, relations, attributes, and the
attributes that name a colour, a number from one to ten, or a size. They are undefined (NaN) where
the references hold no such tuple; the corpus value is the mean over the captions where it is
defined, as in the Java tool's summary.

Known deviations from the Java tool: another parser (spaCy in place of CoreNLP 3.6), hence close but
not equal scores; ``benchmarks/spice_agreement.py`` measures how close. References are merged in
alphabetical order, so that their order in the file changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np

from captious.metrics._words import scene_view
from captious.metrics.base import Column, Explanation, Metric, Stats
from captious.text import tokenizers, tokens
from captious.text._scene_lemmas import Lemmas
from captious.text._scene_rules import Parse, Scene, scene
from captious.text._scene_words import COLOURS, NUMBERS, SIZES
from captious.text.scene_graph import Concept, Matches, SceneGraph, match
from captious.text.scene_parser import ASSETS as PARSERS
from captious.text.scene_parser import LONGEST, SceneParser
from captious.text.synsets import WordTables
from captious.types import CaptionSet, Floats, Sample

GraphOf = Callable[[tuple[str, ...]], SceneGraph]
_NONE: Final = "the references mention none"
_PARTS: Final = ("object", "relation", "attribute", "color", "cardinality", "size")


@dataclass(frozen=True)
class Spice(Metric):
    """SPICE: F1 over the objects, attributes and relations that caption and references state.

    Args:
        model: ``default`` (a parser for captions that is part of captious), ``sm`` or ``md``
            (spaCy's general English models), the folder of a spaCy pipeline, or the name of an
            installed one.
        tables: the METEOR 1.5 jar or its folder, for the synsets; None to find the installed one.
        tokenizer: ``ptb`` as the toolkit, or another of ``captious tokenize --list``.
    """

    model: str = "default"
    tables: str | None = None
    tokenizer: str = "ptb"

    name: ClassVar[str] = "spice"
    renamed: ClassVar[dict[str, str]] = {"parser": "model"}
    columns: ClassVar[tuple[Column, ...]] = (
        Column("spice", 0.0, 1.0, "F1 of scene-graph tuples"),
        Column("spice_object", 0.0, 1.0, "F1 of objects only", undefined=_NONE),
        Column("spice_relation", 0.0, 1.0, "F1 of relations only", undefined=_NONE),
        Column("spice_attribute", 0.0, 1.0, "F1 of attributes only", undefined=_NONE),
        Column("spice_color", 0.0, 1.0, "F1 of colours only", undefined=_NONE),
        Column("spice_cardinality", 0.0, 1.0, "F1 of numbers only", undefined=_NONE),
        Column("spice_size", 0.0, 1.0, "F1 of sizes only", undefined=_NONE),
    )
    modules: ClassVar[dict[str, str]] = {"spacy": "spice"}
    batch: ClassVar[int] = 40_000  # sentences are parsed in parallel within a batch

    @property
    def assets(self) -> tuple[str, ...]:
        """The tables, and the parser if it is one of ours."""
        mine = (PARSERS[self.model],) if self.model in PARSERS else ()
        return mine + (("meteor-tables",) if self.tables is None else ())

    # -- scores -----------------------------------------------------------------------------

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return SPICE, then value and definedness (1 or 0) of each sub-score."""
        texts = tokens.table(samples.pool, self.tokenizer).texts()
        captions = [texts[i] for i in samples.caption.tolist()]
        flat = [texts[i] for i in samples.reference.tolist()]
        bounds = samples.offsets.tolist()
        graph_of = reader(self.model, self.tables).graphs(captions + flat)
        rows = np.zeros((len(samples), 1 + 2 * len(_PARTS)))
        for i, caption in enumerate(captions):
            references = tuple(sorted(set(flat[bounds[i] : bounds[i + 1]])))
            rows[i] = row(graph_of((caption,)), graph_of(references))
        return Stats(rows, notes=_notes(captions + flat))

    def scores(self, rows: Floats) -> Floats:
        """Return the score and its six parts; a part that is undefined is NaN."""
        values, defined = rows[:, 1::2], rows[:, 2::2]
        return np.column_stack([rows[:, 0], np.where(defined > 0, values, np.nan)])

    def corpus(self, totals: Floats, counts: Floats) -> Floats:
        """Return means; those of a part run over the captions where it is defined."""
        with np.errstate(invalid="ignore", divide="ignore"):
            whole = totals[..., :1] / np.asarray(counts)[..., None]
            parts = totals[..., 1::2] / totals[..., 2::2]
        return np.concatenate([whole, parts], axis=-1)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the exact parser, the word tables and the tokeniser."""
        used = reader(self.model, self.tables)
        return {
            "parser": used.parser.version,
            "tables": f"meteor-1.5({used.tables.fingerprint})",
            "tokenizer": tokenizers.get(self.tokenizer).signature,
        }

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Show both graphs and which tuples found a counterpart."""
        tokenize: Any = tokenizers.get(self.tokenizer)
        caption = " ".join(tokenize(sample.caption))
        references = tuple(sorted({" ".join(tokenize(r)) for r in sample.references}))
        graph_of = reader(self.model, self.tables).graphs([caption, *references])
        mine, theirs = graph_of((caption,)), graph_of(references)
        matches = match(mine, theirs)
        scores = self.scores(row(mine, theirs)[None])[0]
        values = dict(zip([c.name for c in self.columns], scores, strict=True))
        return scene_view.explanation(mine, theirs, matches, values)


class Reader:
    """Sentences to graphs, with one parser and one set of tables; remembers lemmas and synsets."""

    def __init__(self, parser: str, tables: str | None) -> None:
        self.tables = WordTables.open(tables)
        self.parser = SceneParser(parser)
        self._lemmas = Lemmas(self.tables)
        self._synsets: dict[str, frozenset[int]] = {}

    def scenes(self, texts: Iterable[str]) -> dict[str, Scene]:
        """Parse tokenised sentences and read what each says."""
        return self._read(self.parser.parse(texts))

    def graphs(self, texts: Iterable[str]) -> GraphOf:
        """Return a function from a group of these sentences to its merged graph."""
        return self.graphs_of(self.parser.parse(texts))

    def graphs_of(self, parses: dict[str, Parse]) -> GraphOf:
        """Do the same for sentences that are parsed already."""
        scenes = self._read(parses)
        graphs: dict[tuple[str, ...], SceneGraph] = {}

        def graph_of(group: tuple[str, ...]) -> SceneGraph:
            graph = graphs.get(group)
            if graph is None:
                parts = (scenes[t] for t in group)
                graph = graphs[group] = SceneGraph.of(parts, self.synsets_of)
            return graph

        return graph_of

    def _read(self, parses: dict[str, Parse]) -> dict[str, Scene]:
        corenlp = self.parser.corenlp
        return {text: scene(parse, self._lemmas, corenlp=corenlp) for text, parse in parses.items()}

    def synsets_of(self, word: str) -> frozenset[int]:
        """Return the synsets of a word, looked up once."""
        synsets = self._synsets.get(word)
        if synsets is None:
            synsets = self._synsets[word] = self.tables.all_synsets(word.replace(" ", "_"))
        return synsets


@lru_cache(maxsize=4)
def reader(parser: str, tables: str | None) -> Reader:
    """Return the reader for a parser and tables, made once per process."""
    return Reader(parser, tables)


# -- counting -------------------------------------------------------------------------------


def row(caption: SceneGraph, references: SceneGraph) -> Floats:
    """Return the statistics of one caption."""
    whole, *counts = counted(caption, references)
    statistics = np.zeros(1 + 2 * len(_PARTS))
    statistics[0] = _f(*whole)
    for k, (matched, mine, theirs) in enumerate(counts):
        if theirs:
            statistics[1 + 2 * k] = _f(matched, mine, theirs)
            statistics[2 + 2 * k] = 1.0
    return statistics


def counted(caption: SceneGraph, references: SceneGraph) -> list[tuple[int, int, int]]:
    """Return tuples that match, of the caption and of the references: in all, and by part."""
    matches = match(caption, references)
    return [
        (matches.count, len(caption), len(references)),
        (sum(map(bool, matches.objects)), len(caption.objects), len(references.objects)),
        (len(matches.relations), _size(caption.relations), _size(references.relations)),
        (len(matches.attributes), _listed(caption.attributes), _listed(references.attributes)),
        *(_named(caption, references, matches, words) for words in (COLOURS, NUMBERS, SIZES)),
    ]


def _f(matched: int, mine: int, theirs: int) -> float:
    return 2.0 * matched / (mine + theirs) if matched else 0.0


def _size(relations: dict[tuple[int, int], list[Concept]]) -> int:
    return sum(map(len, relations.values()))


def _listed(attributes: list[list[Concept]]) -> int:
    return sum(map(len, attributes))


def _named(
    caption: SceneGraph, references: SceneGraph, matches: Matches, words: frozenset[str]
) -> tuple[int, int, int]:
    """Count the attributes that name one word of a list.

    The Java tool looks the printed concept up, so one that was merged ("gray/grey") is in no list.
    """

    def listed(graph: SceneGraph) -> list[tuple[int, Concept]]:
        return [
            (at, concept)
            for at, owned in enumerate(graph.attributes)
            for concept in owned
            if len(concept.words) == 1 and not concept.words.isdisjoint(words)
        ]

    theirs = listed(references)
    mine = listed(caption)
    matched = sum(
        any(at in matches.objects[mine_at] and concept.alike(other) for at, other in theirs)
        for mine_at, concept in mine
    )
    return matched, len(mine), len(theirs)


def _notes(texts: Iterable[str]) -> dict[str, int]:
    long = sum(t.count(" ") >= LONGEST for t in texts)
    return {f"sentences cut to {LONGEST} words": long} if long else {}
