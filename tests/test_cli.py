"""The command line, as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from captious.cli import main, verbs


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
        assert run(capsys, "score", files[0], "-r", files[1], "-o", out)[0] == 0
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


def test_bad_input_writes_nothing(capsys, files, tmp_path):
    files[0].write_text('[{"image_id": 1, "caption": 3}, {"image_id": 5, "caption": "x"}]')
    code, _, err = run(capsys, "score", files[0], "-r", files[1], "-o", tmp_path / "o.json")
    assert code == 3
    assert "2 problems" in err
    assert "entry 1" in err
    assert "'5'" in err
    assert not (tmp_path / "o.json").exists()


def test_tokenize(capsys, tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("A man's hat.\nIt isn't (red).\n")
    assert run(capsys, "tokenize", path)[1] == "a man 's hat\nit is n't -lrb- red -rrb-\n"
    assert "ptb-3.4.1" in run(capsys, "tokenize", "--list")[1]


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
    assert "df-coco-val" in out


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
