"""Named protocols: everything that decides a number besides metric and data.

The same metric on the same judgements gives tau = .32, .34 or .31 depending on the variant of
Kendall's tau and on how several ratings are pooled. A protocol fixes all of that under a name, and
no result is printed without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.errors import InputError, UsageError, did_you_mean
from captious.judgements.judgement_set import JudgementSet, same_text
from captious.types import CaptionSet

SEED = 12345
SYSTEMS = ("machine", "human")
# In these sets some judged captions stand among the references of their image.
_OWN_AMONG_REFERENCES = ("flickr8k-cf", "composite", "composite-thoroughness")


@dataclass(frozen=True)
class Protocol:
    """How agreement is measured on a judgement set.

    Attributes:
        name: ``set/what``.
        set: the judgement set, or ``*`` for a user's own file.
        measure: ``tau-b``, ``tau-c``, ``rho``, ``r`` or ``accuracy``.
        pooling: ``each`` rating is an observation, or the ``mean`` of a caption's ratings is.
        ties: what equal scores of a pair earn: ``strict`` 0, ``half`` 0.5, ``correct`` 1.
        references: None takes those of the set; a number draws that many from the pool.
        draws: how often references are drawn; results are averaged.
        seed: of the draws.
        drop_own: whether captions that are their own reference are left out.
        part: the group of the set that is kept (``coco`` of COMPOSITE); empty for all.
        systems: ``machine`` keeps captions of captioners only, ``human`` those of people.
        joined: whether the references of a caption are joined into one text.
        drop_equal: ``row`` takes references that equal the caption out of its references,
            ``image`` takes them out for every caption of the image, ``no`` leaves them.
        used_by: who reports numbers under it.
    """

    name: str
    set: str
    measure: str
    pooling: str = "each"
    ties: str = "strict"
    references: int | None = None
    draws: int = 1
    seed: int = SEED
    drop_own: bool = False
    drop_equal: str = "no"
    used_by: str = ""
    part: str = ""
    systems: str = ""
    joined: bool = False

    def describe(self) -> str:
        """Return the protocol in words."""
        parts = []
        if self.measure == "accuracy":
            tie = {
                "strict": "ties are wrong",
                "half": "ties count half",
                "correct": "ties count as correct",
            }[self.ties]
            parts.append(f"share of pairs in which the preferred caption scores higher, {tie}")
        else:
            kind = {
                "tau-b": "Kendall tau-b",
                "tau-c": "Kendall tau-c",
                "rho": "Spearman rho",
                "r": "Pearson r",
            }[self.measure]
            pool = {
                "each": "every rating is an observation",
                "mean": "mean rating of each caption",
            }[self.pooling]
            parts.append(f"{kind}, {pool}")
        if self.part:
            parts.append(f"the part {self.part} of the set")
        if self.systems:
            parts.append(
                {"machine": "captions of captioners only", "human": "captions of people only"}[
                    self.systems
                ]
            )
        if self.drop_own:
            parts.append("captions that are their own reference left out")
        if self.references is None:
            parts.append("references of the set")
        elif self.references == 0:
            parts.append("no references")
        else:
            parts.append(
                f"{self.references} reference{'s' * (self.references > 1)} drawn per image, "
                f"mean of {self.draws} draw{'s' * (self.draws > 1)}, seed {self.seed}"
            )
        if self.drop_equal != "no":
            whose = {"row": "that caption", "image": "all captions of the image"}[self.drop_equal]
            parts.append(f"a judged caption is taken out of the references of {whose}")
        if self.joined:
            parts.append("the references of a caption are joined into one")
        return "; ".join(parts)

    def changed(
        self,
        *,
        references: int | None = None,
        draws: int | None = None,
        seed: int | None = None,
        drop_own: bool | None = None,
        drop_equal: str | None = None,
        part: str | None = None,
        systems: str | None = None,
        joined: bool | None = None,
    ) -> Protocol:
        """Return a variant whose name says what was changed."""
        changes = {
            "references": references,
            "draws": draws,
            "seed": seed,
            "drop_own": drop_own,
            "drop_equal": drop_equal,
            "part": part,
            "systems": systems,
            "joined": joined,
        }
        new = {k: v for k, v in changes.items() if v is not None and v != getattr(self, k)}
        name = self.name + "".join(f"+{k}={v}" for k, v in new.items())
        return replace(self, name=name, **new)  # type: ignore[arg-type]


def _all() -> dict[str, Protocol]:
    listed: list[Protocol] = []
    users = {
        ("flickr8k-expert", "tau-c", "each"): "TIGEr, CLIPScore and its successors",
        ("flickr8k-expert", "rho", "each"): "TIGEr; Elliott and Keller 2014",
        ("flickr8k-expert", "tau-b", "mean"): "BERT-TBR (own rows), ViLBERTScore",
        ("flickr8k-cf", "tau-b", "each"): "CLIPScore and its successors",
        ("composite", "tau-c", "each"): "CLIPScore and its successors",
        ("composite", "tau-b", "each"): "BERT-TBR, ViLBERTScore, Sharif et al.",
        ("composite", "rho", "each"): "TIGEr",
        ("polaris", "tau-c", "each"): "Polos and its successors",
        ("nebula", "tau-c", "each"): "DENEB and its successors",
    }
    for measure in ("tau-b", "tau-c", "rho", "r"):
        for pooling, word in (("each", "pooled"), ("mean", "mean")):
            listed.append(
                Protocol(
                    f"flickr8k-expert/{measure}-{word}",
                    "flickr8k-expert",
                    measure,
                    pooling,
                    drop_own=True,
                    used_by=users.get(("flickr8k-expert", measure, pooling), ""),
                )
            )
        listed += [
            Protocol(
                f"{name}/{measure}",
                name,
                measure,
                drop_equal="image" if name in _OWN_AMONG_REFERENCES else "no",
                used_by=users.get((name, measure, "each"), ""),
            )
            for name in (
                "flickr8k-cf",
                "composite",
                "composite-thoroughness",
                "thumb",
                "polaris",
                "nebula",
                "cxc-sits",
                "cxc-sts",
            )
        ]
        listed += [
            Protocol(f"{name}/{measure}-row", name, measure, drop_equal="row")
            for name in _OWN_AMONG_REFERENCES
        ]
        listed.append(
            Protocol(f"flickr8k-cf/{measure}-without-own", "flickr8k-cf", measure, drop_own=True)
        )
        listed += [
            Protocol(f"own/{measure}-{word}", "*", measure, pooling)
            for pooling, word in (("each", "pooled"), ("mean", "mean"))
        ]
    for measure in ("tau-b", "tau-c", "rho"):
        listed += [
            Protocol(f"cxc-others/{measure}-{part}", "cxc-others", measure, part=part)
            for part in "AB"
        ]
    for name in ("composite", "composite-thoroughness"):
        listed += [
            Protocol(
                f"{name}/rho-coco-machine-{k}refs",
                name,
                "rho",
                references=k,
                draws=5 if k == 1 else 1,
                part="coco",
                systems="machine",
                used_by="VIFIDEL",
            )
            for k in (5, 1, 0)
        ]
    for ties in ("strict", "half", "correct"):
        for name in ("pascal50s", "pascal50s-votes", "pascal50s-consensus", "abstract50s", "foil",
                     "nocaps-foil"):  # fmt: skip
            fixed = {"pascal50s": "strict-5refs"}.get(name, "strict-allrefs")
            listed.append(
                Protocol(
                    f"{name}/{fixed.replace('strict', ties)}",
                    name,
                    "accuracy",
                    ties=ties,
                    used_by={"strict": "TIGEr, Sharif et al.", "correct": "SPICE's paper"}.get(
                        ties, ""
                    )
                    if name == "pascal50s"
                    else "",
                )
            )
            listed.append(
                Protocol(
                    f"{name}/{ties}-0refs",
                    name,
                    "accuracy",
                    ties=ties,
                    references=0,
                    used_by="VIFIDEL" if name.startswith("pascal") else "",
                )
            )
            sizes = {
                "pascal50s": (1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 48, 50),
                "foil": (1, 4),
                "nocaps-foil": (1, 5, 8),
            }.get(name, (1, 5))
            listed += [
                Protocol(
                    f"{name}/{ties}-{k}drawn",
                    name,
                    "accuracy",
                    ties=ties,
                    references=k,
                    draws=5 if k <= 5 else 1,
                )
                for k in sizes
            ]
        listed.append(Protocol(f"own/{ties}", "*", "accuracy", ties=ties))
    return {p.name: p for p in listed}


PROTOCOLS = _all()
DEFAULTS = {
    "flickr8k-expert": "flickr8k-expert/tau-c-pooled",
    "flickr8k-cf": "flickr8k-cf/tau-b",
    "composite": "composite/tau-c",
    "composite-thoroughness": "composite-thoroughness/tau-c",
    "pascal50s": "pascal50s/strict-5refs",
    "pascal50s-votes": "pascal50s-votes/strict-5drawn",
    "pascal50s-consensus": "pascal50s-consensus/strict-5drawn",
    "abstract50s": "abstract50s/strict-5drawn",
    "foil": "foil/strict-4drawn",
    "nocaps-foil": "nocaps-foil/half-allrefs",
    "thumb": "thumb/r",
    "polaris": "polaris/tau-c",
    "nebula": "nebula/tau-c",
    "cxc-sits": "cxc-sits/rho",
    "cxc-sts": "cxc-sts/rho",
    "cxc-others": "cxc-others/tau-b-B",
}


def get(name: str, set_name: str | None = None) -> Protocol:
    """Return a protocol by its full name, or by the part after the set's name.

    A changed protocol is found by the name that it gave itself: ``pascal50s/half-5drawn+draws=1``.

    Raises:
        UsageError: there is no such protocol.
    """
    name, *changes = name.split("+")
    if changes:
        return get(name, set_name).changed(**dict(_change(c) for c in changes))
    full = name if "/" in name else f"{set_name}/{name}"
    if full in PROTOCOLS:
        return PROTOCOLS[full]
    own = full.partition("/")[2]
    if set_name is not None and set_name not in DEFAULTS and f"own/{own}" in PROTOCOLS:
        return replace(PROTOCOLS[f"own/{own}"], name=f"{set_name}/{own}", set=set_name)
    known = [p for p in PROTOCOLS if set_name is None or p.startswith(f"{set_name}/")] or [
        p for p in PROTOCOLS if p.startswith("own/")
    ]
    raise UsageError(
        f"no protocol is called {full!r}.{did_you_mean(full, known)} There are: {', '.join(known)}"
    )


def _change(text: str) -> tuple[str, Any]:
    key, _, value = text.partition("=")
    if key in ("references", "draws", "seed") and value.isdigit():
        return key, int(value)
    if key in ("drop_own", "joined") and value in ("True", "False"):
        return key, value == "True"
    if key == "part" and value:
        return key, value
    if key == "systems" and value in SYSTEMS:
        return key, value
    if key == "drop_equal" and value in ("no", "row", "image"):
        return key, value
    raise UsageError(
        f"cannot read the change {text!r} of a protocol: references, draws and seed take a "
        "number, drop_own and joined True or False, drop_equal no, row or image, systems human or "
        "machine, part the name of a group"
    )


def selected(judged: JudgementSet, protocol: Protocol) -> JudgementSet:
    """Return the captions of the set that the protocol is about.

    Raises:
        InputError: nothing is left.
    """
    if protocol.drop_own:
        judged = judged.without_own()
    keep = np.ones(len(judged.samples), bool)
    if protocol.part:
        known = [] if judged.groups is None else sorted(set(judged.groups.tolist()))
        if protocol.part not in known:
            raise InputError(
                f"{judged.name} has no part {protocol.part!r}"
                + (f"; its parts are {', '.join(known)}" if known else "")
            )
        keep &= judged.groups == protocol.part
    if protocol.systems:
        people = np.array([str(s).lower().startswith("human") for s in judged.samples.systems])
        keep &= people == (protocol.systems == "human")
    if not keep.any():
        raise InputError(f"{judged.name}: no caption is left under {protocol.name}")
    return judged if keep.all() else judged.only(keep, "left out by the protocol")


def chosen_samples(judged: JudgementSet, protocol: Protocol, draw: int = 0) -> CaptionSet:
    """Return the captions with the references that the protocol takes in this draw."""
    drawn = _drawn(judged, protocol, draw)
    if protocol.drop_equal != "no":
        drawn = without_equal(drawn, judged.units if protocol.drop_equal == "image" else None)
    return with_joined(drawn) if protocol.joined else drawn


def with_joined(samples: CaptionSet) -> CaptionSet:
    """Return the samples with one reference each: all of theirs, end to end."""
    joined_samples = CaptionSet.build(
        samples.captions(),
        [[" ".join(r)] if r else [] for r in samples.references()],
        ids=samples.ids.tolist(),
        images=samples.images.tolist(),
        systems=samples.systems.tolist(),
    )
    return replace(joined_samples, evidence=samples.evidence)


def _drawn(judged: JudgementSet, protocol: Protocol, draw: int) -> CaptionSet:
    """Draw references: all captions of an image get the same ones."""
    if protocol.references is None:
        return judged.samples
    source = judged.pool if judged.pool is not None else judged.samples
    if protocol.references == 0:
        return with_references(source, np.zeros(0, np.int64), np.zeros(len(source), np.int64))
    counts = source.reference_counts
    if int(counts.min()) < protocol.references:
        raise InputError(
            f"{protocol.name} draws {protocol.references} references, but "
            f"{int((counts < protocol.references).sum()):,} captions have fewer "
            f"(smallest pool: {int(counts.min())}); are all reference files there?"
        )
    rng = np.random.default_rng([protocol.seed, draw])
    picked: dict[tuple[str, int], np.ndarray] = {}
    index = np.empty((len(source), protocol.references), np.int64)
    for row, (unit, count) in enumerate(zip(judged.units.tolist(), counts.tolist(), strict=True)):
        key = (unit, count)
        if key not in picked:
            picked[key] = np.sort(rng.choice(count, protocol.references, replace=False))
        index[row] = source.offsets[row] + picked[key]
    return with_references(
        source, index.ravel(), np.full(len(source), protocol.references, np.int64)
    )


def with_references(samples: CaptionSet, index: np.ndarray, counts: np.ndarray) -> CaptionSet:
    """Return the samples with other references: ``index`` into the flat list, counts per row."""
    offsets = np.zeros(len(samples) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return replace(samples, reference=samples.reference[index], offsets=offsets)


def without_equal(samples: CaptionSet, units: npt.NDArray[np.object_] | None = None) -> CaptionSet:
    """Take references that are a judged caption out; a row never loses its last reference.

    Args:
        samples: captions with references.
        units: image of every row: a reference that equals one caption of the image is taken out
            for all of them. None looks at each row by itself.
    """
    words = np.array([same_text(t) for t in samples.pool.strings()], dtype=object).astype(str)
    code = np.unique(words, return_inverse=True)[1]
    rows = samples.reference_rows
    group = np.arange(len(samples))
    if units is not None:
        group = np.unique(units.astype(str), return_inverse=True)[1]
    mine = group * (int(code.max()) + 1) + code[samples.caption]
    theirs = group[rows] * (int(code.max()) + 1) + code[samples.reference]
    stays = ~np.isin(theirs, mine)
    left = np.bincount(rows[stays], minlength=len(samples))
    stays |= (left == 0)[rows]
    counts = np.bincount(rows[stays], minlength=len(samples))
    return with_references(samples, np.flatnonzero(stays), counts)
