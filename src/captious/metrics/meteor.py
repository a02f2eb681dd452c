"""METEOR 1.5 for English, as the COCO caption toolkit runs it, without Java.

A caption is aligned with each reference: equal words, equal stems, WordNet synonyms and
paraphrases of up to seven words may be matched, and the alignment with most matches and fewest
breaks is taken. With matches weighted by stage (exact 1, stem 0.6, synonym 0.8, paraphrase 0.6)
and content words counting three times as much as function words (delta = 0.75),

    P = weighted matches / weighted caption length,    R = the same of the reference,
    F = 1 / ((1 - alpha) / P + alpha / R),             alpha = 0.85,
    score = F (1 - gamma (chunks / matches) ** beta),  beta = 0.2, gamma = 0.6,

where a chunk is a run of matches that is contiguous on both sides. The best reference counts. The
corpus value is the formula applied to summed statistics; it is not the mean of the captions.

Denkowski and Lavie (2014), Meteor Universal. The text is PTB tokenised and then normalised again
by METEOR itself (``-norm``), which splits hyphenated words.

Scores equal those of ``meteor-1.5.jar -l en -norm`` in every digit that was compared, including its
peculiarities: words are compared by a 32-bit hash; weights are truncated to integers while
searching, so that a stem or synonym match that has a rival is often passed over (``the cats are
sleeping`` against ``a cat sleeps`` scores 0).

A few sentences are aligned in plain Python; more by machine code, which numba compiles in about
ten seconds the first time on a machine and which is kept on disk after that.

A caption with more than four million ways to match its words with those of its references (one word
2,000 times on both sides) is not scored; the reference program needs hours for it.

Known deviation: ``|||`` is removed from references too (the toolkit only removes it from captions,
and a reference with it breaks its protocol).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious import errors, settings
from captious.metrics._meteor import align as aligner
from captious.metrics.base import Column, Explanation, Metric, Stats
from captious.text import tokenizers
from captious.types import Alignment, CaptionSet, Floats, Link, Sample, WorkKey

STAGES = ("exact", "stem", "synonym", "paraphrase")
_WEIGHTS = aligner.WEIGHTS
_ALPHA, _BETA, _GAMMA, _DELTA = (
    aligner.ALPHA, aligner.BETA, aligner.GAMMA, aligner.DELTA,
)  # fmt: skip
_WORTH_A_THREAD = 2000  # captions below which starting threads costs more than it gains
_PIECE = 4000  # captions whose statistics with every reference are held at a time


@dataclass(frozen=True)
class Meteor(Metric):
    """METEOR 1.5: alignment by words, stems, synonyms and paraphrases.

    Statistics of a row are the 23 numbers of the reference program for the best reference (lengths,
    function words, matches by stage, side and kind, chunks, matched words), then the chunks that
    count: none where both sides are matched completely in one piece.

    Args:
        paraphrase: use the paraphrase table, as the toolkit does (an index of 52 MB in the cache).
        tokenizer: applied before METEOR's own normaliser.
        tables: the METEOR 1.5 folder or jar, if not that of the installed pycocoevalcap.
    """

    paraphrase: bool = True
    tokenizer: str = "ptb"
    tables: str | None = None

    name: ClassVar[str] = "meteor"
    columns: ClassVar[tuple[Column, ...]] = (
        Column("meteor", 0.0, 1.0, "aligned words (also stems, synonyms, paraphrases), in order"),
    )
    modules: ClassVar[dict[str, str]] = {"numba": "meteor"}
    identity: ClassVar[float | None] = 1.0

    @property
    def assets(self) -> tuple[str, ...]:
        """The word tables, and the paraphrase table if it is used."""
        if self.tables is not None:
            return ()
        return ("meteor-tables", "meteor-paraphrases") if self.paraphrase else ("meteor-tables",)

    def missing(self) -> list[errors.CaptiousError]:
        """Add what the folder that the user named lacks."""
        from captious.text import paraphrase, synsets

        lacking = super().missing()
        if self.tables is not None:
            for locate in (synsets.locate, paraphrase.locate)[: 1 + self.paraphrase]:
                try:
                    locate(self.tables)
                except errors.MissingAsset as err:
                    lacking.append(err)
        return lacking

    def stats(self, samples: CaptionSet, context: Any) -> Stats:
        """Return the statistics of every caption against its best reference."""
        self._check()
        long = np.diff(self._lexicon(samples).offsets) > aligner.LONGEST
        skip = long[samples.caption]
        skip[samples.reference_rows[long[samples.reference]]] = True
        reasons = {
            i: f"a text of more than {aligner.LONGEST:,} words" if skip[i] else "no references"
            for i in np.flatnonzero(skip | (samples.reference_counts == 0)).tolist()
        }
        rows = np.full((len(samples), aligner.STATISTICS), np.nan)
        take = np.flatnonzero(~skip)
        rows[take], best = self._align(samples.take(take) if skip.any() else samples)
        for i in take[best < 0].tolist():
            reasons[i] = (
                f"more than {aligner.MOST:,} ways to match single words with its references "
                "(the same words over and over)"
            )
        return Stats(rows, reasons)

    def scores(self, rows: Floats) -> Floats:
        """Return METEOR of each row."""
        return _formula(rows)["score"][..., None]

    def corpus(self, totals: Floats, counts: Floats) -> Floats:
        """Return METEOR of summed statistics."""
        return self.scores(totals)

    def signature_parts(self, context: Any) -> dict[str, str]:
        """Name the tokeniser and the tables by their content."""
        words, phrases = self._tables()
        parts = {"tokenizer": tokenizers.get(self.tokenizer).signature, "norm": "en-1.5"}
        parts["tables"] = words.fingerprint
        if phrases is not None:
            parts["paraphrase"] = phrases.fingerprint
        return parts

    def explain(self, sample: Sample, context: Any) -> Explanation:
        """Show which words matched, by which stage, and how the score follows."""
        self._check()
        if not sample.references:
            raise errors.InputError(f"{sample.id}: METEOR needs references to explain a caption")
        samples = CaptionSet.of([sample])
        rows, best = self._align(samples)
        if best[0] < 0:
            raise errors.InputError(f"{sample.id}: too many ways to match its words")
        lexicon = self._lexicon(samples)
        pair = samples.caption.astype(np.int64), samples.reference[best].astype(np.int64)
        code = aligner.kernels.if_worth(0)
        matches = aligner.statistics(lexicon.arrays, *pair, np.arange(2), code)[2]
        caption, reference = (lexicon.sentence(int(side[0])) for side in pair)
        listed = [
            {
                "stage": STAGES[stage],
                "caption": [other, other + other_length],
                "reference": [start, start + length],
                "caption_words": " ".join(caption[other : other + other_length]),
                "reference_words": " ".join(reference[start : start + length]),
            }
            for start, length, other, other_length, stage in matches
        ]
        parts = {name: float(value) for name, value in _formula(rows[0]).items()}
        data = {
            **parts,
            "best_reference": int(best[0]),
            "chunks": int(rows[0, 20]),
            "caption": caption,
            "reference": reference,
            "matches": listed,
        }
        links = tuple(
            Link((other, other + other_length), (start, start + length), STAGES[stage])
            for start, length, other, other_length, stage in matches
        )
        title = "METEOR alignment: caption above, reference below"
        drawn = Alignment(title, tuple(caption), tuple(reference), links)
        return Explanation(_sentence(data), data, (drawn,))

    # -- the work ----------------------------------------------------------------------------

    def _check(self) -> None:
        for problem in self.missing():
            raise problem

    def _tables(self) -> tuple[Any, Any]:
        from captious.text.paraphrase import Paraphrases
        from captious.text.synsets import WordTables

        phrases = Paraphrases.open(self.tables) if self.paraphrase else None
        return WordTables.open(self.tables), phrases

    def _lexicon(self, samples: CaptionSet) -> Any:
        from captious.metrics._meteor import words as _words

        return samples.pool.derived(
            WorkKey[Any]("meteor", (self,)),
            lambda: _words.build(samples.pool, self.tokenizer, *self._tables()),
        )

    def _align(self, samples: CaptionSet) -> tuple[Floats, Any]:
        """Return statistics and the best reference of every caption, -1 if it is too much work."""
        lexicon = self._lexicon(samples)
        n = len(samples)
        captions, references, bounds = (
            np.ascontiguousarray(column, dtype=np.int64)
            for column in (samples.caption, samples.reference, samples.offsets)
        )
        lengths = np.diff(lexicon.offsets)
        work = int(lengths[captions[samples.reference_rows]] @ lengths[references])
        code = aligner.kernels.if_worth(work)
        rows = np.full((n, aligner.STATISTICS), np.nan)
        best = np.zeros(n, np.int64)

        def part(start: int, end: int) -> None:
            pairs, refused, _ = aligner.statistics(
                lexicon.arrays, captions[start:end], references, bounds[start : end + 1], code
            )
            has = np.flatnonzero(bounds[start:end] < bounds[start + 1 : end + 1])
            if not len(has):
                return
            begins = bounds[start:end][has] - bounds[start]
            values = aligner.scores(pairs)
            counts = np.diff(begins, append=len(values))
            highest = np.flatnonzero(
                values == np.repeat(np.maximum.reduceat(values, begins), counts)
            )
            first = highest[np.searchsorted(highest, begins)]
            rows[start + has], best[start + has] = pairs[first], first - begins
            rows[start:end][refused > 0], best[start:end][refused > 0] = np.nan, -1

        workers = max(1, min(settings.get().threads, n // _WORTH_A_THREAD))
        pieces = max(4 * workers if workers > 1 else 1, -(-n // _PIECE))
        cuts = np.linspace(0, n, pieces + 1).astype(int).tolist()
        if workers == 1:
            for cut in range(pieces):
                part(cuts[cut], cuts[cut + 1])
        else:
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(part, cuts, cuts[1:]))
        return rows, best


def _formula(rows: Floats) -> dict[str, Floats]:
    """Compute the score and what leads to it from statistics, whether of a caption or summed."""
    lengths = [
        _DELTA * (rows[..., s] - rows[..., s + 2]) + (1 - _DELTA) * rows[..., s + 2] for s in (0, 1)
    ]
    matches = [
        sum(
            rows[..., 4 + 4 * stage + side] * weight * _DELTA
            + rows[..., 6 + 4 * stage + side] * weight * (1 - _DELTA)
            for stage, weight in enumerate(_WEIGHTS)
        )
        for side in (0, 1)
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = (np.asarray(m / n) for m, n in zip(matches, lengths, strict=True))
        mean = 1.0 / ((1.0 - _ALPHA) / precision + _ALPHA / recall)
        penalty = _GAMMA * (rows[..., 23] / ((rows[..., 21] + rows[..., 22]) / 2.0)) ** _BETA
        score = np.maximum(mean * (1.0 - penalty), 0.0)
    # Nothing matched, or an empty side: 0. A row that could not be scored stays NaN.
    nothing = (np.asarray(matches[0]) == 0.0) | (np.asarray(matches[1]) == 0.0)
    values = {
        "score": score,
        "precision": precision,
        "recall": recall,
        "mean": mean,
        "penalty": penalty,
    }
    return {name: np.where(nothing, 0.0, value) for name, value in values.items()}


def _sentence(data: dict[str, Any]) -> str:
    """Say an alignment in words."""
    lines = [
        f"METEOR {data['score']:.4f} with reference {data['best_reference'] + 1}: "
        + " ".join(data["reference"])
    ]
    for stage in STAGES:
        pairs = [
            (m["caption_words"], m["reference_words"])
            for m in data["matches"]
            if m["stage"] == stage
        ]
        if pairs:
            told = ", ".join(a if a == b else f"{a} = {b}" for a, b in pairs)
            lines.append(f"  {stage + ':':<11} {told}")
    covered = {i for m in data["matches"] for i in range(*m["caption"])}
    loose = [w for i, w in enumerate(data["caption"]) if i not in covered]
    if loose:
        lines.append(f"  {'unmatched:':<11} {', '.join(loose)}")
    chunks = f"{data['chunks']} chunk{'' if data['chunks'] == 1 else 's'}"
    lines.append(
        f"  precision {data['precision']:.4f}, recall {data['recall']:.4f}, "
        f"mean {data['mean']:.4f}, {chunks}: penalty {data['penalty']:.4f}"
    )
    return "\n".join(lines)
