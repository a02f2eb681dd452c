"""Every reader of captious with a small valid input: what the campaign damages and reads."""

from __future__ import annotations

import argparse
import base64
import gzip
import io
import json
import pickle
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "golden"
RNG = np.random.default_rng(7)


@dataclass(frozen=True)
class Reader:
    """What is read.

    Attributes:
        name: of the reader, also of the folder of its valid input.
        make: writes the valid input into a folder.
        read: reads it from that folder, whole.
        target: the file that the campaign damages, relative to the folder.
        kind: how it is damaged beside byte by byte: json, jsonl, zip, gzip or bytes.
    """

    name: str
    make: Callable[[Path], None]
    read: Callable[[Path], Any]
    target: str
    kind: str = "bytes"


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()


def _write(name: str, content: bytes, folder: Path) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _parquet(rows: list[dict[str, Any]], **options: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out, **options)
    return out.getvalue()


# -- captions ------------------------------------------------------------------------------------

_RECORDS = [
    {"id": i, "image": f"{i}.jpg", "caption": f"a dog {i} runs", "references": ["a dog", "one cat"]}
    for i in range(4)
]
_COCO = {
    "images": [{"id": i, "file_name": f"{i}.jpg"} for i in range(3)],
    "annotations": [{"id": i, "image_id": i % 3, "caption": f"a cat {i}"} for i in range(6)],
}
_KARPATHY = {
    "images": [
        {"cocoid": i, "filename": f"{i}.jpg", "filepath": "val", "sentences": [{"raw": "a dog"}]}
        for i in range(3)
    ]
}
_CSV = b'id,caption,references\n1,a dog runs,"[""a dog"", ""the dog""]"\n2,two cats,"[\'a cat\']"\n'
_NUMBERED = b"id\tcaption\tref1\tref2\n1\ta dog\tone dog\tthe dog\n2\ttwo cats\ta cat\t\n"


def _captions(name: str, folder: Path) -> Any:
    from captious.io.load import load

    return [(s.caption, s.references, s.id) for s in load(folder / name)]


def _references(name: str, folder: Path) -> Any:
    from captious.io.load import load

    return len(load(["a dog", "b", "c"], folder / name))


def _caption_readers() -> list[Reader]:
    texts = {
        "list.json": (_dump(["a dog", "two cats", "x"]), "json"),
        "records.json": (_dump(_RECORDS), "json"),
        "dict.json": (_dump({"1": "a dog", "2": "a cat"}), "json"),
        "lines.jsonl": (b"\n".join(map(_dump, _RECORDS)), "jsonl"),
        "table.csv": (_CSV, "bytes"),
        "numbered.tsv": (_NUMBERED, "bytes"),
        "plain.txt": (b"a dog runs\ntwo cats\n", "bytes"),
        "table.parquet": (_parquet(_RECORDS), "bytes"),
        "flat.parquet": (_parquet(_RECORDS, compression="none", use_dictionary=False), "bytes"),
        "records.json.gz": (gzip.compress(_dump(_RECORDS)), "gzip"),
    }
    out = [
        Reader(f"captions-{n}", partial(_write, n, c), partial(_captions, n), n, k)
        for n, (c, k) in texts.items()
    ]
    for name, value in (("coco.json", _COCO), ("karpathy.json", _KARPATHY)):
        make = partial(_write, name, _dump(value))
        out.append(Reader(f"references-{name}", make, partial(_references, name), name, "json"))
    return out


# -- objects -------------------------------------------------------------------------------------

_VOC = b"""<annotation><filename>a.jpg</filename><object><name>dog</name><bndbox><xmin>1</xmin>
<ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></object></annotation>"""
_INSTANCES = {
    "images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}],
    "annotations": [{"id": 5, "image_id": 1, "category_id": 18, "bbox": [1, 2, 3, 4]}],
    "categories": [{"id": 18, "name": "dog"}],
}
_DETECTIONS = [{"image_id": 1, "category_id": 18, "bbox": [1, 2, 3, 4], "score": 0.5}]
_GENOME = [{"image_id": 1, "objects": [{"names": ["dog"], "x": 1, "y": 2, "w": 3, "h": 4}]}]
_FOUND = [
    {"image": "a.jpg", "label": "dog", "score": 0.5, "left": 1.0, "top": 1.0, "right": 2.0,
     "bottom": 2.0},
    {"image": "b.jpg", "label": None, "score": None, "left": None, "top": None, "right": None,
     "bottom": None},
]  # fmt: skip


