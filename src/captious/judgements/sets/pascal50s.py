"""PASCAL-50S: which of two captions of an image is better? (Vedantam et al. 2015).

Three sets over the same 4,000 pairs:

* ``pascal50s``: the usual protocol file, with the 48-vote consensus label and five fixed
  references; all 50 references of an image are its pool;
* ``pascal50s-votes``: ``pair_pascal.mat``, where 10 or 11 people were asked directly;
* ``pascal50s-consensus``: ``consensus_pascal.mat``, with the 48 votes themselves. Each vote says
  which caption is nearer to one reference, so its references are those 48.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.errors import InputError
from captious.io import files
from captious.judgements.judgement_set import Card, Checks, JudgementSet, Pairs
from captious.judgements.labels import own_labels
from captious.judgements.sets._files import picture
from captious.types import CaptionSet

KINDS = ("HC", "HI", "HM", "MM")
_PAIRS = 4000
_VOTES = 48
_LICENCE = "research; photographs are of the UIUC PASCAL sentence collection (Flickr users)"
_TRAPS = (
    "the first sentence of pair_pascal.mat is the C of the candidate files, the second the B",
    "votes in pair_pascal.mat are direct choices (+1 = first sentence), not the 48-vote consensus "
    "that papers report; the two disagree on a third of HC",
    "papers differ in the tie rule (strict, half, counts as correct) and in how five references "
    "are drawn; SPICE's paper counts ties as correct",
    "two pairs appear twice; a few captions equal one of their references",
)

FIXED = Card(
    name="pascal50s",
    title="PASCAL-50S, 48-vote consensus, five fixed references",
    licence=_LICENCE,
    files=("pascal50s/consensus_5refs.json",),
    optional=(
        "pascal50s/images",
        "pascal50s/pascal50s_refs.json",
        "pascal50s/pascal50s_voc_objects.json",
    ),
    counts="4,000 pairs: HC, HI, HM, MM with 1,000 each; 1,000 images with 50 references",
    traps=_TRAPS,
    get="the common JSON of this protocol goes to pascal50s/consensus_5refs.json; the home page "
    "of CIDEr no longer serves the collection",
)
VOTES = Card(
    name="pascal50s-votes",
    title="PASCAL-50S, 10 or 11 direct votes per pair (pair_pascal.mat)",
    licence=_LICENCE,
    files=("pascal50s/pair_pascal.mat", "pascal50s/pascal50s_refs.json"),
    optional=(
        "pascal50s/images",
        "pascal50s/pascal50s_voc_objects.json",
        "pascal50s/pascal_candsB.json",
        "pascal50s/pascal_candsC.json",
    ),
    counts="4,000 pairs; 3,994 with 11 votes, 6 with 10",
    traps=_TRAPS,
    get="pair_pascal.mat of the CIDEr release (vrama91/cider, pyCIDErConsensus)",
)
CONSENSUS = Card(
    name="pascal50s-consensus",
    title="PASCAL-50S, 48 triplet votes per pair (consensus_pascal.mat)",
    licence=_LICENCE,
    files=("pascal50s/consensus_pascal.mat", "pascal50s/pair_pascal.mat"),
    optional=("pascal50s/images", "pascal50s/pascal50s_voc_objects.json"),
    counts="192,000 votes = 48 x 4,000 pairs",
    traps=(
        *_TRAPS,
        "24 to 24 is a draw: several repositories toss an unseeded coin; here such "
        "pairs are left out and counted",
    ),
    get="consensus_pascal.mat of the CIDEr release (vrama91/cider, pyCIDErConsensus)",
)


def load_fixed(root: Path) -> JudgementSet:
    """Read the common JSON: ``{kind: [{image, captions, label, references}]}``."""
    checks = Checks(FIXED.name)
    content = files.read_json(root / FIXED.files[0])
    if not isinstance(content, dict):
        raise InputError(
            f"{FIXED.files[0]}: expected a JSON object with one entry per kind of pair"
        )
    items: list[dict[str, Any]] = []
    for kind, entries in content.items():
        if kind not in KINDS:
            checks.bad(f"kinds that are not one of {', '.join(KINDS)}", kind)
            continue
        for number, item in enumerate(entries):
            place = f"{kind}[{number}]"
            if len(item["captions"]) != 2 or item["label"] not in (0, 1):
                checks.bad("pairs without two captions or a label 0/1", place)
                continue
            votes = (1.0, 0.0) if item["label"] == 0 else (0.0, 1.0)
            items.append(
                {
                    "place": place,
                    "kind": kind,
                    "image": Path(item["image"]).name,
                    "captions": [c.strip() for c in item["captions"]],
                    "votes": votes,
                    "references": [r.strip() for r in item["references"]],
                }
            )
    pools = _pools(root, items, checks)
    return _build(FIXED, root, items, checks, pools)


def load_votes(root: Path) -> JudgementSet:
    """Read ``pair_pascal.mat``; the candidate files are compared with it where present."""
    checks = Checks(VOTES.name)
    items = _mat_pairs(root, checks)
    for letter, at in (("B", 1), ("C", 0)):
        path = root / f"pascal50s/pascal_cands{letter}.json"
        if path.exists():
            for item, other in zip(items, files.read_json(path), strict=False):
                if item["captions"][at] != other["caption"].strip():
                    checks.bad(f"captions that contradict {path.name}", item["place"])
    pools = _pools(root, items, checks)
    checks.stop_if_bad()
    for item in items:
        item["references"] = (pools or {})[item["image"]]
    return _build(VOTES, root, items, checks, None)


def load_consensus(root: Path) -> JudgementSet:
    """Read ``consensus_pascal.mat``: 48 consecutive triplets belong to one pair."""
    checks = Checks(CONSENSUS.name)
    items = _mat_pairs(root, checks)
    all_triplets = triplets(root / "pascal50s/consensus_pascal.mat")
    if len(all_triplets) != _VOTES * len(items):
        raise InputError(
            f"consensus_pascal.mat holds {len(all_triplets):,} triplets, expected {_VOTES} x "
            f"{len(items):,}"
        )
    for number, item in enumerate(items):
        block = all_triplets[number * _VOTES : (number + 1) * _VOTES]
        votes: Counter[str] = Counter(b if vote == 1 else c for _, b, c, vote in block)
        first, second = item["captions"]
        if set(votes) - {first, second}:
            checks.bad("triplets whose captions are not those of the pair", item["place"])
        item["votes"] = (float(votes[first]), float(votes[second]))
        item["references"] = [a for a, _, _, _ in block]
    return _build(CONSENSUS, root, items, checks, None)


def triplets(path: Path) -> list[tuple[str, str, str, int]]:
    """Return (reference, B, C, vote) of a consensus file; vote 1 prefers B."""
    content = mat(path)
    if "triplets" not in content:
        raise InputError(f"{path}: has no variable 'triplets'")
    return [
        (_text(a), _text(b), _text(c), int(np.ravel(d)[0]))
        for a, b, c, d in (tuple(row) for row in np.ravel(content["triplets"]))
    ]


def mat(path: Path) -> dict[str, Any]:
    """Open a MATLAB file; it holds data only, no code."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        return dict(loadmat(path))
    except (MatReadError, ValueError, NotImplementedError, TypeError) as err:
        raise InputError(f"{path}: not a MATLAB 5 file ({err})") from None


