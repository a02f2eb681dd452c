"""The explorer in a real browser, its runs through kills and restarts, and its rules."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import captious
from captious import demo, names, registry
from captious.errors import InputError
from captious.serve.limits import Limits
from captious.serve.store import Store
from captious.serve.views import Asked, View
from test_serve import started, stopped

httpx = pytest.importorskip("httpx")

CHROMIUM = os.environ.get("CAPTIOUS_CHROMIUM") or shutil.which("chromium")
PHOTOS = sorted((demo.folder() / "photos").iterdir())

SLOW = """
import os, time
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from captious.metrics.base import Column, Metric, Stats

@dataclass(frozen=True)
class Slowly(Metric):
    name: ClassVar[str] = "slowly"
    columns: ClassVar = (Column("slowly", 0.0, 1.0, "how long it takes"),)

    def stats(self, samples, context):
        for _ in range(len(samples)):
            time.sleep(float(os.environ["SLOWLY"]))
        with open(os.environ["SLOWLY_LOG"], "a") as file:
            file.write(f"{len(samples)}\\n")
        return Stats(np.ones((len(samples), 1)))
"""


@pytest.fixture(scope="module")
def slowly(tmp_path_factory) -> dict[str, str]:
    """A plug-in that takes its time, as the environment of a service."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "captious_slowly.py").write_text(SLOW)
    facts = folder / "captious_slowly-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: captious-slowly\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[captious.metrics]\nslowly = captious_slowly:Slowly\n")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"PYTHONPATH": path, "SLOWLY": "0.002", "SLOWLY_LOG": str(folder / "log")}


@pytest.fixture(scope="module")
def url(tmp_path_factory, slowly):
    folder = tmp_path_factory.mktemp("explorer")
    server, address = started(
        "--data", str(folder / "data"), "--cache", str(folder / "cache"), env=slowly
    )
    yield address
    code, said = stopped(server)
    assert code == 0
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install -y chromium")
    sync = pytest.importorskip("playwright.sync_api")
    from test_report_browser import FLAGS

    with sync.sync_playwright() as running:
        made = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


@pytest.fixture
def page(browser, url):
    """A page; at the end nothing may have been complained of or asked of others."""
    trouble: list[str] = []
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    opened = context.new_page()
    opened.on("console", lambda m: m.type in ("error", "warning") and trouble.append(m.text))
    opened.on("pageerror", lambda e: trouble.append(str(e)))
    opened.on(
        "request", lambda r: r.url.startswith((url, "blob:", "data:")) or trouble.append(r.url)
    )
    opened.set_default_timeout(120_000)
    opened.goto(url)
    opened.wait_for_selector("html[data-ready]")
    yield opened
    context.close()
    assert trouble == []


def captions(count: int) -> bytes:
    rows = [{"id": str(i), "caption": f"a dog {i} runs", "references": [f"a dog {i} is running"]}
            for i in range(count)]  # fmt: skip
    return "\n".join(map(json.dumps, rows)).encode()


def choose(page, form: str, *metrics: str) -> None:
    for box in page.query_selector_all(f"{form} input[name=metric]"):
        box.set_checked(box.get_attribute("value") in metrics)


