"""Draw the captions that a human-or-machine classifier is trained on (Sharif et al. 2018).

As in the paper: per image three human captions are positive examples, each with four other human
captions of the image as references; three machine captions are negative examples, with four drawn
references. Two more kinds of negatives are ours, and needed:

* ``other``: human captions of other images. Captions of real captioners for the same image are
  nearly equal to human ones in every overlap feature (often better), so that a classifier of these
  two learns to *punish* overlap. Captions that do not fit the image teach what the score is for.
* ``gamed``: spoilt versions of a positive example (see :mod:`captious.perturb.attacks`), with the
  references of that example.

Positives and negatives have the same total weight; the kinds of negatives share theirs as asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from captious.errors import InputError
from captious.perturb import attacks
from captious.types import CaptionSet, Floats, Ints

POSITIVE = "human"
MACHINE, OTHER, GAMED = "machine", "other", "gamed"


@dataclass(frozen=True)
class Draw:
    """How many examples of each kind are taken per image.

    Attributes:
        human: positive examples.
        machine: captions of captioners, each of another one.
        other: human captions of other images.
        gamed: spoilt versions per positive example, one attack each.
        references: per example.
        shares: weight of machine, other and gamed among the negatives.
    """

    human: int = 3
    machine: int = 3
    other: int = 3
    gamed: int = 1
    references: int = 4
    shares: tuple[float, float, float] = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Drawn:
    """Examples.

    Attributes:
        samples: captions with the references drawn for them.
        labels: 1 for human, 0 for negatives.
        kinds: human, machine, other, gamed.
        partner: for a gamed caption, the row of the untouched one; else -1.
        images: image of every row.
    """

    samples: CaptionSet
    labels: Ints
    kinds: np.ndarray
    partner: Ints
    images: np.ndarray

    def weights(self, shares: Sequence[float] = (1.0, 1.0, 1.0)) -> Floats:
        """Return a weight per row: both classes equal, negatives by ``shares``, mean 1."""
        out = np.zeros(len(self.labels))
        kinds = [k for k in (MACHINE, OTHER, GAMED) if (self.kinds == k).any()]
        share_of = dict(zip((MACHINE, OTHER, GAMED), shares, strict=True))
        total = sum(share_of[k] for k in kinds) or 1.0
        for kind, mass in [(POSITIVE, 1.0), *((k, share_of[k] / total) for k in kinds)]:
            mine = self.kinds == kind
            out[mine] = mass / max(1, mine.sum())
        return out * len(out) / max(out.sum(), 1e-12)


def draw(
    human: Mapping[str, Sequence[str]],
    machine: Mapping[str, Mapping[str, str]],
    references: Mapping[str, Sequence[str]],
    how: Draw | None = None,
    seed: int = 0,
) -> Drawn:
    """Draw training examples.

    Args:
        human: image -> captions that people wrote.
        machine: captioner -> image -> its caption.
        references: image -> human captions; one that equals the judged caption is never its
            reference.
        how: numbers per image.
        seed: of every draw.

    Raises:
        InputError: one class is empty, or images have too few captions.
    """
    how = how or Draw()
    images = [i for i in human if i in references]
    _check(human, machine, references, images, how)
    rng = np.random.default_rng(seed)
    kit = attacks.Material.of([c for by in machine.values() for c in by.values()])
    rows: list[tuple[str, list[str], str, int, str, str]] = []

    def refs_for(image: str, caption: str) -> list[str]:
        free = [r for r in references[image] if _same(r) != _same(caption)]
        picked = rng.choice(len(free), min(how.references, len(free)), replace=False)
        return [free[i] for i in sorted(picked)]

    attack_names = list(attacks.ATTACKS)
    for number, image in enumerate(images):
        mine = list(human[image])
        for at in rng.choice(len(mine), min(how.human, len(mine)), replace=False):
            own_references = refs_for(image, mine[at])
            rows.append((mine[at], own_references, POSITIVE, -1, image, ""))
            whole = len(rows) - 1
            for kind in rng.choice(attack_names, how.gamed, replace=False):
                made = attacks.spoil(mine[at], str(kind), rng, kit, 4)
                if made:
                    text = made[int(rng.integers(len(made)))]
                    rows.append((text, own_references, GAMED, whole, image, str(kind)))
        able = [s for s in machine if image in machine[s]]
        for at in rng.choice(len(able), min(how.machine, len(able)), replace=False):
            caption = machine[able[at]][image]
            rows.append((caption, refs_for(image, caption), MACHINE, -1, image, able[at]))
        for _ in range(how.other if len(images) > 1 else 0):
            step = int(rng.integers(1, len(images)))
            others = human[images[(number + step) % len(images)]]
            caption = others[int(rng.integers(len(others)))]
            rows.append((caption, refs_for(image, caption), OTHER, -1, image, ""))
    samples = CaptionSet.build(
        [r[0] for r in rows],
        [r[1] for r in rows],
        ids=[f"{r[4]}|{i}" for i, r in enumerate(rows)],
        images=[r[4] for r in rows],
        systems=[f"{r[2]}:{r[5]}" if r[5] else r[2] for r in rows],
    )
    kinds = np.array([r[2] for r in rows], dtype=object)
    return Drawn(
        samples,
        (kinds == POSITIVE).astype(np.int64),
        kinds,
        np.array([r[3] for r in rows], np.int64),
        np.array([r[4] for r in rows], dtype=object),
    )


def _same(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(" .")


def _check(
    human: Mapping[str, Sequence[str]],
    machine: Mapping[str, Mapping[str, str]],
    references: Mapping[str, Sequence[str]],
    images: list[str],
    how: Draw,
) -> None:
    problems = []
    if not images:
        problems.append("no image has both human captions and references: do the ids match?")
    held = sum(1 for by in machine.values() for image in by if image in references)
    if not held and not how.other and not how.gamed:
        problems.append(
            "there is one class only: no machine caption belongs to an image with references, and "
            "neither captions of other images nor gamed ones are drawn"
        )
    elif machine and not held:
        problems.append("no machine caption belongs to an image with references: do the ids match?")
    few = [i for i in images if len({_same(r) for r in references[i]}) < 2]
    if few:
        problems.append(
            f"{len(few):,} images have fewer than two different references (first: {few[0]!r}): "
            "a human caption needs another one to be compared with"
        )
    if problems:
        raise InputError(problems)
