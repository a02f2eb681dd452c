"""Dependency parses of many sentences: cached, each distinct sentence once, on several cores.

Sentences are token strings (lower-case, words separated by one space), as the tokeniser gives them
to SPICE. spaCy's own tokeniser takes no part. A full stop is added for the parser, which learned
from text that has one, and taken away again: a caption with and one without are parsed alike.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from captious import assets, settings
from captious.errors import CaptiousError, MissingAsset, MissingExtra
from captious.progress import Progress
from captious.reading import json_object, reading, regular
from captious.text._scene_rules import Parse
from captious.text.parse_cache import ParseCache

EMPTY: Final = Parse((), (), (), ())
LONGEST: Final = 512  # words of a caption that are parsed
_NEEDED: Final = ("tok2vec", "tagger", "parser")
_BATCH: Final = 256
_WORTH_A_PROCESS: Final = 4000  # sentences; below this, starting one costs more than it brings
ASSETS: Final = {"default": "parser-captions", "sm": "parser-en-sm", "md": "parser-en-md"}


class SceneParser:
    """A spaCy pipeline that is loaded when the first unknown sentence comes.

    Attributes:
        name: as the user named it.
        version: name, version and content hash of the model, for signatures and the cache.
        corenlp: whether its trees are as CoreNLP would draw them.
    """

    def __init__(self, name: str) -> None:
        if find_spec("spacy") is None:
            raise MissingExtra("spacy", "spice", "spice")
        self.name = name
        self.path = locate(name)
        meta = json_object(self.path / "meta.json", "the description of a spaCy pipeline")
        self.corenlp = meta.get("trees") == "corenlp"
        self.version = (
            f"{meta['lang']}_{meta['name']}-{meta['version']}({_fingerprint(self.path)[:8]})"
        )

    def parse(self, texts: Iterable[str]) -> dict[str, Parse]:
        """Return the parse of every distinct sentence; of a long one, that of its beginning."""
        cut = {t: " ".join(t.split(" ")[:LONGEST]) for t in dict.fromkeys(texts)}
        wanted = list(dict.fromkeys(t for t in cut.values() if t))
        cache = ParseCache(_cache_file(self.path))
        known = cache.get(wanted)
        new = [t for t in wanted if t not in known]
        if new:
            lines = [""] * len(new)
            try:
                with Progress("parsing", len(new), "sentences") as bar:
                    self._run(new, lines, bar)
            finally:  # Ctrl-C keeps what is parsed
                fresh = {text: line for text, line in zip(new, lines, strict=True) if line}
                if fresh:
                    cache.put(fresh.items())
            known |= fresh
        return {t: decode(c, known[c]) if c else EMPTY for t, c in cut.items()}

    def _run(self, texts: list[str], trees: list[str], bar: Progress) -> None:
        """Parse into ``trees``, sharing the work with other processes when there is enough."""
        shares = max(1, min(settings.get().threads, len(texts) // _WORTH_A_PROCESS))
        # Sorted by length the batches waste nothing on padding; results go back in order.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        parts = [order[k::shares] for k in range(shares)]
        helpers = [_Helper(self.path, [texts[i] for i in part]) for part in parts[1:]]
        try:
            for i, line in zip(
                parts[0], encode_all(self.path, [texts[i] for i in parts[0]]), strict=True
            ):
                trees[i] = line
                bar.advance(shares)
            for part, helper in zip(parts[1:], helpers, strict=True):
                for i, line in zip(part, helper.result(), strict=True):
                    trees[i] = line
        finally:
            for helper in helpers:
                helper.stop()


class _Helper:
    """A second process that parses a share of the sentences.

    A plain program with pipes, not multiprocessing: it works from notebooks and from scripts
    without a main guard, and forks nothing that holds threads.
    """

    def __init__(self, model: Path, texts: list[str]) -> None:
        command = [sys.executable, "-m", "captious.text._parse_worker", str(model)]
        here = str(Path(__file__).parents[2])
        path = os.pathsep.join(p for p in (here, os.environ.get("PYTHONPATH", "")) if p)
        env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "PYTHONUTF8": "1"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
        )
        self._answer: tuple[bytes, bytes] = (b"", b"")
        content = "\n".join(texts).encode("utf-8", "surrogatepass")
        self._thread = threading.Thread(target=self._talk, args=(content,), daemon=True)
        self._thread.start()

    def _talk(self, content: bytes) -> None:
        self._answer = self._process.communicate(content)

    def result(self) -> list[str]:
        self._thread.join()
        out, err = self._answer
        if self._process.returncode:
            raise CaptiousError(
                f"a parsing process failed (code {self._process.returncode}): "
                f"{err.decode(errors='replace').strip()[-500:]}. Run with CAPTIOUS_THREADS=1 to "
                "parse in this process only."
            )
        return out.decode("ascii").split("\n")

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._thread.join()


def encode_all(model: Path, texts: Sequence[str]) -> Iterator[str]:
    """Parse in this process; yield one encoded line per sentence."""
    from spacy.tokens import Doc

    nlp = _load(str(model))
    docs = (Doc(nlp.vocab, words=[*text.split(" "), "."]) for text in texts)
    for doc in nlp.pipe(docs, batch_size=_BATCH):
        tokens = list(doc)
        stop = tokens.pop()
        # Should the full stop govern a word, that word takes the full stop's own governor.
        above = stop.head.i if stop.head.i != stop.i else None
        heads = [
            (above if above is not None else t.i) if t.head.i == stop.i else t.head.i
            for t in tokens
        ]
        yield "\t".join(
            (
                " ".join([t.tag_ for t in tokens]),
                " ".join([t.dep_ for t in tokens]),
                " ".join(map(str, heads)),
            )
        )


def decode(text: str, line: str) -> Parse:
    """Turn an encoded line back into a parse."""
    tags, labels, heads = line.split("\t")
    return Parse(
        tuple(text.split(" ")),
        tuple(tags.split(" ")),
        tuple(labels.split(" ")),
        tuple(map(int, heads.split(" "))),
    )


@lru_cache(maxsize=2)
def _load(path: str) -> Any:
    import spacy

    meta = json_object(Path(path) / "meta.json", "the description of a spaCy pipeline")
    pipeline = meta.get("pipeline")
    if not isinstance(pipeline, list):
        pipeline = []
    lacking = [part for part in ("tagger", "parser") if part not in pipeline]
    if lacking:
        raise MissingAsset(f"the spaCy pipeline {path} has no {' and no '.join(lacking)}.")
    for file in Path(path).rglob("*"):
        if not file.is_dir():
            regular(file)  # a device or a pipe would be read for ever
    with reading(path, "a spaCy pipeline"):
        return spacy.load(path, exclude=[str(p) for p in pipeline if p not in _NEEDED])


def locate(name: str) -> Path:
    """Find the folder of a parser: a name of ours, a folder, or an installed spaCy package."""
    if name in ASSETS:
        return _model_folder(assets.resolve(ASSETS[name], wanted_by="spice"))
    if Path(name).is_dir():
        return _model_folder(Path(name))
    spec = find_spec(name) if name.isidentifier() else None
    if spec is not None and spec.submodule_search_locations:
        return _model_folder(Path(spec.submodule_search_locations[0]))
    raise MissingAsset(
        f"spice: there is no parser {name!r}. Use {', '.join(map(repr, ASSETS))}, the folder of a "
        "spaCy English pipeline, or the name of an installed one (en_core_web_md)."
    )


def _model_folder(folder: Path) -> Path:
    """Return the folder with config.cfg: a package keeps it one level down."""
    for place in (folder, *sorted(p for p in folder.iterdir() if p.is_dir())):
        if (place / "config.cfg").is_file() and (place / "meta.json").is_file():
            return place
    raise MissingAsset(f"{folder} holds no spaCy pipeline (config.cfg and meta.json).")


@lru_cache(maxsize=8)
def _fingerprint(folder: Path) -> str:
    """Hash what decides a parse: the weights of the components that are used."""
    config = (folder / "config.cfg").read_bytes()
    digest = hashlib.sha256(config)
    if re.search(rb"include_static_vectors\s*=\s*true", config):  # then they are weights, too
        for name in ("vectors", "key2row"):
            if (folder / "vocab" / name).is_file():
                digest.update(assets.digest(folder / "vocab" / name).encode())
    for part in _NEEDED:
        for file in sorted((folder / part).glob("*")) if (folder / part).is_dir() else ():
            digest.update(assets.digest(file).encode())
    return digest.hexdigest()


def _cache_file(folder: Path) -> Path:
    from importlib.metadata import version

    spacy = ".".join(version("spacy").split(".")[:2])  # parsers change with minor versions
    return settings.get().cache_dir / "parses" / f"{_fingerprint(folder)[:16]}-spacy{spacy}.sqlite"