def until(condition, seconds: float = 300) -> None:
    """Wait; the content-security policy of the page forbids playwright's own way."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def wait_for(url: str, run: str, *states: str, seconds: float = 300) -> dict:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        facts = httpx.get(f"{url}/runs/{run}", timeout=300).json()
        if facts["state"] in states:
            return facts
        time.sleep(0.1)
    raise AssertionError(facts)


def upload(url: str, files: dict[str, tuple[str, bytes]], metrics: str, **data: str):
    listed = [(what, (name, content)) for what, (name, content) in files.items()]
    return httpx.post(f"{url}/runs", files=listed, data={"metrics": metrics, **data}, timeout=300)


def test_upload_run_look_and_explain(page, url):
    page.set_input_files("#upload input[name=captions]", demo.captions_file())
    page.set_input_files("#upload input[name=references]", demo.references_file())
    page.set_input_files("#upload input[name=photos]", PHOTOS)
    chosen = page.locator("#upload input[name=metric]:checked")
    usual = set(names.GROUPS[names.COCO]) & set(registry.names())
    assert {box.get_attribute("value") for box in chosen.all()} == usual  # as `captious score`
    choose(page, "#upload", "bleu", "cider_d")
    page.fill("#upload input[name=title]", "the demo")
    page.click("#upload [type=submit]")
    page.click("a:has-text('the demo')")
    page.wait_for_selector("html[data-ready]")
    page.wait_for_selector(".item")
    table = captious.score(demo.captions_file(), demo.references_file(), metrics=["cider_d"])
    assert f"{100 * table.corpora['good']['cider_d']:.1f}" in page.inner_text("#table")
    assert "14 of 14 samples" in page.inner_text("#count")
    page.select_option("#sort", "worst")
    values = table.values["cider_d"].reshape(3, -1).mean(axis=0)
    worst = str(table.ids[int(np.argmin(values))])
    page.wait_for_selector(f".item:first-child[aria-label='{worst}']")
    page.fill("#find", "astronaut")
    until(lambda: page.inner_text("#count").startswith("1 of"))
    page.click(".item .open")
    page.wait_for_selector("#why pre")  # explained on demand
    assert "of 15 are in a reference" in page.inner_text("#why")
    photo = page.query_selector("dialog .frame img")
    until(lambda: photo.evaluate("node => node.naturalWidth") > 0)
    assert photo.get_attribute("src").startswith("/runs/")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("dialog[open] #why pre")


def test_a_caption_is_tried_in_place(page):
    page.set_input_files("#trial input[name=photo]", PHOTOS[0])
    page.fill("#trial input[name=caption]", "a person in a white suit")
    page.fill("#trial textarea[name=references]", "an astronaut in a suit\na person smiles")
    choose(page, "#trial", "bleu", "vifidel")
    page.click("#trial [type=submit]")
    page.wait_for_selector("#told:not([hidden])")
    assert "1-grams: 4 of 6" in page.inner_text("#why")
    page.click("#tabs >> text=VIFIDEL")
    assert page.query_selector("#why svg") is not None
    assert page.evaluate("document.querySelector('#frame img').naturalWidth") > 0
    shown = page.locator("#scores > span:not(.track)").all_inner_texts()
    assert shown == ["BLEU-4", "VIFIDEL"]  # one value per metric, under the names of the report
    value = float(page.inner_text("#scores b:last-child"))
    assert 1 < value <= 100  # x100, as in the report


def test_metrics_are_listed_by_what_they_read(page):
    kinds = page.evaluate("""() => Object.fromEntries([...document.querySelectorAll("#metrics h4")]
        .map((h) => [h.textContent, [...h.nextElementSibling.querySelectorAll("input")]
        .map((i) => i.value)]))""")
    assert set(kinds["Usual"]) == set(names.GROUPS[names.COCO]) & set(registry.names())
    assert {"tiger", "vifidel"} <= set(kinds["With the photograph"])
    assert "wmd" in kinds["Words and meaning"]
    ready = [n for group, of in kinds.items() if group != "Not installed here" for n in of]
    ready = [name for name in ready if name in registry.names()]  # not the plug-in of the tests
    assert all(not registry.load(name)().missing() for name in ready)


def test_progress_cancel_and_try_again(page, url, slowly, tmp_path):
    (tmp_path / "many.jsonl").write_bytes(captions(1500))
    page.set_input_files("#upload input[name=captions]", tmp_path / "many.jsonl")
    choose(page, "#upload", "slowly")
    page.click("#upload [type=submit]")
    page.wait_for_selector("tr[data-state=running] [aria-valuenow]:not([aria-valuenow='0'])")
    page.click("tr[data-state=running] button:has-text('Cancel')")
    page.wait_for_selector("tr[data-state=cancelled]")
    before = sum(map(int, Path(slowly["SLOWLY_LOG"]).read_text().split()))
    page.click("tr[data-state=cancelled] button:has-text('Try again')")
    page.wait_for_selector("tr[data-state=done] >> text=many")
    after = sum(map(int, Path(slowly["SLOWLY_LOG"]).read_text().split()))
    assert 0 < before < 1500
    assert after == 1500  # finished parts were not computed again


def test_runs_are_compared(page, url):
    for name, text in (("first", "a dog"), ("second", "a dog runs")):
        rows = [{"id": str(i), "caption": text, "references": ["a dog runs fast", "one dog"]}
                for i in range(20)]  # fmt: skip
        made = upload(url, {"captions": (f"{name}.json", json.dumps(rows).encode())}, "bleu")
        wait_for(url, made.json()["id"], "done")
    page.reload()
    for name in ("first", "second"):
        page.check(f"input[aria-label='Choose {name}']")
    page.click("#compare")
    page.wait_for_selector(".item")  # it opens by itself
    assert page.inner_text(".brand h1") == "first and second"
    assert page.inner_text("#table").count("first") == 1
    assert page.inner_text("#table").count("second") == 1


def test_runs_of_different_metrics_are_compared_in_those_they_share(url):
    made = {}
    for name, metrics in (("a", "bleu,rouge_l"), ("b", "meteor,bleu"), ("c", "meteor")):
        rows = [{"id": str(i), "caption": f"a dog {name}", "references": ["a dog runs"]}
                for i in range(4)]  # fmt: skip
        answer = upload(url, {"captions": (f"{name}.json", json.dumps(rows).encode())}, metrics)
        made[name] = wait_for(url, answer.json()["id"], "done")["id"]

    def compared(*names):
        runs = [made[name] for name in names]
        answer = httpx.post(f"{url}/runs/compare", json={"runs": runs}, timeout=30)
        return wait_for(url, answer.json()["id"], "done", "failed")

    both = compared("a", "b")
    assert (both["state"], both["metrics"], both["captions"]) == ("done", ["bleu"], 8)
    page = httpx.get(f"{url}/run/{both['id']}/data.js", timeout=30).text
    contents = json.loads(page.removeprefix("window.CAPTIOUS_DATA=").rstrip(";\n"))
    assert {c["name"] for c in contents["columns"]} == {"bleu_1", "bleu_2", "bleu_3", "bleu_4"}
    assert contents["left_out"] == [
        "only a has rouge_l: not compared", "only b has meteor: not compared",
    ]  # fmt: skip
    nothing = compared("a", "c")
    assert nothing["state"] == "failed"
    assert "only tables of the same metrics can be compared" in nothing["error"]


def test_a_killed_service_goes_on_where_it_was(tmp_path, slowly):
    log = tmp_path / "log"
    options = ("--api-only", "--data", str(tmp_path / "data"), "--cache", str(tmp_path / "cache"))
    env = slowly | {"SLOWLY_LOG": str(log), "SLOWLY": "0.01"}  # twelve seconds to be killed in
    server, url = started(*options, env=env)
    made = upload(url, {"captions": ("many.jsonl", captions(1200))}, "slowly,bleu").json()
    end = time.monotonic() + 300
    while time.monotonic() < end and not (log.exists() and log.read_text().count("\n") >= 2):
        time.sleep(0.02)
    server.send_signal(signal.SIGKILL)
    server.communicate()
    before = -1
    while before != (now := sum(map(int, log.read_text().split()))):
        before = now
        time.sleep(2)  # the worker ends by itself, after the batch that it is at
    assert 0 < before < 1200
    server, url = started(*options, env=env)
    try:
        facts = wait_for(url, made["id"], "done", "failed")
        assert (facts["state"], facts["captions"]) == ("done", 1200)
        assert sum(map(int, log.read_text().split())) == 1200
        items = httpx.get(f"{url}/runs/{made['id']}/items", timeout=300).json()
        assert items["total"] == 1200
    finally:
        assert stopped(server)[0] == 0


def test_uploaded_names_and_paths_in_files_lead_nowhere(url, tmp_path):
    secret = tmp_path / "secret.png"
    shutil.copy(PHOTOS[0], secret)
    rows = [
        {"id": "1", "caption": "a dog", "references": ["a dog"], "image": str(secret)},
        {"id": "2", "caption": "a cat", "references": ["a cat"], "image": "../../x"},
    ]
    made = upload(url, {"captions": ("../../../evil.json", json.dumps(rows).encode())}, "bleu")
    assert made.status_code == 201
    run = made.json()
    assert run["title"] == "evil"
    wait_for(url, run["id"], "done")
    assert httpx.get(f"{url}/runs/{run['id']}/photo/0").status_code == 404
    assert str(tmp_path) not in httpx.get(f"{url}/runs/{run['id']}/items").text
    assert not list(tmp_path.parent.rglob("evil*"))
    for name in ("captions.exe", "captions", "a.json.exe"):
        refused = upload(url, {"captions": (name, b"[]")}, "bleu")
        assert refused.status_code == 422
        assert "captions must end in one of" in refused.json()["error"]
    bad = upload(url, {"captions": ("c.json", b"[]"), "photos": ("p.jpg", b"no photo")}, "bleu")
    assert bad.status_code == 422
    assert "p.jpg" in bad.json()["error"]
    assert "/runs/" not in bad.json()["error"]


def test_failures_are_told_and_unknown_runs_are_404(url):
    made = upload(url, {"captions": ("c.json", b'[{"id": 1}]')}, "bleu").json()
    failed = wait_for(url, made["id"], "failed")
    assert "caption" in failed["error"]
    assert "Traceback" not in failed["error"]
    assert failed["error"].startswith("c.json: ")  # the name that was uploaded, not our path
    assert "/runs/" not in failed["error"]
    alone = b'[{"id": 1, "caption": "a dog"}]'
    made = upload(url, {"captions": ("c.json", alone)}, "bleu").json()
    assert "upload a file under References" in wait_for(url, made["id"], "failed")["error"]
    assert upload(url, {"captions": ("c.json", b"[]")}, "blue").status_code == 201  # told later
    for path in ("/runs/0000000000000000", "/runs/..%2f..", "/runs/x/items", "/run/x/"):
        assert httpx.get(url + path).status_code == 404
    assert httpx.get(f"{url}/runs/{made['id']}/items").status_code == 409
    assert httpx.delete(f"{url}/runs/{made['id']}").status_code == 200
    assert httpx.get(f"{url}/runs/{made['id']}").status_code == 404
    refused = httpx.post(f"{url}/runs/compare", json={"runs": ["a" * 16, "b" * 16]})
    assert refused.status_code == 404


def test_errors_of_runs_name_fields_of_the_page_instead_of_options(tmp_path):
    from captious.engine.plan import _lacking
    from captious.metrics._looking.by_image import regions_of
    from captious.metrics.base import Need
    from captious.serve.wording import for_the_page
    from captious.types import Evidence

    metrics = [registry.load(name)() for name in registry.names()]
    told = [_lacking(metric, need) for metric in metrics for need in Need]
    with pytest.raises(InputError) as without:
        regions_of(Evidence(), "grid", "tiger")
    told.append(str(without.value))
    captions, references = tmp_path / "c.json", tmp_path / "r.json"
    captions.write_text('[{"image_id": 1, "caption": "a dog"}]')
    references.write_text('{"2": ["a dog"]}')
    with pytest.raises(InputError) as unmatched:
        captious.score(captions, references, metrics="bleu")
    told.append(str(unmatched.value))
    for text in told:
        said = for_the_page(text)
        assert "--" not in said
        assert "in Python" not in said
    assert for_the_page(told[-2]).endswith("there are none: upload them under Photographs")


def test_limits_of_rows_and_jobs(tmp_path):
    from captious.serve.jobs import Jobs
    from captious.serve.limits import Busy

    store = Store(tmp_path / "data")
    jobs = Jobs(store, Limits(rows=3, jobs=1))
    try:
        name, folder = store.new()
        (folder / "captions-0.jsonl").write_bytes(captions(4))
        entry = [{"file": "captions-0.jsonl", "name": "x.jsonl"}]
        job = {"captions": entry, "references": [], "objects": [], "photos": [],
               "systems": ["x"], "metrics": ["bleu"]}  # fmt: skip
        jobs.add(name, "x", "score", job)
        end = time.monotonic() + 300
        while store.get(name).state not in ("failed", "done") and time.monotonic() < end:
            time.sleep(0.1)
        assert "a run may have 3" in store.get(name).error
    finally:
        jobs.close()
    other, folder = store.new()
    jobs.add(other, "y", "score", job)
    with pytest.raises(Busy, match="1 runs are waiting"):
        jobs.check()


@pytest.fixture(scope="module")
def view(tmp_path_factory) -> View:
    path = tmp_path_factory.mktemp("view") / "scores.parquet"
    table = captious.score(
        demo.captions_file(), demo.references_file(), metrics=["bleu", "cider_d"], intervals=False
    )
    table.save(path)
    return View(path, None)


def test_the_gallery_sorts_and_filters_as_the_report_does(view):
    table = view.table
    values = table.values["cider_d"].reshape(3, -1)
    ids = table.ids[:14]

    def shown(**asked: str) -> list[str]:
        total, items = view.page(Asked(**asked), 0, 100)
        assert total == len(items)
        return [item["id"] for item in items]

    assert shown() == ids.tolist()
    assert shown(sort="best", metric="cider_d") == ids[np.argsort(-values.mean(0))].tolist()
    assert shown(sort="worst", metric="cider_d") == ids[np.argsort(values.mean(0))].tolist()
    gap = values[2] - values[0]  # good, vague, wrong
    chosen = {"metric": "cider_d", "base": "good", "vs": "wrong"}
    assert shown(sort="difference", **chosen) == ids[np.argsort(gap, kind="stable")].tolist()
    assert set(shown(mode="regressions", **chosen)) == set(ids[gap < 0])
    assert shown(mode="unscored") == []
    assert shown(find="ASTRONAUT helmet") == ["astronaut"]
    assert view.page(Asked(), 5, 3)[1][0]["id"] == ids[5]
    with pytest.raises(InputError, match="no sample"):
        view.sample("nothing")
    with pytest.raises(InputError, match="no row"):
        view.explain(99)


def test_a_store_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(captious.CaptiousError, match="--data"):
        Store(tmp_path / "file")


def test_stored_tables_of_the_operator_are_opened(tmp_path, view):
    path = tmp_path / "mine.parquet"
    view.table.save(path)
    server, url = started("--data", str(tmp_path / "data"), str(path))
    try:
        (run,) = httpx.get(f"{url}/runs").json()
        assert (run["title"], run["kind"]) == ("mine", "table")
        wait_for(url, run["id"], "done")
        asked = list(dict.fromkeys(step.metric.name for step in view.table.steps))
        assert asked
        assert httpx.get(f"{url}/runs/{run['id']}").json()["metrics"] == asked
        assert httpx.get(f"{url}/runs/{run['id']}/items").json()["total"] == 14
        stored = httpx.get(f"{url}/runs/{run['id']}/scores.parquet", timeout=300).content
        (tmp_path / "again.parquet").write_bytes(stored)
        assert len(captious.ScoreTable.load(tmp_path / "again.parquet")) == 42
    finally:
        assert stopped(server)[0] == 0
