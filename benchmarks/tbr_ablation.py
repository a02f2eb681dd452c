r"""BERT-TBR's ablation against people, and the paper's tables 1 to 4, by one command.

    python benchmarks/tbr_ablation.py --encoder minilm mpnet --select            # this repository
    python benchmarks/tbr_ablation.py --encoder bert-base-uncased roberta-large --download \
        --profile release --judged composite.json --teams FOLDER                 # the paper

Flickr8k-Expert: 5,664 rows (captions of the very image dropped), Kendall tau-b with the mean of
the three ratings (the paper's protocol) and tau-c with the ratings as separate observations.
PASCAL-50S: 4,000 pairs, 5 fixed references, share of pairs ordered as people did; a tie counts
one half. ``--select`` picks layer and threshold on the Flickr8k images with an even hash and
reports on the others; PASCAL-50S has no part in the choice. ``--judged`` takes the release's own
format (number -> refs, cand, score), which is how COMPOSITE is passed on; ``--teams`` a folder
with one COCO results file per team of the 2015 challenge, named as in challenge_2015.csv (tables
1 and 2).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau, pearsonr

from captious import settings
from captious.metrics.bert_tbr import PROFILES, BertTbr
from captious.metrics.bertscore import BertScore
from captious.metrics.unigram_tbr import UnigramTbr
from captious.models import embedding_cache, text_encoder
from captious.models.encoder_defaults import defaults
from captious.types import CaptionSet

SHARED = Path(__file__).parents[1] / ".." / "shared"
ABLATION = ("BS", "T", "TB", "TBR", "TR", "TcatR")
THRESHOLDS = [round(0.1 * k, 2) for k in range(1, 9)]


class Flickr8k:
    """Expert judgements, as distributed."""

    def __init__(self, folder):
        lines = (folder / "Flickr8k.token.txt").read_text().splitlines()
        captions = dict(line.split("\t", 1) for line in lines)
        own = {}
        for key, text in captions.items():
            own.setdefault(key.split("#")[0], []).append(text)
        lines = (folder / "ExpertAnnotations.txt").read_text().splitlines()
        rows = [line.split("\t") for line in lines]
        rows = [r for r in rows if r[1].split("#")[0] != r[0] and r[1] in captions and r[0] in own]
        self.images = np.array([r[0] for r in rows])
        self.ratings = np.array([[float(x) for x in r[2:]] for r in rows])
        self.set = CaptionSet.build(
            [captions[r[1]] for r in rows],
            [own[r[0]] for r in rows],
            ids=[f"{r[0]}:{r[1]}" for r in rows],
            images=list(self.images),
        )
        self.half = np.array([hashlib.sha1(i.encode()).digest()[0] % 2 == 0 for i in self.images])

    def agree(self, values, rows):
        """Return tau-b with mean ratings and tau-c with single ones."""
        mean = kendalltau(values[rows], self.ratings[rows].mean(1)).statistic
        three = np.repeat(values[rows], 3)
        pooled = kendalltau(three, self.ratings[rows].ravel(), variant="c").statistic
        return mean, pooled


class Pascal50s:
    """Pairs of captions with the one that most people preferred."""

    def __init__(self, path):
        self.kinds = ["HC", "HI", "HM", "MM"]
        pairs = [(k, p) for k, ps in json.loads(path.read_text()).items() for p in ps]
        self.kind = np.array([k for k, _ in pairs])
        self.label = np.array([p["label"] for _, p in pairs])
        self.set = CaptionSet.build(
            [c for _, p in pairs for c in p["captions"]],
            [p["references"] for _, p in pairs for _ in range(2)],
            images=[p["image"] for _, p in pairs for _ in range(2)],
        )

    def agree(self, values):
        """Return the share of right decisions per kind of pair, and over all."""
        first, second = values[0::2], values[1::2]
        better = np.where(self.label == 0, first > second, second > first)
        right = better + 0.5 * (first == second)
        return [100 * right[self.kind == k].mean() for k in self.kinds] + [100 * right.mean()]


def score(metric, samples, column=0):
    return metric.stats(samples, metric.prepare(samples)).rows[:, column]


def select(encoder, flickr, profile, dtype, layers, log):
    """Choose layer and threshold on the first half of the images: steps of .1, then .05."""
    half = flickr.set.take(np.flatnonzero(flickr.half))
    human = flickr.ratings[flickr.half].mean(1)
    model = text_encoder.load(encoder, dtype)
    layers = layers or range(max(1, model.layers // 3), model.layers + 1)
    for layer in layers:
        model.expect(layer)
    context = BertTbr(profile, model=encoder, layer=layers[0], dtype=dtype).prepare(half)
    grid = []

    def measure(layer, threshold):
        metric = BertTbr(profile, model=encoder, layer=layer, threshold=threshold, dtype=dtype)
        tau = kendalltau(metric.stats(half, context).rows[:, 0], human).statistic
        grid.append((tau, layer, threshold))

    for layer in layers:
        for threshold in THRESHOLDS:
            measure(layer, threshold)
        plain = BertScore(model=encoder, layer=layer, dtype=dtype).stats(half, None).rows
        taus = [kendalltau(plain[:, k], human).statistic for k in range(3)]
        best = max(g for g in grid if g[1] == layer)
        print(
            f"  {encoder} layer {layer}: best tau-b {best[0]:.4f} at {best[2]}; bertscore "
            "P {:.4f} R {:.4f} F {:.4f}".format(*taus),
            file=log,
            flush=True,
        )
    _, layer, threshold = max(grid)
    for step in (-0.05, 0.05):
        measure(layer, round(threshold + step, 2))
    model.forget()
    return max(grid), grid


def table(name, metric, flickr, pascal, column=0):
    values = score(metric, flickr.set, column)
    every = np.ones(len(values), bool)
    row = {"variant": name}
    row["flickr8k_tau_b"], row["flickr8k_tau_c_pooled"] = flickr.agree(values, every)
    row["other_half_tau_b"], row["other_half_tau_c_pooled"] = flickr.agree(values, ~flickr.half)
    row["pascal50s"] = pascal.agree(score(metric, pascal.set, column))
    line = "  ".join(f"{x:5.1f}" for x in row["pascal50s"])
    taus = " | ".join(f"{v:.4f}" for k, v in row.items() if "tau" in k)
    print(f"| {name:<22} | {taus} | {line} |", flush=True)
    return row


def variants(encoder, profile, base):
    """Return the ablation, and the whole metric in the other profiles."""
    made = [(f"{encoder} {p}", BertTbr(profile, p, **base)) for p in ABLATION]
    others = [p for p in PROFILES if p != profile]
    return made + [(f"{encoder} TBR {p}", BertTbr(p, "TBR", **base)) for p in others]


def judged(path, metrics):
    """Table 3 on any file in the release's format."""
    items = list(json.loads(path.read_text()).values())
    samples = CaptionSet.build([i["cand"][0] for i in items], [i["refs"] for i in items])
    human = np.array([i["score"] for i in items])
    for name, metric in metrics:
        tau = kendalltau(score(metric, samples), human).statistic
        print(f"{path.name} {name}: tau-b {tau:.4f} on {len(items)} captions", flush=True)