def _objects(name: str, folder: Path) -> Any:
    from captious.evidence.objects import ObjectStore

    return ObjectStore.read(folder / name, threshold=0.2).table()


def _open_images(folder: Path) -> None:
    _write("oi.csv", b"ImageID,LabelName,Confidence\nx,/m/0bt9lr,1\nx,/m/01yrx,0\n", folder)
    _write("class-descriptions.csv", b"/m/0bt9lr,Dog\n/m/01yrx,Cat\n", folder)


def _object_readers() -> list[Reader]:
    texts = {
        "voc.xml": (_VOC, "bytes"),
        "instances.json": (_dump(_INSTANCES), "json"),
        "detections.json": (_dump(_DETECTIONS), "json"),
        "genome.json": (_dump(_GENOME), "json"),
        "plain.json": (_dump({"a.jpg": ["dog", "cat"], "b.jpg": []}), "json"),
        "lines.jsonl": (
            b'{"image": "a", "labels": ["dog"]}\n{"image": "b", "label": "cat"}',
            "jsonl",
        ),
        "table.csv": (b"image,label,score\na.jpg,dog;cat,0.5\nb.jpg,,\n", "bytes"),
        "found.parquet": (_parquet(_FOUND), "bytes"),
        "lists.parquet": (_parquet([{"image": "a", "labels": ["dog", "cat"]}]), "bytes"),
    }
    out = [
        Reader(f"objects-{n}", partial(_write, n, c), partial(_objects, n), n, k)
        for n, (c, k) in texts.items()
    ]
    for target in ("oi.csv", "class-descriptions.csv"):
        out.append(Reader(f"objects-{target}", _open_images, partial(_objects, "oi.csv"), target))
    return out


# -- regions -------------------------------------------------------------------------------------


def _sets(count: int = 3) -> dict[str, Any]:
    from captious.evidence.regions import RegionSet

    return {
        f"{i}.jpg": RegionSet(
            RNG.random((4, 6), np.float32), RNG.random((4, 4), np.float32), 10, 20
        )
        for i in range(count)
    }


def _read_regions(name: str, folder: Path) -> Any:
    from captious.evidence.region_formats import images_of, open_regions

    return [
        (n, one.features.sum(), None if one.boxes is None else one.boxes.sum(), one.spatial())
        for n, one in images_of(open_regions(folder / name))
    ]


def _read_pickle(folder: Path) -> Any:
    from captious.evidence.region_formats import convert_pickle, images_of

    return [(n, one.features.sum()) for n, one in images_of(convert_pickle(folder / "r.pkl"))]


def _store(folder: Path) -> None:
    from captious.evidence.regions import RegionWriter

    writer = RegionWriter(folder / "store", 6, "fuzz")
    writer.write_part(list(_sets().items()))
    for file in (folder / "store").glob("part-*"):
        file.rename(file.with_name("part-00000-1." + file.name.split(".", 1)[1]))


def _scan_array(folder: Path) -> None:
    np.save(folder / "dev_ims.npy", RNG.random((3, 4, 6), np.float32))
    _write("dev_ids.txt", b"1\n2\n3\n", folder)


def _tsv(folder: Path) -> None:
    lines = []
    for i, one in enumerate(_sets().values()):
        parts = [base64.b64encode(x.tobytes()).decode() for x in (one.boxes, one.features)]
        lines.append("\t".join([str(i), "10", "20", "4", *parts]))
    _write("r.tsv", "\n".join(lines).encode(), folder)


