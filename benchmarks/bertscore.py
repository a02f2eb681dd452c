"""BERTScore and BERT-TBR against bert-score 0.3.13 and against the bare model, in one run.

    pip install --no-deps bert-score==0.3.13
    python benchmarks/bertscore.py                      # COCO Karpathy-test, its four systems
    python benchmarks/bertscore.py --images 500 --systems captioners
    python benchmarks/bertscore.py --dtypes             # what half precision changes
    python benchmarks/bertscore.py --memory 1000000     # memory from 10,000 captions to this many

Same weights, layer and threads for all. bert-score is called once per system with all images, which
is how it is used; captious gets all systems at once. They take turns: before each system of
bert-score, captious scores a share of the images with all systems (sentences that shares have in
common are encoded again), so that both meet the same neighbours on a shared machine. "Bare" is the
model's own forward over the distinct sentences of the share, sorted by length, in padded batches of
1,024 pieces, with the layers above removed. Loading the model is in none of the times. Ratios are
of processor time; with one thread on an idle machine that is the time on the clock, which is
printed beside it. Systems: ``own`` are the four of the Karpathy-test file (one of them writes 60
words a caption), ``captioners`` nine captioners of 2016 and 2017 on the same images.
"""

from __future__ import annotations

import argparse
import time
import warnings
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from captious.metrics.bert_tbr import BertTbr
from captious.metrics.bertscore import BertScore
from captious.models import text_encoder
from captious.types import CaptionSet

SHARED = Path(__file__).parents[1] / ".." / "shared"
BARE_TOKENS = 1024  # the fastest of 256 ... 4096 for MiniLM on one core


class Clock:
    """Processor time and time by the clock, summed by name."""

    def __init__(self):
        self.spent, self.wall = {}, {}

    def time(self, what, work):
        """Do the work and add what it took."""
        start, wall = time.process_time(), time.perf_counter()
        out = work()
        self.spent[what] = self.spent.get(what, 0.0) + time.process_time() - start
        self.wall[what] = self.wall.get(what, 0.0) + time.perf_counter() - wall
        return out

    def show(self):
        """Print all sums."""
        for what, spent in self.spent.items():
            print(f"{what:<44} {spent:8.2f} s of processor, {self.wall[what]:8.2f} s", flush=True)


