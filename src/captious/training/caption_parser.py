"""Adapt spaCy's small English parser to captions: the default parser of SPICE.

The small model is quick but errs on captions: they are not the news and telephone talk that it
learned from, and here they come in lower case without punctuation. A larger model that sees the
caption as written is the teacher; the small one learns to give the same tags and trees for the
words alone with a full stop at the end, which is what ``text.scene_parser`` shows it. No human
annotation and no output of the Java tool is used.

    python -m captious.training.caption_parser --captions FILE=COUNT... --out FOLDER

Files are named with the number of captions to draw, ``FILE=COUNT``: a parquet file with a column
``captions`` (lists of strings; rows whose ``split`` is not ``train`` are left out) or a COCO
``captions_*.json``, also inside a jar or zip (``a.jar!b.json``).
Runs repeat exactly with the same seed, versions and files. See the model card beside the weights.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import time
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.progress import Progress
from captious.text import ptb
from captious.text.scene_parser import locate

Row = tuple[str, str, str, int]  # word, tag, label, head

_BATCH = 192


def read_captions(place: str) -> list[str]:
    """Return the distinct captions of a file, sorted, so that a seed means the same everywhere."""
    name, _, member = place.partition("!")
    if member:
        with zipfile.ZipFile(name) as archive:
            content = archive.read(member)
    else:
        content = Path(name).read_bytes()
    if place.endswith(".json"):
        captions = {a["caption"] for a in json.loads(content)["annotations"]}
    elif place.endswith(".parquet"):
        import pyarrow.parquet as pq

        table = pq.read_table(io.BytesIO(content)).to_pydict()
        splits = table.get("split") or ["train"] * len(table["captions"])
        rows = zip(splits, table["captions"], strict=True)
        captions = {c for split, row in rows if split == "train" for c in row}
    else:
        raise InputError(f"{place}: captions come as .parquet or COCO .json")
    return sorted({c.strip() for c in captions})


def teach(teacher: Any, captions: list[str]) -> Iterator[list[Row]]:
    """Parse captions as written; yield the trees over the words, with one full stop at the end.

    Captions of several sentences are left out: their pieces have no common root.
    """
    from spacy.tokens import Doc

    tokens = [ptb.raw_tokenize(c) for c in captions]
    docs = (Doc(teacher.vocab, words=t) for t in tokens if 2 < len(t) < 40)
    for doc in teacher.pipe(docs, batch_size=256):
        rows = _without_punctuation(
            [(t.text, t.tag_, t.dep_, t.head.i) for t in doc],
        )
        roots = [i for i, row in enumerate(rows) if row[3] == i]
        if len(roots) == 1 and len(rows) > 1:
            yield [*rows, (".", ".", "punct", roots[0])]


def _without_punctuation(rows: list[Row]) -> list[Row]:
    words = [i for i, row in enumerate(rows) if row[0] not in ptb.PUNCTUATION]
    number = {old: new for new, old in enumerate(words)}
    renumbered: list[Row] = []
    for old in words:
        word, tag, label, head = rows[old]
        while head not in number and rows[head][3] != head:
            head = rows[head][3]
        renumbered.append((word, tag, label, number.get(head, number[old])))
    return renumbered


def train(nlp: Any, rows: list[list[Row]], rate: float, seed: int) -> None:
    """One pass over the sentences, the learning rate falling to a twentieth; weights averaged."""
    from spacy.util import minibatch

    optimizer = nlp.resume_training()
    rng = random.Random(seed)
    rng.shuffle(rows)
    done = 0
    with Progress("training", len(rows), "sentences") as bar:
        for batch in minibatch(rows, size=_BATCH):
            optimizer.learn_rate = rate * max(0.05, 1 - done / len(rows))
            nlp.update([_example(nlp, r) for r in batch], sgd=optimizer, drop=0.1)
            done += len(batch)
            bar.advance(len(batch))
    for _, part in nlp.pipeline:
        for node in part.model.walk():
            for name in node.param_names:
                if (node.id, name) in optimizer.averages:
                    node.set_param(name, optimizer.averages[node.id, name])


def _example(nlp: Any, rows: list[Row]) -> Any:
    from spacy.tokens import Doc
    from spacy.training import Example

    words, tags, labels, heads = (list(column) for column in zip(*rows, strict=True))
    gold = Doc(nlp.vocab, words=words, tags=tags, deps=labels, heads=heads)
    return Example(Doc(nlp.vocab, words=words), gold)


def agreement(nlp: Any, rows: Iterable[list[Row]]) -> dict[str, float]:
    """Return the shares of words with the teacher's tag, head, and head with label."""
    from spacy.tokens import Doc

    rows = list(rows)
    docs = nlp.pipe((Doc(nlp.vocab, words=[r[0] for r in s]) for s in rows), batch_size=256)
    counts = {"tag": 0, "uas": 0, "las": 0}
    total = 0
    for doc, sentence in zip(docs, rows, strict=True):
        for token, (_, tag, label, head) in zip(doc[:-1], sentence[:-1], strict=True):
            total += 1
            counts["tag"] += token.tag_ == tag
            counts["uas"] += token.head.i == head
            counts["las"] += token.head.i == head and token.dep_ == label
    return {k: round(v / total, 4) for k, v in counts.items()}


def main() -> None:
    """Make the silver trees, train, measure, save."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--teacher", default="md", help="as the parameter `parser` of spice")
    options.add_argument("--student", default="sm")
    options.add_argument("--captions", nargs="+", required=True, help="FILE=COUNT ...")
    options.add_argument("--held-out", type=int, default=2000)
    options.add_argument("--rate", type=float, default=0.001)
    options.add_argument("--seed", type=int, default=7)
    options.add_argument("--out", type=Path, required=True)
    chosen = options.parse_args()
    import spacy
    from thinc.util import fix_random_seed

    fix_random_seed(chosen.seed)
    rng = random.Random(chosen.seed)
    captions: list[str] = []
    for place in chosen.captions:
        name, _, count = place.rpartition("=")
        sample = read_captions(name)
        rng.shuffle(sample)
        captions += sample[: int(count)]
    rng.shuffle(captions)
    teacher, nlp = (
        spacy.load(locate(name), exclude=["ner", "senter", "lemmatizer", "attribute_ruler"])
        for name in (chosen.teacher, chosen.student)
    )
    start = time.monotonic()
    rows = list(teach(teacher, captions))
    print(f"{len(rows)} trees in {time.monotonic() - start:.0f} s", flush=True)
    held, rows = rows[: chosen.held_out], rows[chosen.held_out :]
    print("before", agreement(nlp, held), flush=True)
    train(nlp, rows, chosen.rate, chosen.seed)
    after = agreement(nlp, held)
    print("after ", after, f"{time.monotonic() - start:.0f} s", flush=True)
    nlp.meta["name"] = "captions"
    nlp.meta["version"] = "1.0.0"
    nlp.meta["description"] = "spaCy's en_core_web_sm adapted to captions for SPICE"
    nlp.meta["performance"] = {f"{k}_with_teacher": v for k, v in after.items()}
    nlp.to_disk(chosen.out)
    # The words of the captions stay out: a pipeline needs only its own labels to be spelled.
    labels = sorted({label for part in nlp.meta["labels"].values() for label in part})
    (chosen.out / "vocab" / "strings.json").write_text(json.dumps(labels), encoding="utf-8")


if __name__ == "__main__":
    main()