def _arrays(folder: Path) -> None:
    (folder / "arrays").mkdir()
    for name, one in _sets(2).items():
        stem = folder / "arrays" / name.removesuffix(".jpg")
        np.savez(f"{stem}.npz", features=one.features, boxes=one.boxes, image_w=10, image_h=20)
    np.save(folder / "arrays" / "9.npy", RNG.random((4, 6), np.float32))


def _hdf5(flat: bool, folder: Path) -> None:
    import h5py

    with h5py.File(folder / "r.h5", "w") as file:
        if flat:
            file["ids"] = [b"a", b"b"]
            file["features"] = RNG.random((2, 4, 6), np.float32)
            file["boxes"] = RNG.random((2, 4, 4), np.float32)
            return
        for name, one in _sets(2).items():
            group = file.create_group(name)
            group["features"], group["boxes"] = one.features, one.boxes
            group.attrs["image_w"], group.attrs["image_h"] = 10, 20


def _lmdb(text: bool, folder: Path) -> None:
    import lmdb

    with lmdb.open(str(folder / "l"), map_size=1 << 20) as base, base.begin(write=True) as view:
        for name, one in _sets(30).items():
            fields: dict[str, Any] = {"image_w": 10, "image_h": 20, "num_boxes": 4}
            for key, value in (("features", one.features), ("boxes", one.boxes)):
                fields[key] = base64.b64encode(value.tobytes()) if text else value
            view.put(name.encode(), pickle.dumps(fields))
        view.put(b"long", pickle.dumps({"features": RNG.random((400, 6), np.float32)}))
    (folder / "l" / "lock.mdb").unlink(missing_ok=True)


def _pickled(protocol: int, folder: Path) -> None:
    sets = {n: {"features": o.features, "boxes": o.boxes} for n, o in _sets().items()}
    _write("r.pkl", pickle.dumps(sets | {"plain": sets["0.jpg"]["features"]}, protocol), folder)


def _region_readers() -> list[Reader]:
    out = [
        Reader(f"store-{t}", _store, partial(_read_regions, "store"), f"store/{t}", k)
        for t, k in (
            ("store.json", "json"),
            ("part-00000-1.index.json", "json"),
            ("part-00000-1.features.npy", "bytes"),
            ("part-00000-1.boxes.npy", "bytes"),
        )
    ]
    read = partial(_read_regions, "dev_ims.npy")
    out += [Reader(f"scan-{t}", _scan_array, read, t) for t in ("dev_ims.npy", "dev_ids.txt")]
    out.append(Reader("regions-tsv", _tsv, partial(_read_regions, "r.tsv"), "r.tsv"))
    read = partial(_read_regions, "arrays")
    out += [Reader(f"arrays-{t}", _arrays, read, f"arrays/{t}", k)
            for t, k in (("0.npz", "zip"), ("9.npy", "bytes"))]  # fmt: skip
    read = partial(_read_regions, "r.h5")
    out += [Reader(f"hdf5-{n}", partial(_hdf5, f), read, "r.h5")
            for n, f in (("flat", True), ("groups", False))]  # fmt: skip
    read = partial(_read_regions, "l")
    out += [Reader(f"lmdb-{n}", partial(_lmdb, t), read, "l/data.mdb")
            for n, t in (("base64", True), ("arrays", False))]  # fmt: skip
    out += [
        Reader(f"pickle-{p}", partial(_pickled, p), _read_pickle, "r.pkl") for p in (0, 2, 4, 5)
    ]
    return out


# -- vectors and tables --------------------------------------------------------------------------

_WORDS = ["a", "dog", "cat", "new york", "é"]
_MATRIX = RNG.random((5, 8), np.float32)


def _glove(header: bool) -> bytes:
    rows = [f"{w} " + " ".join(f"{x:.4f}" for x in v) for w, v in zip(_WORDS, _MATRIX, strict=True)]
    return (("5 8\n" if header else "") + "\n".join(rows) + "\n").encode()


def _word2vec() -> bytes:
    rows = [
        w.replace(" ", "_").encode() + b" " + v.tobytes()
        for w, v in zip(_WORDS, _MATRIX, strict=True)
    ]
    return b"5 8\n" + b"\n".join(rows)


