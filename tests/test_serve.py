"""The service: real requests over real sockets, and its rules one by one."""

from __future__ import annotations

import base64
import http.client
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import captious
from captious import demo
from captious.errors import CaptiousError, InputError, UsageError
from captious.serve.batching import Batcher, Batchers, Call
from captious.serve.limits import Busy, Limits, check_metrics

CAPTIONS = ["a dog runs on the beach", "two men play chess", "a red bus"]
REFERENCES = [["a dog is running on a beach", "the dog runs"], ["two men playing chess"], ["a bus"]]
CLASSIC = ["bleu", "rouge_l", "cider_d"]


def started(*options: str, env: dict | None = None) -> tuple[subprocess.Popen, str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "captious", "serve", "--port", "0", *options],
        stderr=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_DATA_HOME": tempfile.mkdtemp(), **(env or {})},
    )  # fmt: skip
    for line in server.stderr:  # remarks may come first
        if "listening on" in line:
            break
    else:
        raise AssertionError(f"the service ended with {server.wait()}")
    return server, line.split("listening on ")[1].split()[0]


def stopped(server: subprocess.Popen) -> tuple[int, str]:
    server.terminate()
    said = server.communicate(timeout=300)[1]
    return server.returncode, said


@pytest.fixture(scope="module")
def url():
    server, address = started("--api-only", "-m", ",".join(CLASSIC))
    yield address
    code, said = stopped(server)
    assert code == 0
    assert "Traceback" not in said


def ask(url: str, method: str, path: str, body: bytes | None = None, **headers: str):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, {"content-type": "application/json", **named})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def test_the_client_gives_what_a_scorer_gives(url):
    ours = captious.scorer(CLASSIC)(CAPTIONS, REFERENCES)
    client = pickle.loads(pickle.dumps(captious.Client(url, CLASSIC)))
    theirs = client(CAPTIONS, REFERENCES)
    assert list(theirs.per_caption) == list(ours.per_caption)
    for column, values in ours.per_caption.items():
        np.testing.assert_array_equal(theirs[column], values)
    assert theirs.corpus == {k: float(v) for k, v in ours.corpus.items()}
    assert theirs.signatures == ours.signatures
    by_id = client({"7": CAPTIONS[0], "x": CAPTIONS[1]}, {"7": REFERENCES[0], "x": REFERENCES[1]})
    assert by_id.ids == ["7", "x"]
    np.testing.assert_array_equal(by_id["cider_d"], ours["cider_d"][:2])
    alone = client(CAPTIONS[0], REFERENCES[0])
    assert alone["cider_d"][0] == ours["cider_d"][0]


def test_corpus_values_over_several_requests(url, monkeypatch):
    captions, references = CAPTIONS * 3, [*REFERENCES * 3]
    references[1] = []
    ours = captious.scorer(CLASSIC)(captions, references)
    monkeypatch.setattr("captious.serve.client.PART", 4)
    theirs = captious.Client(url, CLASSIC)(captions, references)
    assert len(theirs) == len(captions) > 4
    assert list(theirs.corpus) == list(ours.corpus)
    for column, value in ours.corpus.items():
        assert theirs.corpus[column] == pytest.approx(value, abs=1e-12)
        np.testing.assert_array_equal(theirs[column], ours[column])
    assert {u.id for u in theirs.unscored} == {"1"}
    assert theirs.unscored == ours.unscored
    with pytest.raises(UsageError, match="count each request's references for itself"):
        captious.Client(url, CLASSIC, df="corpus")(captions, references)
    with pytest.raises(InputError, match="diversity: corpus facts would be counted in each"):
        captious.Client(url, ["diversity"])(captions, references)
    body = json.dumps({"metrics": ["bleu"], "sums": [{"totals": [1.0, 2.0], "count": 3}]})
    answer, content = ask(url, "POST", "/corpus", body.encode())
    assert answer.status == 422
    assert b"not the sums of bleu" in content


