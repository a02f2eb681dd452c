"""Score the demo's captions with the original tools and write tests/golden/classic/demo.json.

    python benchmarks/demo_golden.py

The texts are our own, so the golden can be committed: every caption of the demo against the
references of its own photograph and of the four that follow, 210 rows, scored by pycocoevalcap 1.2
(its tokeniser and METEOR run on Java).
"""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version
from pathlib import Path

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from captious import demo

TARGET = Path(__file__).parents[1] / "tests/golden/classic/demo.json"
SHIFTS = 5


def rows() -> list[dict[str, object]]:
    """Return the captions, each with the references of several photographs."""
    references = json.loads(demo.references_file().read_text())
    captions = [json.loads(line) for line in demo.captions_file().read_text().splitlines()]
    names = list(references)
    out = []
    for one in captions:
        at = names.index(one["image"])
        for shift in range(SHIFTS):
            refs = references[names[(at + shift) % len(names)]]
            out.append({"caption": one["caption"], "references": refs})
    return out


def main() -> None:
    made = rows()
    tokenizer = PTBTokenizer()
    res = tokenizer.tokenize({i: [{"caption": r["caption"]}] for i, r in enumerate(made)})
    gts = tokenizer.tokenize(
        {i: [{"caption": t} for t in r["references"]] for i, r in enumerate(made)}
    )
    found: dict[str, list[float]] = {}
    corpus: dict[str, float] = {}
    for scorer, names in (
        (Bleu(4), ["bleu_1", "bleu_2", "bleu_3", "bleu_4"]),
        (Rouge(), ["rouge_l"]),
        (Cider(), ["cider_d"]),
        (Meteor(), ["meteor"]),
    ):
        whole, single = scorer.compute_score(gts, res)
        if len(names) == 1:
            whole, single = [whole], [single]
        for name, value, values in zip(names, whole, single, strict=True):
            corpus[name], found[name] = float(value), [float(v) for v in values]
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    whole_file = {
        "made_by": "python benchmarks/demo_golden.py",
        "pycocoevalcap": version("pycocoevalcap"),
        "java": java.stderr.splitlines()[0],
        "remark": "cider_d: every row is a document (by='row')",
        "rows": made,
        "tokens": {"captions": [res[i][0] for i in range(len(made))]},
        "corpus": corpus,
        "values": found,
    }
    TARGET.write_text(json.dumps(whole_file, indent=1, ensure_ascii=False) + "\n")
    print(f"wrote {TARGET}: {len(made)} rows, {', '.join(found)}")


if __name__ == "__main__":
    main()