def _zipped(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return out.getvalue()


def _npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def _vectors(name: str, folder: Path) -> Any:
    from captious.text import _vector_formats

    return sum(float(np.nansum(m)) for _, m in _vector_formats.read(folder / name))


def _pair(words: str, content: bytes, folder: Path) -> None:
    (folder / "v").mkdir()
    np.save(folder / "v" / "m.npy", _MATRIX)
    _write(f"v/{words}", content, folder)


def _converted(folder: Path) -> None:
    _write("v.txt", _glove(False), folder)
    _use_vectors(folder)
    (made,) = (folder / "cache").glob("**/meta.json")
    made.parent.rename(folder / "made")


def _use_vectors(folder: Path) -> Any:
    from captious import settings
    from captious.text import vectors

    vectors._opened.cache_clear()
    if (folder / "made").is_dir():
        path, member, label = vectors.locate(str(folder / "v.txt"))
        found = vectors._opened(path, member, label, folder / "made")
    else:
        with settings.use(cache_dir=folder / "cache", progress=False):
            found = vectors.open_vectors(str(folder / "v.txt"))
    return found


def _vector_readers() -> list[Reader]:
    wink = {
        "dimensions": 8,
        "vectors": {w: [*map(float, v), 1.0, 2.0] for w, v in zip(_WORDS, _MATRIX, strict=True)},
    }
    files = {
        "glove.txt": (_glove(False), "bytes"),
        "header.vec": (_glove(True), "bytes"),
        "word2vec.bin": (_word2vec(), "bytes"),
        "word2vec.bin.gz": (gzip.compress(_word2vec()), "gzip"),
        "glove.txt.gz": (gzip.compress(_glove(False)), "gzip"),
        "glove.zip": (_zipped("g.txt", _glove(False)), "zip"),
        "both.npz": (_npz(words=np.array(_WORDS), vectors=_MATRIX), "zip"),
        "wink.json": (_dump(wink).replace(b" ", b""), "json"),
    }
    out = [
        Reader(f"vectors-{n}", partial(_write, n, c), partial(_vectors, n), n, k)
        for n, (c, k) in files.items()
    ]
    lists = {
        "w.txt": ("\n".join(_WORDS).encode(), "bytes"),
        "w.json": (_dump(_WORDS), "json"),
        "w.csv": ("\n".join(f"{w},1" for w in _WORDS).encode(), "bytes"),
        "w.parquet": (_parquet([{"word": w} for w in _WORDS]), "bytes"),
    }
    for name, (content, kind) in lists.items():
        make = partial(_pair, name, content)
        out.append(Reader(f"words-{name}", make, partial(_vectors, "v"), f"v/{name}", kind))
    make = partial(_pair, "w.txt", lists["w.txt"][0])
    out.append(Reader("matrix-npy", make, partial(_vectors, "v"), "v/m.npy"))
    return out


def _frequencies(folder: Path) -> None:
    from captious.text import document_frequency as df
    from captious.types import CaptionSet

    samples = CaptionSet.build(["a", "b"], [["a dog runs", "a dog"], ["a cat", "a dog"]])
    df.count(samples, "ptb", False, "image").save(folder / "df.npz")


def _read_frequencies(folder: Path) -> Any:
    from captious.text import document_frequency as df
    from captious.text import ngrams

    table = df.load(str(folder / "df.npz"), "ptb", False)
    return table.lookup(1, np.array([1, 2], np.uint64)), ngrams.ORDERS


def _read_baseline(folder: Path) -> Any:
    from captious.metrics.bertscore import read_baseline

    return read_baseline(str(folder / "b.json"), 5)


def _read_stop_words(folder: Path) -> Any:
    from captious.text.stoplists import stop_words

    stop_words.cache_clear()
    return stop_words(str(folder / "s.txt"))


def _read_labels(folder: Path) -> Any:
    from captious.evidence.detect import read_labels

    return read_labels(str(folder / "l.csv"))


def _paraphrases(folder: Path) -> Any:
    from captious.text import paraphrase

    return paraphrase._build(folder / "p.gz", folder / "made" / "index")


def _parses(folder: Path) -> None:
    from captious.text.parse_cache import ParseCache

    ParseCache(folder / "p.db").put([(f"text {i}", "A\tB\tC") for i in range(50)])
    for file in folder.glob("p.db-*"):
        file.unlink()


def _read_parses(folder: Path) -> Any:
    from captious.text.parse_cache import ParseCache

    cache = ParseCache(folder / "p.db")
    cache.put([("another", "A\tB\tC")])
    return cache.get(["text 1", "text 2", "another"])


def _table_readers() -> list[Reader]:
    baseline = {"layers": [{"layer": 5, "p": 0.1, "r": 0.2, "f": 0.3}]}
    phrases = b"".join(b"0.5\na dog\nthe dog %d\n" % i for i in range(20))
    return [
        Reader("df-table", _frequencies, _read_frequencies, "df.npz", "zip"),
        Reader(
            "baseline", partial(_write, "b.json", _dump(baseline)), _read_baseline, "b.json", "json"
        ),
        Reader("stop-words", partial(_write, "s.txt", b"a\nthe\n"), _read_stop_words, "s.txt"),
        Reader("labels", partial(_write, "l.csv", b"/m/1,dog\n/m/2,cat\n"), _read_labels, "l.csv"),
        Reader(
            "paraphrases",
            partial(_write, "p.gz", gzip.compress(phrases)),
            _paraphrases,
            "p.gz",
            "gzip",
        ),
        Reader("parse-cache", _parses, _read_parses, "p.db"),
        Reader("converted-vectors", _converted, _use_vectors, "made/meta.json", "json"),
    ]


# -- judgements ----------------------------------------------------------------------------------

_RATINGS = [
    {"caption": f"a dog {i}", "rating": i, "references": ["a", "b"], "image": f"{i}"}
    for i in range(4)
]
_PAIRS = [
    {"caption_a": "a dog", "caption_b": f"cat {i}", "preferred": "a", "references": ["x"]}
    for i in range(3)
]
_RANKS = [{"caption": f"c {i}", "item": "1", "rank": i, "references": ["x"]} for i in range(3)]


def _judgements(name: str, folder: Path) -> Any:
    from captious.judgements.sets import user_files

    return user_files.load(folder / name).counts


def _collection(name: str, folder: Path) -> Any:
    from captious.judgements import sets

    return sets.load(name, folder)


def _flickr(folder: Path) -> None:
    _write(
        "flickr8k/ExpertAnnotations.txt",
        b"1.jpg\t2.jpg#0\t1\t2\t3\n2.jpg\t2.jpg#0\t4\t4\t4\n",
        folder,
    )
    lines = [f"{i}.jpg#{k}\ta dog {i} {k}" for i in (1, 2) for k in range(5)]
    _write("flickr8k/Flickr8k.token.txt", "\n".join(lines).encode(), folder)


def _judgement_readers() -> list[Reader]:
    ratings = b"caption,rating,references\na dog,3,\"['x', 'y']\"\na cat,\"[1, 2]\",\"['z']\"\n"
    files = {
        "ratings.json": (_dump(_RATINGS), "json"),
        "pairs.jsonl": (b"\n".join(map(_dump, _PAIRS)), "jsonl"),
        "ranks.json": (_dump(_RANKS), "json"),
        "ratings.csv": (ratings, "bytes"),
        "ratings.parquet": (_parquet(_RATINGS), "bytes"),
    }
    out = [
        Reader(f"judgements-{n}", partial(_write, n, c), partial(_judgements, n), n, k)
        for n, (c, k) in files.items()
    ]
    polaris = b'mt,refs,score,imgid\na dog,"[\'x\', \'y\']",0.5,1.jpg\na cat,"[""z""]",1,2.jpg\n'
    target = "polaris/polaris_test.csv"
    make = partial(_write, target, polaris)
    out.append(Reader("polaris", make, partial(_collection, "polaris"), target))
    for target in ("ExpertAnnotations.txt", "Flickr8k.token.txt"):
        read = partial(_collection, "flickr8k-expert")
        out.append(Reader(f"flickr8k-{target}", _flickr, read, f"flickr8k/{target}"))
    return out


# -- models --------------------------------------------------------------------------------------


def _language_model(folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    from captious.models import lm

    words = ["<pad>", "<start>", "<end>", "<unk>", *(f"w{i}" for i in range(26))]
    torch.manual_seed(0)
    layers = lm.network(lm.Sizes(30, 8, 8, (10, 20)))
    (folder / "m").mkdir()
    save_file(dict(layers.state_dict()), folder / "m" / "model.safetensors")
    config = {"format": lm.FORMAT, "vocabulary": words, "embedding": 8, "hidden": 8,
              "cutoffs": [10, 20], "tokenizer": "ptb", "counts": [1] * 30}  # fmt: skip
    _write("m/config.json", _dump(config), folder)


def _use_language_model(folder: Path) -> Any:
    from captious.models import lm

    lm._load.cache_clear()
    return lm.load(str(folder / "m"))


def _scan(folder: Path) -> None:
    from captious.models import scan

    case = GOLDEN / "scan_tiger" / "t2i_weightnorm"
    model, words = scan.load(Path(f"{case}.checkpoint.pth.tar"), Path(f"{case}.vocab.json"))
    scan.save(model, words, folder / "ours", {"features": "x", "training": {"own_words": 2}})
    shutil.copy(f"{case}.checkpoint.pth.tar", folder / "c.pth.tar")
    shutil.copy(f"{case}.vocab.json", folder / "vocab.json")


def _use_scan(ours: bool, folder: Path) -> Any:
    from captious.models import scan

    if ours:
        return scan.load(folder / "ours"), scan.features_of(folder / "ours")
    return scan.load(folder / "c.pth.tar", folder / "vocab.json")


def _old_checkpoint(folder: Path) -> None:
    """The layout of torch before 1.6, one pickle after the other."""
    import torch

    content = {"model": [{"fc.weight": torch.ones(2, 3)}, {}], "opt": argparse.Namespace(a=1)}
    torch.save(content, folder / "old.pth", _use_new_zipfile_serialization=False)


def _use_checkpoint(folder: Path) -> Any:
    from captious.models.checkpoints import load_torch

    return load_torch(folder / "old.pth")


def _vilbert(folder: Path) -> None:
    case = GOLDEN / "vilbert" / "pretrained_2conect"
    (folder / "v").mkdir()
    shutil.copy(f"{case}.weights.safetensors", folder / "v" / "model.safetensors")
    shutil.copy(f"{case}.config.json", folder / "v" / "config.json")


def _use_vilbert(folder: Path) -> Any:
    from captious.models.vilbert_load import load_vilbert

    return load_vilbert(folder / "v")


def _composite(folder: Path) -> None:
    from captious import assets

    home = assets.resolve("composites", wanted_by="the campaign")
    shutil.copytree(sorted(p.parent for p in home.glob("*/model.json"))[0], folder / "c")


def _use_composite(folder: Path) -> Any:
    from captious.learned import model_file

    model_file._load.cache_clear()
    return model_file.load(folder / "c")


def _encoder(folder: Path) -> None:
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "cat", "runs"]
    _write("e/vocab.txt", "\n".join(words).encode(), folder)
    BertTokenizerFast(str(folder / "e" / "vocab.txt")).save_pretrained(folder / "e")
    size = BertConfig(vocab_size=len(words), hidden_size=8, num_hidden_layers=2,
                      num_attention_heads=2, intermediate_size=16)  # fmt: skip
    BertModel(size).save_pretrained(folder / "e")


def _use_encoder(folder: Path) -> Any:
    from captious.models import text_encoder

    encoder = text_encoder.TextEncoder("e", folder / "e", "float32", "cpu")
    return encoder.encode(["a dog runs"], 1).vectors


def _model_readers() -> list[Reader]:
    out = [
        Reader(f"lm-{t}", _language_model, _use_language_model, f"m/{t}", k)
        for t, k in (("config.json", "json"), ("model.safetensors", "bytes"))
    ]
    out += [
        Reader(f"scan-ours-{t}", _scan, partial(_use_scan, True), f"ours/{t}", k)
        for t, k in (
            ("config.json", "json"),
            ("model.safetensors", "bytes"),
            ("vocab.json", "json"),
        )
    ]
    out += [
        Reader(f"scan-original-{t}", _scan, partial(_use_scan, False), t, k)
        for t, k in (("c.pth.tar", "zip"), ("vocab.json", "json"))
    ]
    out.append(Reader("torch-old", _old_checkpoint, _use_checkpoint, "old.pth"))
    out += [
        Reader(f"vilbert-{t}", _vilbert, _use_vilbert, f"v/{t}", k)
        for t, k in (("config.json", "json"), ("model.safetensors", "bytes"))
    ]
    out += [
        Reader(f"composite-{t}", _composite, _use_composite, f"c/{t}", k)
        for t, k in (("model.json", "json"), ("model.safetensors", "bytes"))
    ]
    out += [
        Reader(f"encoder-{t}", _encoder, _use_encoder, f"e/{t}", k)
        for t, k in (
            ("config.json", "json"),
            ("tokenizer.json", "json"),
            ("model.safetensors", "bytes"),
        )
    ]
    return out


# -- stored results and what is kept ---------------------------------------------------------------


def _results(name: str, folder: Path) -> None:
    import captious

    captious.score(
        ["a dog runs", "two cats"],
        [["a dog", "the dog runs"], ["a cat"]],
        metrics=["bleu", "rouge_l"],
    ).save(folder / name)


def _use_results(name: str, folder: Path) -> Any:
    from captious.engine.table import ScoreTable

    table = ScoreTable.load(folder / name)
    return table.to_csv(), str(table)


def _kept_statistics(folder: Path) -> None:
    from captious.engine.cache import StatisticsCache
    from captious.types import Stats

    StatisticsCache(folder).save("ab" * 20, Stats(np.ones((3, 2)), {1: "why"}, {"note": 2}))
    (folder / "ab" / f"{'ab' * 20}.npz").rename(folder / "entry.npz")


def _use_statistics(folder: Path) -> Any:
    from captious.engine.cache import StatisticsCache

    place = folder / "kept" / "ab"
    place.mkdir(parents=True)
    if (folder / "entry.npz").is_file():
        shutil.copy(folder / "entry.npz", place / f"{'ab' * 20}.npz")
    return StatisticsCache(folder / "kept").load("ab" * 20)


class _BlindDetector:
    signature = "blind"

    def detect(self, image: Any, threshold: float) -> list[Any]:
        return []


def _kept_detections(folder: Path) -> None:
    from captious.evidence.detect import Detection
    from captious.evidence.detections import DetectionCache

    cache = DetectionCache(_BlindDetector(), folder=folder)
    cache._write({"x" * 40: [Detection("dog", 0.5, (0.0, 1.0, 2.0, 3.0))], "y" * 40: []})
    next(folder.glob("part-*.parquet")).rename(folder / "part-1.parquet")


def _use_detections(folder: Path) -> Any:
    from captious.evidence.detections import DetectionCache

    return DetectionCache(_BlindDetector(), folder=folder).detections({})


def _kept_vectors(folder: Path) -> None:
    from captious.models.embedding_cache import EmbeddingCache

    cache = EmbeddingCache(folder / "e.sqlite", 1 << 20)
    vectors = np.ones((3, 4), np.float32)
    cache.put([(EmbeddingCache.key("e", 1, str(n)), (np.arange(3, dtype=np.int32), vectors))
               for n in range(20)])  # fmt: skip
    cache.close()


def _use_kept_vectors(folder: Path) -> Any:
    from captious.models.embedding_cache import EmbeddingCache

    cache = EmbeddingCache(folder / "e.sqlite", 1 << 20)
    try:
        key = EmbeddingCache.key("e", 1, "3")
        cache.put([(key, (np.zeros(1, np.int32), np.ones((1, 4), np.float32)))])
        return cache.get([key])
    finally:
        cache.close()


def _graph(folder: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [1, 3])
    y = helper.make_tensor_value_info("maps", TensorProto.FLOAT, [1, 3])
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1, 3], [1.0, 2.0, 3.0])
    graph = helper.make_graph([helper.make_node("Mul", ["pixels", "w"], ["maps"])], "g", [x], [y],
                              [weight])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "g.onnx")