def test_a_photograph_travels(url):
    photo = demo.folder() / "photos" / "astronaut.jpg"
    if not photo.exists():
        photo = next((demo.folder() / "photos").iterdir())
    client = captious.Client(url, ["vifidel"])
    ours = captious.scorer("vifidel")(["a person"], [["a person in a suit"]], images=[photo])
    theirs = client(["a person"], [["a person in a suit"]], images=[photo])
    np.testing.assert_allclose(theirs["vifidel"], ours["vifidel"])
    told = client.explain("a person", ["a person in a suit"], image=photo.read_bytes())
    assert [t["metric"] for t in told["explanations"]] == ["VIFIDEL"]
    assert told["explanations"][0]["parts"]


def test_bad_input_names_the_index_and_the_remedy(url):
    client = captious.Client(url, CLASSIC)
    with pytest.raises(InputError, match=r"captions\[1\]"):
        client(["a", 3], [["a"], ["b"]])
    with pytest.raises(InputError, match="needs references"):
        client(["a dog"])
    with pytest.raises(UsageError, match="Did you mean 'bleu'"):
        captious.Client(url, ["blue"])(["a"], [["b"]])
    with pytest.raises(UsageError, match="names a file"):
        captious.Client(url, ["cider_d(df='/etc/passwd')"])(["a"], [["b"]])
    with pytest.raises(InputError, match=r"images\[0\]"):
        captious.Client(url, ["vifidel"])(["a"], [["b"]], images=[b"no picture"])
    partly = client(["a dog", "a cat"], [["a dog"], []])
    assert next((u.id, u.reason) for u in partly.unscored) == ("1", "it has no reference")
    assert partly["rouge_l"][0] == 1
    with pytest.raises(CaptiousError, match="does not answer"):
        captious.Client("http://127.0.0.1:9", seconds=2)(["a"], [["b"]])
    with pytest.raises(UsageError, match="http://HOST:PORT"):
        captious.Client("127.0.0.1")


def test_every_answer_has_its_headers_and_no_stack_trace(url):
    for method, path, body in (
        ("GET", "/health", None),
        ("GET", "/nowhere", None),
        ("POST", "/score", b"{"),
        ("POST", "/score", b"[" * 100_000),
        ("POST", "/score", b'{"captions": ["\\ud800"], "references": [["a"]]}'),
        ("POST", "/score", b'{"captions": ["a"], "references": [["a"]], "more": 1}'),
        ("PUT", "/score", b"{}"),
    ):
        answer, content = ask(url, method, path, body)
        assert answer.status < 500, (path, content)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert b"Traceback" not in content
        assert b".py" not in content
        if answer.status != 200:
            assert set(json.loads(content)) == {"error", "problems"}


def test_other_sites_and_other_names_are_refused(url):
    body = json.dumps({"captions": ["a"], "references": [["a"]]}).encode()
    assert ask(url, "POST", "/score", body)[0].status == 200
    assert ask(url, "POST", "/score", body, origin="https://evil.example")[0].status == 403
    assert ask(url, "POST", "/score", body, origin=url)[0].status == 200
    assert ask(url, "GET", "/health", host="evil.example")[0].status == 421


def test_a_body_beyond_the_limit_is_refused(url):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)
    connection.putrequest("POST", "/score")
    connection.putheader("content-length", str(10**9))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
    many = json.dumps({"captions": ["a"] * 10_001, "references": [["a"]] * 10_001}).encode()
    answer, content = ask(url, "POST", "/score", many)
    assert answer.status == 422
    assert "at most 10000" in json.loads(content)["error"]


def test_health_metrics_and_list(url):
    health = json.loads(ask(url, "GET", "/health")[1])
    assert health["status"] == "ok"
    text = ask(url, "GET", "/metrics")[1].decode()
    assert 'captious_requests_total{path="/health",status="200"}' in text
    assert "captious_batch_captions_bucket" in text
    listed = {m["name"]: m for m in json.loads(ask(url, "GET", "/metrics-list")[1])}
    assert set(listed) == set(captious.metrics())
    assert listed["bleu"]["needs"] == ["references"]
    assert next(c["name"] for c in listed["bleu"]["columns"]) == "bleu_1"


