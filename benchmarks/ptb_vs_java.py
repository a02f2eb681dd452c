"""PTB tokens: ours against the Java tool of pycocoevalcap, on captions and on made-up strings.

Needs Java and the package pycocoevalcap (its wheel carries the jar). Run:

    python benchmarks/ptb_vs_java.py --data ../shared/data [--fuzz 50000] [--seed 0] [--show 10]

The Java tool is run as the toolkit runs it: one caption per line in a file, one process. Because
it looks into the next line ("... the letter P." loses its dot when a line with "A ..." follows),
captions are compared twice: in their files, and each with a line behind it that tells nothing. A
line separator other than a newline makes Java lose step, so such characters are replaced first.
Speed: the same captions, process start included on both sides, best of three, in seconds of
processor time (all threads) and of the clock.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from captious.text import ptb

BARRIER = "b\"'b"  # no capital, and quotes: an open <a href="... would run on over many lines
SEPARATORS = "\n\r\x0b\x0c\x85\u2028\u2029"
# Strings put into captions, one space or line end between them.
_SPICES = """\
. .. ... .... ..... ...... . . . . . ? ! ?! !!! , ; : - -- --- ---- ----- _ / \\ | * ** \\* # ## $
% ^ & @ ~ ` `` ' '' " = + < > << >> ( ) [ ] { } -LRB- -rrb- (red) [x] {y} 's 'S 'm 'd 're 've 'll
n't N'T 't 'tis 'twas 'em 'til 'till 'cause ol' y'all o'clock rock'n'roll 'n' cont'd. c'mon 90's
'90s '90 '08 I'm isn't cannot gonna gotta lemme wanna dunno don'ts O'Neil d'Arc l'eau man's-eye
boys' boss's women's
Mr. Mrs. Dr. St. Ave. vs. etc. e.g. i.e. U.S. U.S.A. u.s U.K. a.m. p.m. Ph.D. Ed.D. Jr. Sr. Inc.
Corp. Co. Ltd. No. no. nos. fig. art. pp. Jan. Sept. Mon. Calif. Pa. pa. Del. Pty. Ltd Wash. J. K.
non-U.S. U.S.-U.K. C.D.s S&P-500 AT&T R&B A+B Q&amp;A &amp; &AMP; &lt; &gt; &quot; &apos; &nbsp;
&mdash; &ndash; &eacute; caf&eacute; &#39; &HT;
$5 $5.99 US$5 A$ #1 #tag #Tag2 @name @Name_1 5% 50% 1/2 2 1/2 3 3/4 10-1/2 1\\/2 24/7 1/2/2020
12-31-99 10:30 10:30am 1,000 1,000.50 .5 -5 +3 1.5.6 2-3 10-year-old (555) 555-1234 555-1234 +1
555 555 1234 800.555.1234 20th 1990s 5' 6" 5'6" 3D 4x4 c++ C# f# a/b and/or w/ w/o b/w man.a
man,woman man;woman black-and-white t-shirt self- -ish x-ray
http://a.com http://www.a.com/b?c=d&e=f. https://x.y/(z) www.test.co.uk/path, test.com foo@bar.com
<foo@bar.com> a.b@c.d-e.org, photo.jpg image.png. file.txt x.c <b> </b> <br/> <a href="x y">z</a>
<!-- c --> <?xml v> <3 :) :-) ;-( =D :P :o) <:) ^_^ (^_^) x_x -_- T_T (-_-) :/
\u201cquoted\u201d \u2018single\u2019 it\u2019s don\u2019t \u2019em \u2019n\u2019 y\u2019all
\u00abx\u00bb \u201elow\u201c \u2039 \u203a \u201b \u201a \u2013 \u2014 \u2015 \u2010 \u2011
\u2212 \u2026 \x85 \x91a\x92 \x93b\x94 \x96 \x97 \u00a3 \u00a35 \u20ac \u20ac5 \u00a2 99\u00a2
\u00a5 \u20b9 \xbd \xbc \xbe \u2153 \u2154 \u215b 2\xbd \xb2 x\xb2 H\u2082O \u207b\xb9 \xb0 45\xb0
\xae \u2122 \xa9 \xd7 \xf7 \xb1 \xa7 \xb6 \u2022 \u2020 \xb5
caf\xe9 na\xefve \xc9cole \xfcber e\u0301 \u0130stanbul \u0131 \u017ft \u212a \u03a3\u03a3
\u03a3\u0391\u03a3 \u0436\u0443\u043a \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627
\u0665\u0666 \u0661/\u0662 \u061f \u060c \u4e2d\u6587 \u3002 \u3001 \u732b\u3001\u72ac
\u65e5\u672c\u8a9e \u30c6\u30b9\u30c8 \ud55c\uad6d\uc5b4 \u0939\u093f\u0928\u094d\u0926\u0940
\u0e20\u0e32\u0e29\u0e32 \uff21\uff11\uff01 \u3012
\U0001f600 a\U0001f600b \U0001f468\u200d\U0001f469 \u2764\ufe0f \U0001d400 \U00010400 \u00ad
co\u00adop \u200b \u200e \ufeff \u2009 \u00a0 a\u00a0b 2\u00a01/2 \u3000 \x00 \x01 \x07 \x1b \x1f
\x7f \t a\tb \u202a \ufffd \ue000 \u1885 \u10d0 \u13a0 \uab70 \u1c90 \u0527 \u0528"""
SPICES = _SPICES.replace("\n", " ").split(" ")
ODD = sorted({c for spice in SPICES for c in spice})
ALPHABET = ODD + list(" .'-,\"()/&$0123456789 abstnAIUS") * 3


def captions(data: Path) -> Iterator[tuple[str, list[str]]]:
    """Every caption of the data folder, set by set."""
    import pyarrow.parquet as pq

    for path in sorted(data.glob("**/*.parquet")):
        table = pq.read_table(path)
        found: list[str] = []
        for name in table.column_names:
            column = table.column(name).to_pylist()
            if name in ("captions", "references"):
                found += [text for texts in column for text in texts]
            elif column and isinstance(column[0], str) and name not in ("image", "split"):
                found += [text for text in column if text]
        if found:
            yield path.stem, found
    pascal: list[str] = []
    for path in sorted(data.glob("pascal50s/*.json")):
        pascal += [text for text in strings(json.loads(path.read_text())) if " " in text]
    yield "pascal50s", pascal
    for path in sorted(data.glob("flickr8k/*.token.txt")):
        lines = path.read_text(encoding="utf-8").split("\n")
        yield "flickr8k", [line.split("\t")[1] for line in lines if "\t" in line]


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from strings(part)


def java_command(file: str) -> list[str]:
    spec = importlib.util.find_spec("pycocoevalcap")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("this comparison needs the package pycocoevalcap (and Java)")
    jar = Path(spec.submodule_search_locations[0]) / "tokenizer" / "stanford-corenlp-3.4.1.jar"
    tool = "edu.stanford.nlp.process.PTBTokenizer"
    return ["java", "-cp", str(jar), tool, "-preserveLines", "-lowerCase", file]


def java(lines: list[str]) -> list[str]:
    """The output lines of the Java tool for a file of these lines."""
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write("\n".join(lines).encode("utf-8"))
        file.flush()
        done = subprocess.run(java_command(file.name), capture_output=True, check=True)
    return done.stdout.decode("utf-8").split("\n")


def java_alone(texts: list[str]) -> list[str]:
    """The same for every text with a line behind it that ends whatever the text began."""
    return java([line for text in texts for line in (text, BARRIER)])[0 : 2 * len(texts) : 2]


def toolkit(line: str) -> list[str]:
    """What the toolkit's scorers see of an output line."""
    return " ".join(w for w in line.rstrip().split(" ") if w not in ptb.PUNCTUATION).split()


def made_up(base: list[str], count: int, seed: int) -> list[str]:
    """Captions with words replaced, glued and broken, and strings of odd characters."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        if number % 4 == 3:
            text = "".join(rng.choices(ALPHABET, k=rng.randint(1, 24)))
        else:
            words = rng.choice(base).split(" ")[: rng.randint(1, 10)]
            for _ in range(rng.randint(1, 5)):
                at = rng.randrange(len(words) + 1)
                spice = rng.choice(SPICES)
                if rng.random() < 0.2:
                    spice = rng.choice([str.upper, str.title, str.lower])(spice)
                words[at:at] = [spice]
                if rng.random() < 0.4:
                    at = min(at, len(words) - 2) if len(words) > 1 else 0
                    words[at : at + 2] = ["".join(words[at : at + 2])]
            text = " ".join(words)
            if rng.random() < 0.3 and text:
                at = rng.randrange(len(text))
                text = text[:at] + rng.choice(ALPHABET) + text[at + rng.randint(0, 1) :]
        made.append("".join(" " if c in SEPARATORS else c for c in text))
    return made


def report(
    name: str, texts: list[str], ours: list[list[str]], theirs: list[list[str]], show: int
) -> None:
    bad = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    equal = len(texts) - len(bad)
    rate = 100 * equal / max(1, len(texts))
    print(f"{name:36} {equal:>8} of {len(texts):>8} equal ({rate:.4f} %)", flush=True)
    for i in bad[:show]:
        print(f"   {texts[i]!r}\n     ours {ours[i]}\n     java {theirs[i]}")


def compare_captions(data: Path, show: int) -> list[str]:
    everything: list[str] = []
    for name, texts in captions(data):
        lines = [text.translate(dict.fromkeys(map(ord, SEPARATORS), " ")) for text in texts]
        ours = [ptb.tokenize(text) for text in lines]
        theirs = [toolkit(line) for line in java(lines)[: len(lines)]]
        report(f"{name}, in the file", lines, ours, theirs, show)
        theirs = [toolkit(line) for line in java_alone(lines)]
        report(f"{name}, alone", lines, ours, theirs, show)
        everything += lines
    return everything


def compare_made_up(base: list[str], count: int, seed: int, show: int) -> None:
    texts = made_up(base, count, seed)
    answers = [line.split(" ") if line else [] for line in java_alone(texts)]
    raw = [trimmed(ptb.raw_tokenize(text)) for text in texts]
    report(f"made-up, raw (seed {seed})", texts, raw, [trimmed(a) for a in answers], show)
    scored = [toolkit(" ".join(answer)) for answer in answers]
    report(f"made-up, scored (seed {seed})", texts, [ptb.tokenize(t) for t in texts], scored, show)


def trimmed(tokens: list[str]) -> list[str]:
    """Without the doubled dot of a final abbreviation, which depends on the next line."""
    last = len(tokens) - 1
    return tokens[:last] if last and tokens[last:] == ["."] and tokens[-2][-1:] == "." else tokens


def cost(command: list[str]) -> tuple[float, float]:
    """Processor seconds and clock seconds of a command."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {command}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - begin


def speed(lines: list[str]) -> None:
    code = (
        "import sys\nfrom captious.text.ptb import tokenize\n"
        "for line in open(sys.argv[1], encoding='utf-8'): tokenize(line)\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(lines))
        file.flush()
        runs = [
            (cost([sys.executable, "-c", code, file.name]), cost(java_command(file.name)))
            for _ in range(3)
        ]
    warm = min(timed(lines) for _ in range(3))
    for kind, name in enumerate(("processor", "clock")):
        ours, theirs = (min(run[side][kind] for run in runs) for side in (0, 1))
        print(
            f"{len(lines)} captions, {name} seconds with process start: ours {ours:.2f}, "
            f"Java {theirs:.2f}, ratio {theirs / ours:.2f}"
        )
    print(f"warm: {1e6 * warm / len(lines):.2f} microseconds a caption")


def timed(lines: list[str]) -> float:
    begin = time.process_time()
    for line in lines:
        ptb.tokenize(line)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--fuzz", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=10)
    parser.add_argument("--captions", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--write", type=Path, help="write Java's answers to made-up strings here")
    given = parser.parse_args()
    base = ["a man rides a brown horse on the beach .", "Two dogs play with a ball in the snow."]
    if given.write:
        texts = sorted(set(made_up(base, given.fuzz, given.seed)))
        pairs = [[text, answer] for text, answer in zip(texts, java_alone(texts), strict=True)]
        given.write.write_text(json.dumps(pairs, indent=0), encoding="utf-8")
        return
    if given.data.exists() and given.captions:
        base = compare_captions(given.data, given.show)
        speed(base[:243_000])
    compare_made_up(base, given.fuzz, given.seed, given.show)


if __name__ == "__main__":
    main()