def _text(cell: Any) -> str:
    """Return the string inside nested one-element MATLAB cells."""
    while isinstance(cell, np.ndarray):
        cell = cell.ravel()[0]
    return str(cell).strip()


def _votes(cell: Any) -> npt.NDArray[np.int64]:
    """Return the votes inside nested MATLAB cells."""
    inside = np.ravel(cell)
    while inside.dtype == object and len(inside):
        inside = np.ravel(inside[0])
    return inside.astype(np.int64)


def _mat_pairs(root: Path, checks: Checks) -> list[dict[str, Any]]:
    content = mat(root / "pascal50s/pair_pascal.mat")
    lacking = {"new_input", "category", "result"} - set(content)
    if lacking:
        raise InputError(f"pair_pascal.mat has no variable {sorted(lacking)[0]!r}")
    pairs, kinds = np.ravel(content["new_input"]), np.ravel(content["category"])
    results = np.ravel(content["result"])
    if not len(pairs) == len(kinds) == len(results):
        raise InputError(
            f"pair_pascal.mat: {len(pairs)} pairs, {len(kinds)} kinds and {len(results)} results "
            "do not belong together"
        )
    items = []
    for number, (pair, kind, result) in enumerate(zip(pairs, kinds, results, strict=True)):
        place = f"pair {number}"
        votes = _votes(result["result"])
        if not np.isin(votes, (-1, 1)).all() or not len(votes):
            checks.bad("votes that are not -1 or 1", f"{place}: {votes.tolist()}")
        if not 1 <= int(kind) <= len(KINDS):
            checks.bad("kinds outside 1..4", f"{place}: {kind}")
            continue
        items.append(
            {
                "place": place,
                "kind": KINDS[int(kind) - 1],
                "image": _text(pair["name"]),
                "captions": [_text(pair["sent1"]), _text(pair["sent2"])],
                "votes": (float((votes == 1).sum()), float((votes == -1).sum())),
            }
        )
    return items