def test_parallel_requests_are_batched_and_right(url):
    expected = captious.scorer(CLASSIC)(CAPTIONS, REFERENCES)
    wrong: list[str] = []

    def work(number: int) -> None:
        client = captious.Client(url, CLASSIC)
        for i in range(30):
            at = (number + i) % 3
            scores = client([CAPTIONS[at]], [REFERENCES[at]])
            wrong.extend(
                c for c in expected.per_caption if scores[c][0] != expected.per_caption[c][at]
            )

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    text = ask(url, "GET", "/metrics")[1].decode().splitlines()
    alone = next(t for t in text if t.startswith('captious_batch_requests_bucket{le="1.0"}'))
    batches = next(t for t in text if t.startswith("captious_batch_requests_count"))
    assert float(alone.split()[1]) < float(batches.split()[1])  # some batches held several


LET = threading.Event()


def slow(caption: str, references: list[str]) -> float:
    LET.wait(300)
    if caption == "spoil":
        raise InputError("captions[0]: spoilt")
    return float(len(caption))


def call(*captions: str) -> Call:
    n = len(captions)
    return Call(captions, [["a"]] * n, [None] * n, [None] * n)


def test_too_much_waiting_is_refused_and_one_bad_request_harms_no_other():
    LET.clear()  # nothing is answered before all have asked, however slow the machine
    batcher = Batcher(captious.scorer([slow]), Limits(waiting=4))
    first = batcher.submit(call("a"))
    others = [batcher.submit(call("aa")), batcher.submit(call("spoil")), batcher.submit(call("b"))]
    with pytest.raises(Busy, match="try again"):
        batcher.submit(call("c", "d"))
    LET.set()
    assert first.result(300)["slow"][0] == 1
    assert others[0].result(300)["slow"][0] == 2
    with pytest.raises(InputError, match="spoilt"):
        others[1].result(300)
    assert others[2].result(300)["slow"][0] == 1
    batcher.close()
    with pytest.raises(CaptiousError, match="stopped"):
        batcher.submit(call("e"))


def test_numbers_that_depend_on_the_call_are_never_batched():
    sizes: list[int] = []
    batchers = Batchers(Limits(), lambda requests, captions: sizes.append(requests))
    pairs = [(0, 1), (1, 2), (0, 2)]
    futures = [
        batchers.submit(
            ["cider_d"],
            "corpus",
            Call(
                [CAPTIONS[a], CAPTIONS[b]], [REFERENCES[a], REFERENCES[b]], [None] * 2, [None] * 2
            ),
        )
        for a, b in pairs
    ]
    for future, (a, b) in zip(futures, pairs, strict=True):
        alone = captious.scorer("cider_d", df="corpus")(
            [CAPTIONS[a], CAPTIONS[b]], [REFERENCES[a], REFERENCES[b]]
        )
        np.testing.assert_array_equal(future.result(9)["cider_d"], alone["cider_d"])
    assert set(sizes) == {1}
    batchers.close()


def test_prepared_scorers_are_bounded():
    batchers = Batchers(Limits(prepared=2))
    for metrics in (["bleu"], ["rouge_l"], ["bleu", "rouge_l"]):
        asked = Call(["a dog"], [["a dog"]], [None], [None])
        assert batchers.submit(metrics, "coco-val", asked).result(9)[metrics[-1] + (
            "_1" if metrics[-1] == "bleu" else "")][0] > 0.9  # fmt: skip
    assert batchers.ready(["bleu"], "coco-val") is None
    assert batchers.ready(["rouge_l"], "coco-val") is not None
    batchers.close()