def _use_graph(folder: Path) -> Any:
    import onnxruntime

    from captious.evidence.backbones import open_graph

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return open_graph(folder / "g.onnx", options)


def _parser(folder: Path) -> None:
    import spacy

    nlp = spacy.blank("en")
    for name, label in (("tagger", "NN"), ("parser", "nsubj")):
        nlp.add_pipe(name).add_label(label)
    nlp.initialize()
    nlp.to_disk(folder / "nlp")


def _use_parser(folder: Path) -> Any:
    from captious.text import scene_parser

    scene_parser._load.cache_clear()
    return scene_parser._load(str(scene_parser.locate(str(folder / "nlp"))))


def _kept_readers() -> list[Reader]:
    readers = [
        Reader(f"results-{n}", partial(_results, n), partial(_use_results, n), n, k)
        for n, k in (("r.json", "json"), ("r.jsonl", "jsonl"), ("r.parquet", "bytes"))
    ]
    readers += [
        Reader("kept-statistics", _kept_statistics, _use_statistics, "entry.npz", "zip"),
        Reader("kept-detections", _kept_detections, _use_detections, "part-1.parquet"),
        Reader("kept-vectors", _kept_vectors, _use_kept_vectors, "e.sqlite"),
        Reader("onnx-graph", _graph, _use_graph, "g.onnx"),
    ]
    readers += [
        Reader(f"parser-{t.replace('/', '-')}", _parser, _use_parser, f"nlp/{t}", k)
        for t, k in (("meta.json", "json"), ("config.cfg", "bytes"), ("parser/model", "bytes"),
                     ("vocab/strings.json", "json"))
    ]  # fmt: skip
    return readers


