"""From a dependency parse to objects, attributes and relations.

The rules follow the scene-graph step of SPICE, restated for the labels of spaCy's English parsers
(CLEAR style: prepositions are nodes, auxiliaries of "be" are heads). The comments say where a rule
keeps a habit of the Java tool that one would not expect; each of these was seen in its output.

A parser that learned from CoreNLP's trees (``corenlp=True``) needs no imitation of CoreNLP: there
the rules are those of the Java tool as written, and the habits that make up for another parser
(standing as a noun, moved prepositions, participles that keep their form) are off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from captious.text._scene_words import (
    A_QUANTITY_OF,
    LOW_PREPOSITIONS,
    PRONOUNS,
    QUANTITY_OF,
    READ_AS_NOUNS,
    THREE_WORD_PREPOSITIONS,
    TWO_WORD_PREPOSITIONS,
)

Relation = tuple[str, str, str]
Attribute = tuple[str, str]


class Parse(NamedTuple):
    """A sentence: words, Penn tags, CLEAR labels, heads (the root is its own head)."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    labels: tuple[str, ...]
    heads: tuple[int, ...]


class Scene(NamedTuple):
    """What a sentence says, as base forms, in the order in which it is said."""

    relations: tuple[Relation, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    objects: tuple[str, ...] = ()


_NOUNS: Final = frozenset({"NN", "NNS", "NNP", "NNPS"})
_QUANTITIES: Final = A_QUANTITY_OF | QUANTITY_OF
_VERBS: Final = frozenset({"VB", "VBD", "VBG", "VBN", "VBP", "VBZ"})


def scene(parse: Parse, lemmas: Mapping[tuple[str, str], str], *, corenlp: bool = False) -> Scene:
    """Return the scene of a sentence; ``corenlp`` if the tree is as CoreNLP would draw it."""
    return _Reader(parse, lemmas, corenlp).read()


class _Reader:
    """One sentence while its tuples are collected; tokens are numbers."""

    def __init__(self, parse: Parse, lemmas: Mapping[tuple[str, str], str], corenlp: bool) -> None:
        self.corenlp = corenlp
        self.words = words = parse.words
        self.tags = tags = list(parse.tags)
        self.labels = list(parse.labels)
        self.heads = list(parse.heads)
        n = len(words)
        self.children: list[list[int]] = [[] for _ in range(n)]
        for i, head in enumerate(parse.heads):
            if head != i:
                self.children[head].append(i)
        if not corenlp:
            self._retag()
            self._attach()
        self.lemmas = [lemmas[key] for key in zip(words, tags, strict=True)]
        self.noun = [t in _NOUNS for t in tags]
        self.stands_for = list(range(n))  # quantities and pronouns stand for another noun
        self.relations: list[tuple[int, str, int]] = []
        self.attributes: list[tuple[int, str]] = []

    def read(self) -> Scene:
        """Apply all rules."""
        self._quantities()
        self._pronouns()
        for i, tag in enumerate(self.tags):
            if tag in _NOUNS:
                self._noun(i)
            elif tag in _VERBS:
                self._verb(i)
            elif self.corenlp:
                self._qualities(i, i)
        lemmas = self.lemmas
        return Scene(
            tuple((lemmas[s], r, lemmas[o]) for s, r, o in self.relations),
            tuple((lemmas[s], a) for s, a in self.attributes),
            tuple(
                lemmas[i]
                for i, is_noun in enumerate(self.noun)
                if is_noun and self.labels[i] != "compound"
            ),
        )

    # -- before the tuples ------------------------------------------------------------------

    def _retag(self) -> None:
        """Read "a man standing ..." as the Java tool's tagger does: standing is a noun there."""
        words, tags, labels, heads = self.words, self.tags, self.labels, self.heads
        if READ_AS_NOUNS.isdisjoint(words):
            return
        for i, word in enumerate(words):
            if (
                word in READ_AS_NOUNS
                and labels[i] == "acl"
                and heads[i] == i - 1
                and tags[i - 1] in _NOUNS
            ):
                tags[i], labels[i] = "NN", "dep"

    def _attach(self) -> None:
        """Move modifiers to where the Java tool's parser puts them.

        Its noun phrases are flat ("traffic light pole": both nouns modify pole), and it hangs a
        preposition that follows "X of Y", or a second one after a verb, on the nearest noun.
        """
        words, tags, labels, heads = self.words, self.tags, self.labels, self.heads
        for i, label in enumerate(labels):
            head = heads[i]
            if label == "compound":
                while labels[head] == "compound" and heads[head] != head:
                    head = heads[head]
                if head != heads[i]:
                    self._move(i, head)
            elif label == "prep":
                on_verb = tags[head] in _VERBS
                if on_verb and words[i] not in LOW_PREPOSITIONS:
                    continue
                if not on_verb and (words[i] == "of" or tags[head] not in _NOUNS):
                    continue
                before = [k for k in self.children[head] if k < i and labels[k] == "prep"]
                if not on_verb:
                    before = [k for k in before if words[k] == "of"]
                near = self._child(before[-1], "pobj") if before else None
                if near is not None and tags[near] in _NOUNS:
                    self._move(i, near)

    def _move(self, i: int, head: int) -> None:
        self.children[self.heads[i]].remove(i)
        self.heads[i] = head
        self.children[head].append(i)
        self.children[head].sort()

    def _quantities(self) -> None:
        """Let "a couple of dogs" stand for the dogs, with the quantity as an attribute."""
        words, labels = self.words, self.labels
        if _QUANTITIES.isdisjoint(words):
            return
        for i, word in enumerate(words):
            three = word in A_QUANTITY_OF
            if not three and word not in QUANTITY_OF:
                continue
            if three and not any(words[k] == "a" for k in self.children[i]):
                continue
            of = self._child(i, "prep", "of")
            noun = None if of is None else self._child(of, "pobj")
            if of is not None and noun is not None and self.noun[noun]:
                self.stands_for[i] = noun
                labels[of] = "dep"
                if self.corenlp:
                    for k in self.children[i]:
                        if k < i and labels[k] == "amod":
                            labels[k] = "dep"  # a large pair of scissors: part of the quantity
                    if self.tags[noun] not in ("NNS", "NNPS"):
                        continue
                self.attributes.append((noun, "a" if three else self.lemmas[i]))

    def _pronouns(self) -> None:
        """Let pronouns stand for the head of the first noun phrase."""
        if PRONOUNS.isdisjoint(self.words):
            return
        first = next(
            (
                i
                for i, is_noun in enumerate(self.noun)
                if is_noun and self.labels[i] not in ("compound", "nmod", "poss")
            ),
            None,
        )
        if first is None:
            return
        for i in range(first + 1, len(self.words)):
            if self.tags[i] in ("PRP", "PRP$") and self.words[i] in PRONOUNS:
                self.stands_for[i] = self.stands_for[first]

    # -- walking the tree -------------------------------------------------------------------

    def _child(self, i: int, label: str, word: str | None = None) -> int | None:
        for k in self.children[i]:
            if self.labels[k] == label and (word is None or self.words[k] == word):
                return k
        return None

    def _joined(self, i: int) -> list[int]:
        """Return a token and everything coordinated with it."""
        joined = [i]
        for j in joined:
            joined.extend(k for k in self.children[j] if self.labels[k] == "conj")
        return joined

    def _things(self, i: int) -> list[int]:
        """Return the nouns that a token and its coordinates stand for."""
        stands, noun = self.stands_for, self.noun
        return [stands[j] for j in self._joined(i) if noun[stands[j]]]

    def _words(self, i: int) -> list[int]:
        """Return what a token and its coordinates stand for, without unresolved pronouns."""
        stands, tags = self.stands_for, self.tags
        return [stands[j] for j in self._joined(i) if tags[stands[j]] != "PRP"]

    def _collapsed(self, preposition: int, noun: int) -> int | None:
        """Return the "of" below the top in "on top of", if this is such a phrase."""
        if (self.words[preposition], self.words[noun], "of") not in THREE_WORD_PREPOSITIONS:
            return None
        if any(self.labels[k] in ("det", "amod") for k in self.children[noun]):
            return None
        return self._child(noun, "prep", "of")

    def _below(self, preposition: int, name: str, nouns: bool) -> list[tuple[str, int]]:
        """Return (preposition, noun) pairs below a preposition, or pairs with any word."""
        pairs: list[tuple[str, int]] = []
        for k in self.children[preposition]:
            label = self.labels[k]
            if label == "pobj":
                of = self._collapsed(preposition, k)
                if of is not None:
                    pairs += self._below(of, f"{name} {self.words[k]} of", nouns)
                    continue
                targets = self._things(k) if nouns else self._words(k)
                pairs += [(name, target) for target in targets]
            elif label == "prep":
                pairs += self._below(k, f"{name} {self.words[k]}", nouns)
            elif label == "conj":
                pairs += self._below(k, self.words[k], nouns)
        return pairs

    def _prepositional(self, i: int, nouns: bool) -> list[tuple[str, int]]:
        """Return (preposition, noun) pairs that modify a verb or noun."""
        pairs: list[tuple[str, int]] = []
        words, labels = self.words, self.labels
        for k in self.children[i]:
            label = labels[k]
            if label in ("prep", "agent", "dative"):
                pairs += self._below(k, words[k], nouns)
            elif label == "advmod":
                for p in self.children[k]:
                    if labels[p] == "prep":
                        both = (words[k], words[p]) in TWO_WORD_PREPOSITIONS
                        name = f"{words[k]} {words[p]}" if both else words[p]
                        pairs += self._below(p, name, nouns)
            elif self.corenlp and (second := self._second_word(k)) is not None:
                pairs += self._below(second, f"{words[k]} {words[second]}", nouns)
        return pairs

    def _second_word(self, i: int) -> int | None:
        """Return the "to" of "next to" below "next", if this is such a preposition."""
        for p in self.children[i]:
            both = self.words[i], self.words[p]
            if p == i + 1 and self.labels[p] == "prep" and both in TWO_WORD_PREPOSITIONS:
                return p
        return None

    # -- tuples -----------------------------------------------------------------------------

    def _subjects(self, verb: int) -> list[int]:
        """Return the subject nouns, taking over those of the first of coordinated verbs."""
        v = verb
        while True:
            own = [k for k in self.children[v] if self.labels[k] in ("nsubj", "nsubjpass")]
            if own or self.labels[v] != "conj" or self.tags[self.heads[v]] not in _VERBS:
                break
            v = self.heads[v]
        return [s for k in own if self.labels[k] == "nsubj" for s in self._things(k)]

    def _verb(self, v: int) -> None:
        words, labels, lemmas = self.words, self.labels, self.lemmas
        subjects = self._subjects(v)
        direct = [
            ("", noun)
            for k in self.children[v]
            if labels[k] in ("dobj", "dative")
            for noun in self._things(k)
        ]
        placed = self._prepositional(v, nouns=True)
        if lemmas[v] == "be":
            self._copula(v, subjects, placed)
            return
        particle = self._child(v, "prt")
        name = lemmas[v] if particle is None else f"{lemmas[v]} {words[particle]}"
        objects = direct + placed
        host = self.heads[v] if labels[v] == "conj" else v
        if labels[host] == "acl" and not subjects:
            subjects = self._things(self.heads[host])
        elif not objects:
            self.attributes += [(s, lemmas[v] if self.corenlp else name) for s in subjects]
        self.relations += [
            (s, f"{name} {preposition}" if preposition else name, o)
            for s in subjects
            for preposition, o in objects
        ]
        passive = self._child(v, "nsubjpass")
        agent = self._child(v, "agent")
        if passive is not None and agent is not None:
            self.relations += [
                (by, lemmas[v], noun)
                for _, by in self._below(agent, "by", nouns=True)
                for noun in self._things(passive)
            ]

    def _copula(self, v: int, subjects: Sequence[int], placed: list[tuple[str, int]]) -> None:
        predicates = [k for k in self.children[v] if self.labels[k] in ("attr", "acomp")]
        for k in predicates:
            to = self._second_word(k) if self.corenlp else None
            if to is not None:
                pairs = self._below(to, f"{self.words[k]} {self.words[to]}", nouns=True)
                self.relations += [(s, name, o) for s in subjects for name, o in pairs]
                continue
            for p in self._joined(k):
                self.attributes += [(s, self.lemmas[p]) for s in subjects]
        if not predicates:
            self.relations += [(s, name, o) for s in subjects for name, o in placed]

    def _quality(self, i: int) -> str:
        """Return a modifier: participles before a noun keep their form (stuffed, matching)."""
        kept = not self.corenlp and self.tags[i] in ("VBN", "VBG")
        return self.words[i] if kept else self.lemmas[i]

    def _qualities(self, i: int, noun: int) -> None:
        """Add the modifiers before a word; the Java tool asks of no word to be a noun for that."""
        labels, tags = self.labels, self.tags
        for k in self.children[i]:
            label = labels[k]
            if label == "compound":
                wanted = not self.corenlp or tags[k] in _NOUNS
            else:
                wanted = label == "amod" or (label == "nmod" and tags[k][:2] in ("NN", "JJ"))
            if wanted and not (self.corenlp and self._second_word(k) is not None):
                self.attributes += [(noun, self._quality(j)) for j in self._joined(k)]

    def _noun(self, i: int) -> None:
        labels, tags, lemmas = self.labels, self.tags, self.lemmas
        # For the Java tool "a bunch" keeps what hangs on it: the bunch, not the fruit, is on it.
        noun = i if self.corenlp else self.stands_for[i]
        self._qualities(i, noun)
        for k in self.children[i]:
            label = labels[k]
            if label == "nummod" and tags[i] in ("NNS", "NNPS"):
                self.attributes.append((noun, lemmas[k]))
            elif label == "poss":
                self.relations += [(owner, "have", noun) for owner in self._things(k)]
        if labels[i] == "pobj" and self._collapsed(self.heads[i], i) is not None:
            return
        self.relations += [(noun, name, o) for name, o in self._prepositional(i, nouns=False)]
