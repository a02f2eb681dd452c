"""Scene graphs as SPICE compares them: merged objects, attributes and relations.

A concept is a set of words with the WordNet synsets of all of them. Two concepts are alike when
they share a word or a synset. Building a graph merges what is alike: an object into the most
similar one (Jaccard of the synsets; the earlier of equals), an attribute into the first similar one
of its object, a relation into the first similar one between the same two objects.

The Java tool walks its nodes in the order of memory hashes, so its merges cannot be repeated bit by
bit. Here the order is that of the sentences as given; callers sort them to be independent of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from captious.text._scene_rules import Scene

Synsets = Callable[[str], frozenset[int]]


class Concept:
    """A set of words and their synsets."""

    __slots__ = ("synsets", "words")

    def __init__(self, word: str, synsets: frozenset[int]) -> None:
        self.words: frozenset[str] = frozenset((word,))
        self.synsets = synsets

    def alike(self, other: Concept) -> bool:
        """Tell whether the two share a word or a synset."""
        return not (self.words.isdisjoint(other.words) and self.synsets.isdisjoint(other.synsets))

    def absorb(self, word: str, synsets: frozenset[int]) -> None:
        """Take over a word and its synsets."""
        self.words |= {word}
        self.synsets |= synsets

    def __str__(self) -> str:
        return "/".join(sorted(self.words))


@dataclass
class SceneGraph:
    """Objects with their attributes, and relations between them."""

    synsets_of: Synsets
    objects: list[Concept] = field(default_factory=list)
    attributes: list[list[Concept]] = field(default_factory=list)
    relations: dict[tuple[int, int], list[Concept]] = field(default_factory=dict)
    _by_word: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, scenes: Iterable[Scene], synsets_of: Synsets) -> SceneGraph:
        """Merge scenes into one graph."""
        graph = cls(synsets_of)
        for scene in scenes:
            for source, name, target in scene.relations:
                ends = graph._object(source), graph._object(target)
                graph._merge(graph.relations.setdefault(ends, []), name)
            for owner, name in scene.attributes:
                graph._merge(graph.attributes[graph._object(owner)], name)
            for object_name in scene.objects:
                graph._object(object_name)
        return graph

    def __len__(self) -> int:
        """Number of tuples."""
        return (
            len(self.objects)
            + sum(map(len, self.attributes))
            + sum(map(len, self.relations.values()))
        )

    def like(self, concept: Concept) -> list[int]:
        """Return the objects that are like a concept of another graph."""
        words, synsets = concept.words, concept.synsets
        return [
            at
            for at, other in enumerate(self.objects)
            if not (synsets.isdisjoint(other.synsets) and words.isdisjoint(other.words))
        ]

    def _object(self, word: str) -> int:
        at = self._by_word.get(word)
        if at is not None:
            return at
        synsets = self.synsets_of(word)
        # No index by synset: a scan of the few objects of a graph is faster than keeping one.
        near = [i for i, c in enumerate(self.objects) if not synsets.isdisjoint(c.synsets)]
        if near:
            at = max(near, key=lambda i: _jaccard(synsets, self.objects[i].synsets))
            self.objects[at].absorb(word, synsets)
        else:
            at = len(self.objects)
            self.objects.append(Concept(word, synsets))
            self.attributes.append([])
        self._by_word[word] = at
        return at

    def _merge(self, concepts: list[Concept], word: str) -> None:
        synsets = self.synsets_of(word)
        for concept in concepts:
            if word in concept.words:
                return
            if not synsets.isdisjoint(concept.synsets):
                concept.absorb(word, synsets)
                return
        concepts.append(Concept(word, synsets))


def _jaccard(a: frozenset[int], b: frozenset[int]) -> float:
    common = len(a & b)
    return common / (len(a) + len(b) - common)


@dataclass(frozen=True)
class Matches:
    """Which tuples of a caption's graph have a counterpart in the references' graph.

    Attributes:
        objects: caption object -> the reference objects that are like it.
        attributes: (object, attribute) numbers of the caption -> the matching reference tuple.
        relations: (source, target, relation) numbers -> the matching reference tuple.
    """

    objects: list[list[int]]
    attributes: dict[tuple[int, int], tuple[int, int]]
    relations: dict[tuple[int, int, int], tuple[int, int, int]]

    @property
    def count(self) -> int:
        """Number of caption tuples with a counterpart."""
        return sum(map(bool, self.objects)) + len(self.attributes) + len(self.relations)


def match(caption: SceneGraph, references: SceneGraph) -> Matches:
    """Find a counterpart for every tuple; one reference tuple may serve several."""
    like = [references.like(c) for c in caption.objects]
    attributes: dict[tuple[int, int], tuple[int, int]] = {}
    for at, owned in enumerate(caption.attributes):
        for k, concept in enumerate(owned):
            hit = _attribute(concept, like[at], references)
            if hit is not None:
                attributes[at, k] = hit
    relations: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    for (source, target), named in caption.relations.items():
        if like[source] and like[target]:
            for k, concept in enumerate(named):
                counterpart = _relation(concept, like[source], like[target], references)
                if counterpart is not None:
                    relations[source, target, k] = counterpart
    return Matches(like, attributes, relations)


def _attribute(
    concept: Concept, owners: list[int], references: SceneGraph
) -> tuple[int, int] | None:
    for owner in owners:
        for k, other in enumerate(references.attributes[owner]):
            if concept.alike(other):
                return owner, k
    return None


def _relation(
    concept: Concept, sources: list[int], targets: list[int], references: SceneGraph
) -> tuple[int, int, int] | None:
    for source in sources:
        for target in targets:
            for k, other in enumerate(references.relations.get((source, target), ())):
                if concept.alike(other):
                    return source, target, k
    return None