# -- pictures and metric names -------------------------------------------------------------------


def _picture(format: str, folder: Path) -> None:
    from PIL import Image

    image = Image.fromarray(RNG.integers(0, 255, (24, 32, 3), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    more = {"exif": exif} if format in ("JPEG", "PNG", "WEBP", "TIFF") else {}
    image.save(folder / "p.jpg", format=format, **more)


def _eps(folder: Path) -> None:
    _write(
        "p.jpg",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n",
        folder,
    )


def _open(folder: Path) -> Any:
    from captious.evidence.images import open_image

    return np.asarray(open_image(folder / "p.jpg")).sum()


def _metrics(folder: Path) -> Any:
    """Names and parameters of metrics come from command lines, but also from stored results."""
    from captious import registry

    text = (
        (folder / "spec.txt").read_bytes().decode("latin1")
        if (folder / "spec.txt").is_file()
        else ""
    )
    return [registry.create(part) for part in text.split("|")]


def _picture_readers() -> list[Reader]:
    out = [
        Reader(f"picture-{f.lower()}", partial(_picture, f), _open, "p.jpg")
        for f in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
    ]
    names = b"bleu(tokenizer='ptb')|cider(df='corpus')|bert_tbr(threshold=0.4)|eval_ms"
    out.append(Reader("metric-names", partial(_write, "spec.txt", names), _metrics, "spec.txt"))
    return [*out, Reader("picture-eps", _eps, _open, "p.jpg")]


def readers() -> list[Reader]:
    """All readers."""
    return [
        *_caption_readers(), *_object_readers(), *_region_readers(), *_vector_readers(),
        *_table_readers(), *_judgement_readers(), *_model_readers(), *_kept_readers(),
        *_picture_readers(),
    ]  # fmt: skip
