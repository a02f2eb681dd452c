"""Adapt spaCy's small English parser to captions: the default parser of SPICE.

The small model is quick but errs on captions: they are not the news and telephone talk that it
learned from, and here they come in lower case without punctuation. A larger model that sees the
caption as written is the teacher; the small one learns to give the same tags and trees for the
words alone with a full stop at the end, which is what ``text.scene_parser`` shows it. No human
annotation and no output of the Java tool is used.

    python -m captious.training.caption_parser --captions FILE=COUNT... --out FOLDER
    python -m captious.training.caption_parser --trees FILE --student default --out FOLDER

The second form takes the teacher's trees from a CoNLL-X file in place of running a teacher: words
in lower case without punctuation, Penn tags, and Stanford's basic dependencies with "be" as a head
(CoreNLP prints them with ``-basic -makeCopulaHead -conllx``). Their labels become spaCy's. A parser
that is trained so says ``"trees": "corenlp"`` in its meta.json, which the scene rules heed.

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
from captious.text._scene_words import BE
from captious.text.scene_parser import locate

Row = tuple[str, str, str, int]  # word, tag, label, head

_BATCH = 192
# Stanford's labels that spaCy's English parsers spell otherwise.
_LABELS = {
    "nn": "compound", "num": "nummod", "vmod": "acl", "root": "ROOT", "rcmod": "relcl",
    "possessive": "case", "iobj": "dative", "discourse": "intj", "tmod": "npadvmod",
    "number": "quantmod",
}  # fmt: skip
_PASSIVE = ("auxpass", "nsubjpass")
_PREDICATES = ("xcomp", "acomp", "dobj", "ccomp", "dep")


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


def read_trees(place: Path, known: Iterable[str]) -> list[list[Row]]:
    """Read the trees of a CoNLL-X file with the labels of spaCy, a full stop at the end."""
    labels = {*known, "ROOT"}
    blocks = place.read_text(encoding="utf-8").strip().split("\n\n")
    trees = [from_stanford([line.split("\t") for line in block.split("\n")]) for block in blocks]
    return [
        [*((w, t, label if label in labels else "dep", h) for w, t, label, h in tree), stop]
        for tree in trees
        if len(roots := [i for i, row in enumerate(tree) if row[3] == i]) == 1 and len(tree) > 1
        for stop in [(".", ".", "punct", roots[0])]
    ]


def from_stanford(lines: list[list[str]]) -> list[Row]:
    """Turn the columns of one CoNLL-X sentence into a tree with the labels of spaCy."""
    words, tags, told = ([line[k] for line in lines] for k in (1, 3, 7))
    heads = [int(line[6]) - 1 if line[6] != "0" else i for i, line in enumerate(lines)]
    passive = {h for label, h in zip(told, heads, strict=True) if label in _PASSIVE}
    tree: list[Row] = []
    for i, (word, tag, label, head) in enumerate(zip(words, tags, told, heads, strict=True)):
        new = _LABELS.get(label, label)
        if label == "prep" and word == "by" and head in passive:
            new = "agent"
        elif (
            label in _PREDICATES
            and head < i
            and words[head] in BE
            and told[head] not in ("aux", "auxpass")
            and tag[:2] in ("JJ", "NN", "CD", "RB", "VB")
        ):
            new = "attr"
        tree.append((word, tag, new, head))
    return tree


def train(nlp: Any, rows: list[list[Row]], rate: float, seed: int, passes: int = 1) -> None:
    """Pass over the sentences, the learning rate falling to a twentieth; weights averaged."""
    from spacy.util import minibatch

    optimizer = nlp.resume_training()
    rng = random.Random(seed)
    order: list[list[Row]] = []
    for _ in range(passes):
        rng.shuffle(rows)
        order += rows
    done = 0
    with Progress("training", len(order), "sentences") as bar:
        for batch in minibatch(order, size=_BATCH):
            optimizer.learn_rate = rate * max(0.05, 1 - done / len(order))
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


def _drawn(places: list[str], rng: random.Random) -> list[str]:
    """Draw the named numbers of captions."""
    captions: list[str] = []
    for place in places:
        name, _, count = place.rpartition("=")
        sample = read_captions(name)
        rng.shuffle(sample)
        captions += sample[: int(count)]
    rng.shuffle(captions)
    return captions


def main() -> None:
    """Make the silver trees, train, measure, save."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--teacher", default="md", help="as the parameter `parser` of spice")
    options.add_argument("--student", default="sm")
    source = options.add_mutually_exclusive_group(required=True)
    source.add_argument("--captions", nargs="+", help="FILE=COUNT ...")
    source.add_argument("--trees", type=Path, help="a CoNLL-X file of the teacher's trees")
    options.add_argument("--passes", type=int, default=1)
    options.add_argument("--held-out", type=int, default=2000)
    options.add_argument("--rate", type=float, default=0.001)
    options.add_argument("--seed", type=int, default=7)
    options.add_argument("--out", type=Path, required=True)
    chosen = options.parse_args()
    import spacy
    from thinc.util import fix_random_seed

    fix_random_seed(chosen.seed)
    rng = random.Random(chosen.seed)
    parts = ["ner", "senter", "lemmatizer", "attribute_ruler"]
    nlp = spacy.load(locate(chosen.student), exclude=parts)
    start = time.monotonic()
    if chosen.trees:
        parser: Any = nlp.get_pipe("parser")
        rows = read_trees(chosen.trees, parser.labels)
        rng.shuffle(rows)
    else:
        teacher = spacy.load(locate(chosen.teacher), exclude=parts)
        rows = list(teach(teacher, _drawn(chosen.captions, rng)))
    print(f"{len(rows)} trees in {time.monotonic() - start:.0f} s", flush=True)
    held, rows = rows[: chosen.held_out], rows[chosen.held_out :]
    print("before", agreement(nlp, held), flush=True)
    train(nlp, rows, chosen.rate, chosen.seed, chosen.passes)
    after = agreement(nlp, held)
    print("after ", after, f"{time.monotonic() - start:.0f} s", flush=True)
    nlp.meta["name"] = "corenlp" if chosen.trees else "captions"
    nlp.meta["version"] = "1.0.0"
    nlp.meta["description"] = "spaCy's en_core_web_sm adapted to captions for SPICE"
    if chosen.trees:
        nlp.meta["trees"] = "corenlp"
    nlp.meta["performance"] = {f"{k}_with_teacher": v for k, v in after.items()}
    nlp.to_disk(chosen.out)
    # The words of the captions stay out: a pipeline needs only its own labels to be spelled.
    labels = sorted({label for part in nlp.meta["labels"].values() for label in part})
    (chosen.out / "vocab" / "strings.json").write_text(json.dumps(labels), encoding="utf-8")


if __name__ == "__main__":
    main()
