"""BERTScore and BERT-TBR against bert-score 0.3.13 and against the bare model, in one run.

    pip install --no-deps bert-score==0.3.13
    python benchmarks/bertscore.py                      # COCO Karpathy-test, all its systems
    python benchmarks/bertscore.py --images 500 --systems captioners
    python benchmarks/bertscore.py --dtypes             # what half precision changes
    python benchmarks/bertscore.py --memory 1000000     # memory of a large run

Same weights, layer and threads for all. bert-score is called once per system, which is how it is
used; captious gets all systems at once. "Bare" is the model's own forward over the distinct
sentences, sorted by length, in the batches that captious makes, with the upper layers removed.
Loading the model is in none of the times. Ratios are of processor time; with one thread on an idle
machine that is the time on the clock, which is printed beside it. Systems: ``own`` are the four of
the Karpathy-test file (one of them writes 60 words a caption), ``captioners`` nine captioners of
2016 and 2017 on the same images.
"""

from __future__ import annotations

import argparse
import resource
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch

from captious.metrics.bert_tbr import BertTbr
from captious.metrics.bertscore import BertScore
from captious.models import text_encoder
from captious.types import CaptionSet

SHARED = Path(__file__).parents[1] / ".." / "shared"


def clock(what, work):
    """Return the result and the processor time, which other users of the machine do not change."""
    start, wall = time.process_time(), time.perf_counter()
    out = work()
    spent, wall = time.process_time() - start, time.perf_counter() - wall
    print(f"{what:<44} {spent:8.2f} s of processor, {wall:8.2f} s", flush=True)
    return out, spent


def bare(encoder, texts, layer):
    """Return a function that runs the model over all texts and drops the results."""
    from transformers import AutoModel

    pieces, _ = encoder.tokenize(texts)
    order = sorted(range(len(texts)), key=lambda i: len(pieces[i]))
    budget = text_encoder._BATCH_TOKENS["cpu"]
    model = AutoModel.from_pretrained(encoder.path).eval()
    model.encoder.layer = model.encoder.layer[:layer]
    batches = []
    for batch in text_encoder._batches(order, [len(p) for p in pieces], budget):
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


def speed(args):
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
    encoder = text_encoder.load(args.encoder)
    layer = args.layer or text_encoder.choose_layer(args.encoder, None, "bertscore")
    print(
        f"{n} images, {len(names)} systems ({', '.join(names)}), {len(samples)} captions, "
        f"{len(samples.pool)} distinct sentences, {args.encoder} layer {layer}, "
        f"{torch.get_num_threads()} thread(s)"
    )
    metric = BertScore(encoder=args.encoder, layer=layer)
    tbr = BertTbr(encoder=args.encoder, layer=layer, threshold=args.threshold)
    encoder.encode(["warm up"], layer)
    texts = samples.pool.strings()
    _, t_bare = clock("bare model over the distinct sentences", bare(encoder, texts, layer))
    encoder.forget()
    ours, t_ours = clock("captious bertscore", lambda: metric.stats(samples, None).rows)
    # Both metrics in one run: the second finds the vectors of the first.
    text_encoder.STORE_BYTES = 1 << 40
    encoder.forget()
    _, t_encode = clock("captious encoding alone", lambda: encoder.encode(texts, layer))
    context, t_idf = clock("captious bert_tbr, document frequencies", lambda: tbr.prepare(samples))
    _, t_match = clock("captious bert_tbr, matching", lambda: tbr.stats(samples, context))
    _, t_bs_match = clock("captious bertscore, matching", lambda: metric.stats(samples, None))
    print(f"captious / bare model: {t_ours / t_bare:.3f} (bar: at most 1.15)")
    print(
        f"bert_tbr matching / encoding: {t_match / t_encode:.3f} (bar: below 0.20); "
        f"bertscore matching: {t_bs_match / t_encode:.3f}; idf: {t_idf / t_encode:.3f}"
    )
    if args.no_peer:
        return
    from bert_score import BERTScorer

    scorer = BERTScorer(
        model_type=str(encoder.path), num_layers=layer, idf=False, nthreads=1, batch_size=64
    )
    theirs, total = [], 0.0
    for name in names:
        found, spent = clock(
            f"bert-score 0.3.13, {name}",
            lambda name=name: scorer.score(captions[name], refs, batch_size=64),
        )
        theirs.append(torch.stack(found, 1).numpy())
        total += spent
    print(f"bert-score / captious: {total / t_ours:.2f} times (bar: at least 3)")
    gap = np.abs(np.concatenate(theirs) - ours)
    print(f"largest difference of a score: {gap.max():.2e}, mean {gap.mean():.2e}")


def memory(args):
    """Score many made-up captions at the embedding layer and watch the peak memory."""
    table = pq.read_table(args.shared / "data/coco/val2014_captions.parquet").to_pydict()
    refs = [list(r)[:2] for r in table["captions"]]
    metric = BertTbr(encoder=args.encoder, layer=0, threshold=0.5)
    text_encoder.load(args.encoder).encode(["warm up"], 0)
    for count in (args.memory // 10, args.memory):
        rows = [refs[i % len(refs)] for i in range(count)]
        texts = [f"{rows[i][i // len(refs) % 2]} number {i}" for i in range(count)]
        samples = CaptionSet.build(texts, rows, images=[str(i % len(refs)) for i in range(count)])
        del rows, texts
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        context = metric.prepare(samples)
        counted = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        for start in range(0, count, metric.batch):
            metric.stats(samples[start : start + metric.batch], context)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{count:>9} captions: peak so far {before:,.0f} MB with the input, {counted:,.0f} "
            f"with document frequencies, {after:,.0f} when scored",
            flush=True,
        )


def number_types(args):
    """Say how far half precision moves the scores."""
    table = pq.read_table(args.shared / "golden/classic/flickr8k_expert.parquet")
    table = table.select(["cand", "refs"]).to_pydict()
    samples = CaptionSet.build(table["cand"], table["refs"]).take(np.arange(0, 5822, 29))
    for kind in (BertScore, BertTbr):
        full = None
        for dtype in text_encoder.DTYPES:
            metric = kind(encoder=args.encoder, dtype=dtype)
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
    parser.add_argument("--memory", type=int, help="measure memory with this many captions")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    work = memory if args.memory else number_types if args.dtypes else speed
    work(args)


if __name__ == "__main__":
    main()
