"""Captions as early caption generators wrote them, made from what people said.

Generators before neural networks filled templates with what detectors had found: "this is a
photograph of one dog and one brown ball". A network that has read only people's captions of a few
thousand photographs does not know what to do with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from captious.text._scene_rules import Parse
from captious.text.ptb import tokenize
from captious.text.scene_parser import SceneParser

_TEMPLATES: Final = (
    "there is a {0} and a {1}",
    "this is a photograph of one {0} and one {1}",
    "there are one {0} , one {1} and one {2} . the {0} is near the {1}",
    "a {0} with a {1}",
    "a {0} in the {2} with a {1}",
    "the {0} is {verb} in the {1}",
    "the {0} is {verb} by the {2}",
    "{0} {verb} {1} {2}",
)


def machine_captions(
    captions: Sequence[Sequence[str]], count: int = 2, seed: int = 0
) -> list[list[str]]:
    """Some captions of each photograph in the manner of templates, of its people's words."""
    draw = np.random.default_rng(seed)
    drawn = [[str(s) for s in draw.permutation(list(own))[:2]] for own in captions]
    spoken = {text: " ".join(tokenize(text)) for own in drawn for text in own}
    parses = SceneParser("default").parse(spoken.values())
    out = []
    for own in drawn:
        named, done = _words([parses[spoken[text]] for text in own])
        made = []
        for _ in range(count if named else 0):
            picks = draw.permutation(len(named)).tolist()
            things = [named[picks[k % len(picks)]] for k in range(3)]
            verb = done[int(draw.integers(len(done)))] if done else "standing"
            template = _TEMPLATES[int(draw.integers(len(_TEMPLATES)))]
            made.append(template.format(*things, verb=verb))
        out.append(made)
    return out


def _words(parses: Sequence[Parse]) -> tuple[list[str], list[str]]:
    """What is named, some of it with its adjective, and what is done."""
    named: dict[str, str] = {}
    done: dict[str, None] = {}
    for parse in parses:
        for at, (word, tag) in enumerate(zip(parse.words, parse.tags, strict=True)):
            if tag in {"NN", "NNS"}:
                plain = at > 0 and parse.tags[at - 1] == "JJ" and word not in named
                named[word] = f"{parse.words[at - 1]} {word}" if plain else word
            elif tag == "VBG":
                done[word] = None
    return list(named.values()), list(done)
