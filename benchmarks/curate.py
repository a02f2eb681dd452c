"""What reranking gains, and how well an audit finds captions that were swapped on purpose.

    python benchmarks/curate.py rerank [--data FOLDER]
    python benchmarks/curate.py audit [--images 300] [--data FOLDER]

``rerank``: candidates are the captions of several captioners on the 5,000 images of the Karpathy
test split (M2, BLIP-2, LLaVA 1.5 asked to be brief), and of nine captioners on the first 5,000
images of COCO val2014; the caption that agrees most with the others is taken (minimum Bayes risk)
and scored against the references. ``audit``: one caption each of test photographs of Flickr8k, a
tenth of them exchanged among each other; area under the curve of the order by ``fit``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from classic import DATA

KARPATHY = ("m2_transformer", "blip2", "llava15_briefly")


def rerank_gain(data: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(data / "coco" / "karpathy_test_systems.parquet")
    gain("Karpathy test", table, KARPATHY, table["references"].to_pylist())
    refs = pq.read_table(data / "coco" / "val2014_captions.parquet")
    by_id = dict(zip(refs["image_id"].to_pylist(), refs["captions"].to_pylist(), strict=True))
    table = pq.read_table(data / "coco" / "val2014_systems.parquet").slice(0, 5000)
    systems = tuple(n for n in table.column_names if n != "image_id")
    gain("val2014", table, systems, [by_id[i] for i in table["image_id"].to_pylist()])


def gain(title: str, table, systems: tuple[str, ...], references: list[list[str]]) -> None:
    import captious
    from captious.curate.reranking import rerank
    from captious.types import CaptionSet

    ids = [str(i) for i in table["image_id"].to_pylist()]
    held = {name: table[name].to_pylist() for name in systems}
    metrics = ["cider_d", "rouge_l", "meteor"]
    print(f"{title}: {len(ids):,} images, {len(systems)} captioners")

    def line(name: str, captions: list[str]) -> None:
        scored = captious.score(
            dict(zip(ids, captions, strict=True)),
            dict(zip(ids, references, strict=True)),
            metrics=metrics,
            intervals=False,
        )
        shown = "  ".join(f"{m} {scored.corpus[m]:.4f}" for m in metrics)
        print(f"  {name:32} {shown}", flush=True)

    for name in systems:
        line(name, held[name])
    rng = np.random.default_rng(12345)
    pick = rng.integers(0, len(systems), len(ids))
    line("one at random per image", [held[systems[p]][i] for i, p in enumerate(pick)])
    samples = CaptionSet.build(
        [c for name in systems for c in held[name]],
        ids=ids * len(systems),
        images=ids * len(systems),
        systems=[name for name in systems for _ in ids],
    )
    for by in ("cider_d", "rouge_l", "meteor"):
        chosen = {c.image: c.caption for c in rerank(samples, by, consensus=True)}
        line(f"consensus by {by}", [chosen[i] for i in ids])


def audit_auc(data: Path, images: int) -> None:
    from captious.curate.auditing import audit
    from captious.types import CaptionSet

    root = data / "flickr8k"
    names = (root / "Flickr_8k.testImages.txt").read_text().split()[:images]
    first = {}
    for row in (root / "Flickr8k.token.txt").read_text(encoding="utf-8").splitlines():
        place, text = row.split("\t", 1)
        image, _, number = place.partition("#")
        if number == "0":
            first[image] = text
    rng = np.random.default_rng(12345)
    swapped = rng.permutation(len(names))[: max(2, len(names) // 10)]
    captions = [first[name] for name in names]
    for a, b in zip(swapped, np.roll(swapped, 1), strict=True):
        captions[a] = first[names[b]]
    samples = CaptionSet.build(captions, images=[str(root / "images" / n) for n in names])
    found = audit(samples, others=4)
    wrong = np.zeros(len(names), bool)
    wrong[swapped] = True
    low, fine = found.fit[wrong], found.fit[~wrong]
    auc = np.mean(low[:, None] < fine[None, :]) + 0.5 * np.mean(low[:, None] == fine[None, :])
    top = wrong[found.order[: len(swapped)]].mean()
    print(
        f"{len(names)} photographs, {len(swapped)} captions swapped: area under the curve "
        f"{auc:.4f}; of the first {len(swapped)} of the list {100 * top:.0f} % are swapped"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["rerank", "audit"])
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--data", type=Path, default=DATA)
    args = parser.parse_args()
    if args.what == "rerank":
        rerank_gain(args.data)
    else:
        audit_auc(args.data, args.images)


if __name__ == "__main__":
    main()