def bare(encoder, texts, layer):
    """Return a function that runs the model over all texts and drops the results."""
    from transformers import AutoModel

    pieces, _ = encoder.tokenize(texts)
    order = sorted(range(len(texts)), key=lambda i: len(pieces[i]))
    model = AutoModel.from_pretrained(encoder.path).eval()
    model.encoder.layer = model.encoder.layer[:layer]
    batches = []
    for batch in text_encoder._batches(order, [len(p) for p in pieces], BARE_TOKENS):
        longest = len(pieces[batch[-1]])
        ids = torch.zeros(len(batch), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, i in enumerate(batch):
            ids[row, : len(pieces[i])] = torch.tensor(pieces[i])
            mask[row, : len(pieces[i])] = 1
        batches.append((ids, mask))

    def work():
        with torch.inference_mode():
            for ids, mask in batches:
                model(input_ids=ids, attention_mask=mask)

    return work


def read(args):
    """Return the chosen systems' captions by name, the references, and both as a set."""
    table = pq.read_table(args.shared / "data/coco/karpathy_test_systems.parquet").to_pydict()
    more = pq.read_table(args.shared / "data/coco/val2014_systems.parquet").to_pydict()
    place = {image: k for k, image in enumerate(more.pop("image_id"))}
    names = [n for n in table if n not in ("image_id", "references")]
    for name, texts in more.items():
        table[name] = [texts[place[i]] for i in table["image_id"]]
    names = {"own": names, "captioners": list(more), "all": [*names, *more]}[args.systems]
    n = min(args.images, len(table["image_id"]))
    refs = [list(r)[:5] for r in table["references"][:n]]
    # bert-score 0.3.13 fails on an empty caption with transformers 5: both get a full stop there.
    captions = {s: [c.strip() or "." for c in table[s][:n]] for s in names}
    samples = CaptionSet.build(
        [c for s in names for c in captions[s]],
        refs * len(names),
        images=[str(i) for i in table["image_id"][:n]] * len(names),
        systems=[s for s in names for _ in range(n)],
    )
    return captions, refs, samples


def speed(args):
    captions, refs, samples = read(args)
    encoder = text_encoder.load(args.encoder)
    layer = args.layer or text_encoder.choose_layer(args.encoder, None, "bertscore")
    print(
        f"{len(refs)} images, {len(captions)} systems ({', '.join(captions)}), "
        f"{len(samples)} captions, {len(samples.pool)} distinct sentences, {args.encoder} "
        f"layer {layer}, {torch.get_num_threads()} thread(s)",
        flush=True,
    )
    metric = BertScore(model=args.encoder, layer=layer)
    tbr = BertTbr(model=args.encoder, layer=layer, threshold=args.threshold)
    scorer = None if args.no_peer else peer(encoder, layer)
    clock, encode, phase = Clock(), encoder.encode, "encoding (part of bertscore)"
    encode(["warm up"], layer)
    encoder.encode = lambda *a: clock.time(phase, lambda: encode(*a))
    context = clock.time("bert_tbr, document frequencies", lambda: tbr.prepare(samples))
    ours, theirs = np.zeros((len(samples), 3)), []
    share = np.arange(len(samples)) % len(refs) * len(captions) // len(refs)
    for turn, (name, own) in enumerate(captions.items()):
        rows = np.flatnonzero(share == turn)
        some = samples.take(rows)
        texts = some.pool.strings(np.unique(np.concatenate([some.caption, some.reference])))
        clock.time("bare model, distinct sentences", bare(encoder, texts, layer))
        encoder.forget()
        phase = "encoding (part of bertscore)"
        ours[rows] = clock.time("bertscore", lambda some=some: metric.stats(some, None).rows)
        phase = "finding vectors again (part of bert_tbr)"
        clock.time("bert_tbr, vectors found again", lambda some=some: tbr.stats(some, context))
        if scorer is not None:
            found = clock.time("bert-score 0.3.13", lambda own=own: scorer.score(own, refs))
            theirs.append(torch.stack(found, 1).numpy())
        print(f"turn {turn + 1} of {len(captions)} ({name})", flush=True)
    clock.show()
    spent = clock.spent
    encoding, total = spent["encoding (part of bertscore)"], spent["bertscore"]
    matching = spent["bert_tbr, vectors found again"] - spent[phase]
    print(
        f"bertscore / bare model: {total / spent['bare model, distinct sentences']:.3f} (<= 1.15)"
    )
    print(f"bertscore matching / encoding: {(total - encoding) / encoding:.3f}")
    print(f"bert_tbr matching / encoding: {matching / encoding:.3f} (< 0.20)")
    if scorer is not None:
        print(f"bert-score / captious: {spent['bert-score 0.3.13'] / total:.2f} (>= 3)")
        gap = np.abs(np.concatenate(theirs) - ours)
        print(f"largest difference of a score: {gap.max():.2e}, mean {gap.mean():.2e}")
        print(f"captions with a difference above 1e-5: {(gap.max(1) > 1e-5).sum()}; the largest:")
        for row in np.argsort(-gap.max(1))[:3]:
            some = samples.take([row])
            print(f"  {np.concatenate(theirs)[row]} against {ours[row]}: {some.captions()[0]!r}")


def peer(encoder, layer):
    from bert_score import BERTScorer

    return BERTScorer(model_type=str(encoder.path), num_layers=layer, idf=False, nthreads=1)


def memory(args):
    """Score more and more made-up captions and print how the peak of the memory grows."""
    print(f"bert_tbr, {args.encoder} layer {args.layer or 0}, 2 references per image; MB")
    print("| captions | texts | set read | peak counting | peak scoring | beyond the set |")
    print("|---|---|---|---|---|---|", flush=True)
    for count in [*(10**k for k in range(4, 10) if 10**k < args.memory), args.memory]:
        # A process of its own: memory that was let go may stay with the process.
        with get_context("spawn").Pool(1) as one:
            texts, held, counted, scored = one.apply(peaks, (args, count))
        print(
            f"| {count:,} | {texts:,} | {held:,.0f} | {counted:,.0f} | {scored:,.0f} "
            f"| {scored - held:,.0f} |",
            flush=True,
        )


def peaks(args, count):
    """Return the distinct texts, and the memory with the set, counting and scoring."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    table = pq.read_table(args.shared / "data/coco/val2014_captions.parquet").to_pydict()
    refs = [list(r)[:2] for r in table.pop("captions")]
    layer = args.layer or 0
    metric = BertTbr(model=args.encoder, layer=layer, threshold=0.5)
    text_encoder.load(args.encoder).encode(["warm up"], layer)
    rows = [refs[i % len(refs)] for i in range(count)]
    texts = [f"{rows[i][i // len(refs) % 2]} number {i}" for i in range(count)]
    samples = CaptionSet.build(texts, rows, images=[str(i % len(refs)) for i in range(count)])
    del rows, texts, refs, table
    held, _ = resident(reset=True)
    context = metric.prepare(samples)
    _, counted = resident(reset=True)
    for start in range(0, count, metric.batch):
        metric.stats(samples[start : start + metric.batch], context)
    _, scored = resident(reset=True)
    return len(samples.pool), held, counted, scored


def resident(reset):
    """Return the memory held now and its peak since the last reset, in MB (Linux)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    return tuple(int(lines[k].split()[0]) / 1024 for k in ("VmRSS", "VmHWM"))


def number_types(args):
    """Say how far half precision moves the scores."""
    table = pq.read_table(args.shared / "golden/classic/flickr8k_expert.parquet")
    table = table.select(["cand", "refs"]).to_pydict()
    samples = CaptionSet.build(table["cand"], table["refs"]).take(np.arange(0, 5822, 29))
    for kind in (BertScore, BertTbr):
        full = None
        for dtype in text_encoder.DTYPES:
            metric = kind(model=args.encoder, dtype=dtype)
            context = metric.prepare(samples)
            text_encoder.load(args.encoder, dtype).forget()
            start = time.process_time()
            values = metric.stats(samples, context).rows[:, -1]
            spent = time.process_time() - start
            full = values if full is None else full
            gap = np.abs(values - full)
            print(
                f"{metric.name} {dtype}: largest difference {gap.max():.1e}, mean "
                f"{gap.mean():.1e}, {spent:.1f} s of processor, {len(samples)} captions"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--layer", type=int)
    parser.add_argument("--threshold", type=float, default=0.4)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--systems", choices=["own", "captioners", "all"], default="own")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-peer", action="store_true", help="leave bert-score out")
    parser.add_argument("--dtypes", action="store_true", help="measure half precision")
    parser.add_argument("--memory", type=int, help="measure memory, up to this many captions")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    work = memory if args.memory else number_types if args.dtypes else speed
    work(args)


if __name__ == "__main__":
    main()