def _pools(root: Path, items: list[dict[str, Any]], checks: Checks) -> dict[str, list[str]] | None:
    path = root / "pascal50s/pascal50s_refs.json"
    if not path.exists():
        return None
    pools = {Path(k).name: [r.strip() for r in v] for k, v in files.read_json(path).items()}
    for item in items:
        if item["image"] not in pools:
            checks.bad("pairs whose image has no references", f"{item['place']}: {item['image']}")
    return pools


def _build(
    card: Card,
    root: Path,
    items: list[dict[str, Any]],
    checks: Checks,
    pools: dict[str, list[str]] | None,
) -> JudgementSet:
    seen: dict[tuple[str, ...], str] = {}
    for item in items:
        key = (item["image"], *item["captions"])
        if key in seen:
            checks.note("pairs that appear twice", f"{item['place']} and {seen[key]}")
        seen[key] = item["place"]
        if not item["references"]:
            checks.bad("pairs without references", item["place"])
    checks.stop_if_bad()
    if len(items) != _PAIRS:
        checks.note(f"number of pairs is not {_PAIRS:,}", f"{len(items):,}")
    folder = root / "pascal50s/images"
    paths = {name: picture(folder, name, checks) for name in {i["image"] for i in items}}
    gold = own_labels(root / "pascal50s/pascal50s_voc_objects.json")
    twice = [item for item in items for _ in (0, 1)]

    def build(references: list[list[str]]) -> CaptionSet:
        samples = CaptionSet.build(
            [c for item in items for c in item["captions"]],
            references,
            ids=[f"{n}{'ab'[k]}" for n in range(len(items)) for k in (0, 1)],
            images=[paths[item["image"]] for item in twice],
        )
        return samples if gold is None else gold.add_to(samples)

    rows = np.arange(len(items))
    units, groups = np.empty(2 * len(items), object), np.empty(len(items), object)
    units[:] = [item["image"] for item in twice]
    groups[:] = [item["kind"] for item in items]
    pairs = Pairs(2 * rows, 2 * rows + 1, np.array([item["votes"] for item in items]))
    return JudgementSet(
        card,
        build([item["references"] for item in twice]),
        pairs,
        units,
        groups,
        pool=None if pools is None else build([pools[item["image"]] for item in twice]),
        counts={
            "pairs": len(items),
            "images": len(paths),
            "votes split evenly": int((pairs.preference == 0).sum()),
        }
        | {kind: int((groups == kind).sum()) for kind in KINDS},
        remarks=checks.remarks(),
    )


SETS = ((FIXED, load_fixed), (VOTES, load_votes), (CONSENSUS, load_consensus))