@pytest.mark.parametrize(
    "value", ["/etc/passwd", "../x", "weights.npz", "~/x", "a\\b", "pyproject"]
)
def test_callers_name_no_files(value, tmp_path, monkeypatch):
    (tmp_path / "pyproject").write_text("x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="names a file"):
        check_metrics((f"cider_d(df={value!r})",), 40, None)
    check_metrics(("cider_d(df='coco-val')",), 40, None)
    with pytest.raises(UsageError, match="does not offer"):
        check_metrics(("meteor",), 40, frozenset({"bleu"}))


def test_a_token_is_needed_where_others_can_reach_the_service():
    server, address = started("--api-only", "--host", "0.0.0.0")
    token = server.stderr.readline().split("the token ")[1].strip()
    url = address.replace("0.0.0.0", "127.0.0.1")
    try:
        assert ask(url, "GET", "/health")[0].status == 200
        assert ask(url, "GET", "/metrics-list")[0].status == 401
        assert ask(url, "GET", "/metrics-list", authorization="Bearer wrong")[0].status == 401
        with pytest.raises(CaptiousError, match="token"):
            captious.Client(url)(["a dog"], [["a dog"]])
        scores = captious.Client(url, "bleu_1", token=token)(["a dog"], [["a dog"]])
        assert scores["bleu_1"][0] == pytest.approx(1)
        answer, _ = ask(url, "GET", f"/health?token={token}")
        assert answer.status == 303
        kept = answer.headers["set-cookie"]
        assert "HttpOnly" in kept
        assert "SameSite=Strict" in kept
        answer, _ = ask(url, "GET", "/metrics-list", cookie=kept.partition(";")[0])
        assert answer.status == 200
    finally:
        assert stopped(server)[0] == 0


def test_requests_under_way_are_finished_when_the_service_stops():
    server, url = started("--api-only", "-m", "bleu")
    texts = ["a dog runs on the beach and then some more words are said"] * 10_000
    scores: list[captious.Client] = []
    client = captious.Client(url, "bleu")
    thread = threading.Thread(
        target=lambda: scores.append(client(texts, [[f"a dog {i}"] for i in range(10_000)]))
    )
    thread.start()
    while b"captious_requests_under_way 2.0" not in ask(url, "GET", "/metrics")[1]:
        assert not scores, "the answer came before the service could be stopped"
    server.send_signal(signal.SIGTERM)
    thread.join(300)
    server.communicate(timeout=300)
    assert server.returncode == 0
    assert len(scores) == 1
    assert len(scores[0]) == 10_000


def test_usage_of_the_verb(tmp_path):
    from captious.cli import main

    assert main(["serve", "--only"]) == 2
    assert main(["serve", "--port", "70000"]) == 2
    (tmp_path / "token").write_text("short")
    assert main(["serve", "--token-file", str(tmp_path / "token")]) == 2


def test_openapi_describes_the_service(url):
    page = json.loads(ask(url, "GET", "/openapi.json")[1])
    assert {"/score", "/explain", "/metrics-list", "/health", "/metrics"} <= set(page["paths"])
    answers = page["paths"]["/score"]["post"]["responses"]
    assert {"200", "400", "413", "422", "429", "503"} <= set(answers)
    photograph = base64.b64encode(b"x").decode()
    body = json.dumps({"captions": ["a"], "images": [photograph], "metrics": ["vifidel"]}).encode()
    assert ask(url, "POST", "/score", body)[0].status == 422


def fuzzed(url: str, tmp_path: Path, *options: str) -> None:
    """Let schemathesis make requests from the description, good and bad ones."""
    program = Path(sys.executable).with_name("schemathesis")
    if not program.exists():
        pytest.skip("schemathesis is not installed: pip install 'captious[dev]'")
    statuses = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "429", "5xx"]
    (tmp_path / "schemathesis.toml").write_text(  # 413: too many captions may be too many bytes
        f"[checks]\nnegative_data_rejection.expected-statuses = {statuses}\n"
    )
    done = subprocess.run(
        [str(program), "run", f"{url}/openapi.json", "--seed", "7", "--no-color",
         # The names of metrics are no part of the description: what fits it may be refused.
         "--exclude-checks", "positive_data_acceptance",
         "--request-timeout", "60", *options],
        capture_output=True, text=True, cwd=tmp_path, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]


def test_made_up_requests_get_answers_that_fit_the_description(url, tmp_path):
    fuzzed(url, tmp_path, "--max-examples", "6", "--phases", "examples,fuzzing")


@pytest.mark.full
def test_many_made_up_requests_get_answers_that_fit_the_description(url, tmp_path):
    fuzzed(url, tmp_path, "--max-examples", "150")


def test_listing_the_metrics_makes_no_remark_on_names(caplog):
    from captious import registry
    from captious.serve.service import _facts

    registry._say_once.cache_clear()
    with caplog.at_level("INFO", logger="captious"):
        registry.create("cider")
        assert "original CIDEr" in caplog.text  # said to whoever asks for it by that name
        registry._say_once.cache_clear()
        caplog.clear()
        assert _facts("cider").columns[0].name == "cider"
        assert _facts("eval_cs") is not None
        inputs = registry.create("eval_cs").open().inputs  # nobody typed the names in its file
        assert "cider" in [i.metric.name for i in inputs]
    assert caplog.text == ""