def teams(folder, shared, metrics):
    """Tables 1 and 2: Pearson correlation of team means with M1 and M2."""
    import pyarrow.parquet as pq

    captions = pq.read_table(shared / "data/coco/val2014_captions.parquet").to_pydict()
    refs = {
        int(i): list(c)[:5] for i, c in zip(captions["image_id"], captions["captions"], strict=True)
    }
    with open(shared / "data/coco2015/challenge_2015.csv") as file:
        human = {r["team"]: (float(r["M1"]), float(r["M2"])) for r in csv.DictReader(file)}
    rows = [
        (p.stem, int(x["image_id"]), x["caption"])
        for p in sorted(folder.glob("*.json"))
        for x in json.loads(p.read_text())
        if p.stem in human and int(x["image_id"]) in refs
    ]
    if not rows:
        sys.exit(f"{folder} holds no results file named like a team of challenge_2015.csv")
    samples = CaptionSet.build(
        [r[2] for r in rows],
        [refs[r[1]] for r in rows],
        images=[str(r[1]) for r in rows],
        systems=[r[0] for r in rows],
    )
    names = sorted({r[0] for r in rows})
    for name, metric in metrics:
        values = score(metric, samples)
        means = [values[samples.systems == t].mean() for t in names]
        found = [pearsonr(means, [human[t][k] for t in names]) for k in (0, 1)]
        print(
            f"COCO-2015 {name}: "
            + ", ".join(
                f"M{k + 1} r {f.statistic:.3f} (p {f.pvalue:.3f})" for k, f in enumerate(found)
            )
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", nargs="+", default=["minilm"])
    parser.add_argument("--profile", default="clean")
    parser.add_argument("--layer", type=int)
    parser.add_argument("--threshold", type=float)
    parser.add_argument("--select", action="store_true", help="choose layer and threshold")
    parser.add_argument("--layers", type=int, nargs="+", help="layers that --select tries")
    parser.add_argument("--pool", default="max", help="over references for BS and T")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--download", action="store_true")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--judged", type=Path, nargs="*", default=[])
    parser.add_argument("--teams", type=Path)
    parser.add_argument("--out", type=Path, help="write all numbers as JSON")
    args = parser.parse_args()
    embedding_cache.MEMORY_GB = 6.0
    flickr = Flickr8k(args.shared / "data/flickr8k")
    pascal = Pascal50s(args.shared / "data/pascal50s/consensus_5refs.json")
    out = []
    head = "| variant | Flickr8k tau-b | tau-c | other half tau-b | tau-c | HC HI HM MM all |"
    with settings.use(download=args.download):
        print(head)
        out.append(table("Unigram", UnigramTbr(), flickr, pascal))
        for encoder in args.encoder:
            layer, threshold = args.layer, args.threshold
            if args.select:
                (tau, layer, threshold), grid = select(
                    encoder, flickr, args.profile, args.dtype, args.layers, sys.stderr
                )
                print(
                    f"{encoder}: chosen on one half: layer {layer}, threshold {threshold} "
                    f"(tau-b {tau:.4f} there)"
                )
                out.append({"encoder": encoder, "grid": grid})
            known = defaults(encoder)
            layer = layer or (known.tbr_layer if known else None)
            settings_of = {
                "encoder": encoder,
                "layer": layer,
                "dtype": args.dtype,
                "pool": args.pool,
            }
            base = settings_of | {"threshold": threshold}
            metrics = variants(encoder, args.profile, base)
            out += [table(n, m, flickr, pascal) | base for n, m in metrics]
            if args.select and known is not None and layer in known.baselines:
                base = settings_of | {"threshold": known.baselines[layer][1]}
                print(f"{encoder}: by the rule: layer {layer}, threshold {base['threshold']}")
                out += [
                    table(n, m, flickr, pascal) | base
                    for n, m in variants(encoder, args.profile, base)
                ]
            plain = BertScore(model=encoder, layer=layer, dtype=args.dtype)
            for k, part in enumerate("PRF"):
                out.append(table(f"{encoder} bertscore {part}", plain, flickr, pascal, k) | base)
            for path in args.judged:
                judged(path, metrics)
            if args.teams:
                teams(args.teams, args.shared, metrics)
    if args.out:
        args.out.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
