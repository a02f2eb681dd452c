"""The report in a real browser: Debian's chromium, driven by playwright."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import captious
from captious import demo
from captious.cli import main
from captious.engine.compare import compare
from captious.engine.table import ScoreTable
from captious.report import page as pages

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("jinja2")
CHROMIUM = os.environ.get("CAPTIOUS_CHROMIUM") or shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("no chromium here: apt-get install -y chromium", allow_module_level=True)

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
         "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]  # fmt: skip


@pytest.fixture(scope="module")
def table() -> ScoreTable:
    return captious.score(
        demo.captions_file(),
        demo.references_file(),
        images=demo.folder() / "photos",
        metrics=["bleu", "rouge_l", "cider_d"],
    )


@pytest.fixture(scope="module")
def report(table, tmp_path_factory) -> Path:
    """The demo's report; one caption is said to look at a region that is known."""
    from captious.report import explained
    from captious.types import (
        Alignment,
        Explanation,
        LabelledPhotograph,
        MatchMatrix,
        Place,
        RegionAttention,
    )

    path = tmp_path_factory.mktemp("report") / "report.html"
    part = RegionAttention(
        "what each word looks at", None, (512, 512), ((0.25, 0.5, 0.75, 1.0), (0.0, 0.0, 0.1, 0.1)),
        ("astronaut",), ((1.0, 0.2),),
    )  # fmt: skip
    photo = str(demo.folder() / "photos" / Path(str(table.images[0])).name)
    box = (100.0, 50.0, 200.0, 400.0)  # the photograph has 400 by 400 pixels
    boxes = LabelledPhotograph("what was seen", photo, (Place("person", 0.7, box),))
    words = tuple(f"astronaut{k}" for k in range(20))
    values = ((0.5,) * 20,) * 20
    matrix = MatchMatrix("cosine", words, words, values, notes=("+0.012",) * 20)
    wide = Explanation("z", {}, (Alignment("matches", words, words, ()), matrix))
    real = explained.explain_table

    def with_regions(*args):
        done = real(*args)
        done.rows[0].insert(0, explained.plain("TIGEr", Explanation("x", {}, (part,))))
        done.rows[0].insert(1, explained.plain("VIFIDEL", Explanation("y", {}, (boxes,))))
        done.rows[0].append(explained.plain("wide", wide))
        return done

    explained.explain_table = with_regions
    try:
        pages.write(table, path, pages.Options(title="captious demo"))
    finally:
        explained.explain_table = real
    return path


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def visit(browser, report):
    """Open the report; at the end nothing may have been complained of or asked for."""
    trouble: list[str] = []
    contexts = []

    def opened(hash: str = "", **options):
        context = browser.new_context(**{"viewport": {"width": 1300, "height": 900}} | options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)  # a busy machine is slow, not broken
        page.on("console", lambda m: m.type in ("error", "warning") and trouble.append(m.text))
        page.on("pageerror", lambda e: trouble.append(str(e)))
        page.on(
            "request",
            lambda r: r.url.startswith(("file:", "blob:", "data:")) or trouble.append(r.url),
        )
        page.goto(report.as_uri() + hash)
        page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert trouble == []


def ids(page) -> list[str]:
    return page.eval_on_selector_all(
        ".item", "nodes => nodes.map(n => n.getAttribute('aria-label'))"
    )


def place_of(page, selector: str) -> tuple[float, ...]:
    """Left, top, right, bottom of something on the photograph, as shares of it."""
    photo = page.locator(".frame img").bounding_box()
    box = page.locator(f".frame {selector}").bounding_box()
    return (
        (box["x"] - photo["x"]) / photo["width"],
        (box["y"] - photo["y"]) / photo["height"],
        (box["x"] + box["width"] - photo["x"]) / photo["width"],
        (box["y"] + box["height"] - photo["y"]) / photo["height"],
    )


def test_the_first_screen_says_which_is_better_where_and_why(visit, table):
    page = visit()
    said = page.inner_text("#short")
    assert "good has the best value in 3 of 3 metrics" in said
    sure = sum(c in ("bleu_4", "rouge_l", "cider_d") for c in significant(table, "good", "vague"))
    assert f"vague against good: significantly worse in {sure} of 3 metrics" in said
    assert "vague is furthest behind good" in said
    box = page.locator("#short").bounding_box()
    assert box["y"] + box["height"] < 900
    page.click("#short [data-sorted=difference]")
    values = table.values["cider_d"].reshape(3, -1)
    assert ids(page)[0] == str(table.ids[int((values[1] - values[0]).argmin())])


def significant(table: ScoreTable, a: str, b: str) -> set[str]:
    made = compare(table)
    return {d.column for d in made.differences if {d.a, d.b} == {a, b} and d.significant}


def test_overview_shows_corpus_values_and_the_baseline_can_be_chosen(visit, table):
    page = visit()
    cells = page.inner_text("#table")
    assert f"{100 * table.corpora['good']['cider_d']:.1f}" in cells
    assert "bc" in cells.replace("\n", "")  # good beats both others
    page.select_option("#base", label="wrong")
    gap = 100 * (table.corpora["good"]["cider_d"] - table.corpora["wrong"]["cider_d"])
    assert f"+{gap:.1f}*" in page.inner_text("#table")
    assert "base=wrong" in page.url
    assert page.is_visible("#trend svg")  # three systems: a trend from one to the next


def test_runs_of_several_systems_have_a_trend_each(browser, tmp_path):
    said = {"first: small": "a dog", "first: large": "a dog runs", "second: small": "a dog runs",
            "second: large": "a brown dog runs fast"}  # fmt: skip
    rows = [
        {"id": str(n), "system": system, "caption": text, "references": ["a brown dog runs fast"]}
        for system, text in said.items()
        for n in range(8)
    ]
    path = tmp_path / "runs.html"
    pages.write(captious.score(rows, metrics=["rouge_l"]), path)
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.locator("#trend path.trend").count() == 2
    told = page.eval_on_selector_all("#trend text", "all => all.map(t => t.firstChild.data)")
    assert told[-4:] == ["small", "large", "first", "second"]  # the lower line is named first
    page.close()


def test_sort_filter_and_search(visit, table):
    page = visit()
    assert len(ids(page)) >= 12
    page.select_option("#sort", "worst")
    values = table.values["cider_d"].reshape(3, -1).mean(axis=0)
    order = [str(table.ids[i]) for i in values.argsort(kind="stable")]
    assert ids(page)[:3] == order[:3]
    page.click("[data-mode=regressions]")
    assert "of 14 samples" in page.inner_text("#count")
    page.click("[data-mode=cut]")
    assert "No sample fits" in page.inner_text("#cards")
    page.click("[data-mode=all]")
    page.keyboard.press("/")
    page.keyboard.type("astronaut")
    page.wait_for_selector(".item >> nth=1", state="detached")
    assert ids(page) == ["astronaut"]


def test_brushing_selects_in_the_gallery(visit):
    page = visit()
    page.evaluate("document.getElementById('scatter').scrollIntoView()")
    box = page.locator("#scatter").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 5, box["y"] + box["height"] - 50, steps=4)
    page.mouse.up()
    page.wait_for_selector("#unbrush:not([hidden])")
    chosen = ids(page)
    assert 0 < len(chosen) < 14
    page.reload()  # the address holds the rectangle
    page.wait_for_selector("html[data-ready]")
    assert ids(page) == chosen
    page.click("#unbrush")
    assert page.locator("#unbrush").is_hidden()


def test_a_caption_opens_and_its_regions_lie_on_the_right_pixels(visit):
    page = visit("#caption=astronaut&system=good")
    page.wait_for_selector("dialog[open]")
    page.get_by_role("tab", name="TIGEr").click()
    page.hover("[data-word='0']")
    assert place_of(page, "[data-region='0']") == pytest.approx((0.25, 0.5, 0.75, 1.0), abs=0.01)
    page.get_by_role("tab", name="VIFIDEL").click()
    expected = (0.25, 0.125, 0.5, 1.0)
    assert place_of(page, "[data-region='0']") == pytest.approx(expected, abs=0.01)
    assert place_of(page, ".plate")[:2] == pytest.approx(expected[:2], abs=0.01)
    assert page.inner_text(".frame .plate") == "person .70"
    page.get_by_role("tab", name="BLEU").click()
    assert page.locator(".frame .plate").count() == 0
    assert page.locator(".frame [data-region]").count() == 0
    assert page.locator("#why .chip.extra").count() > 0


def test_keyboard_walks_through_the_gallery(visit):
    page = visit()
    page.keyboard.press("j")
    assert page.locator(".item.at").get_attribute("aria-label") == "astronaut"
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("j")
    assert "caption=bridge" in page.url
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")
    page.wait_for_url(lambda address: "caption=" not in address)


def test_dark_mode_follows_the_system_and_the_button(visit):
    page = visit(color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(18, 20, 24)"
    page.click("#theme")
    assert page.evaluate(ground) == "rgb(246, 247, 249)"


def test_the_photograph_stays_in_view_while_words_are_touched_on_a_small_screen(visit):
    page = visit("#caption=astronaut&system=good", viewport={"width": 360, "height": 740})
    page.wait_for_selector("dialog[open]")
    page.get_by_role("tab", name="TIGEr").click()
    page.evaluate("document.querySelector('#remark').scrollIntoView()")
    page.get_by_role("tab", name="TIGEr").scroll_into_view_if_needed()
    page.hover("[data-word='0']")
    assert page.evaluate("document.getElementById('caption').scrollTop") > 300
    region, bar = page.locator("[data-region='0']").bounding_box(), page.locator("dialog .bar")
    assert region["y"] >= bar.bounding_box()["y"] + bar.bounding_box()["height"] - 1
    assert region["y"] + region["height"] < 740


def test_nothing_sticks_out_on_a_small_screen(visit):
    page = visit(viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.locator("#find").bounding_box()["width"] > 150, "there is room to type"
    page.click(".item .open >> nth=0")
    page.wait_for_selector("dialog[open]")
    for tab in page.locator("[data-tab]").all():
        tab.click()  # a wide picture scrolls inside of itself
        wide = page.evaluate("document.getElementById('caption').scrollWidth")
        assert wide <= 360, tab.text_content()
    assert tab.text_content() == "wide"
    picture = page.locator(".picture:has(table)")
    assert picture.evaluate("n => n.scrollWidth > n.clientWidth")


def test_many_systems_with_long_names_are_all_in_the_key_and_fit_a_small_screen(browser, tmp_path):
    names = [f"a system whose name is longer than the screen is wide {k}" for k in range(8)]
    captions = ["a dog runs", "a red bus", "two cats"]
    files = []
    for name in names:
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(dict(enumerate(captions))))
    references = {"0": ["a dog is running"], "1": ["a bus on a street"], "2": ["cats sleep"]}
    table = captious.score(files, references, metrics=["bleu", "rouge_l"])
    pages.write(table, tmp_path / "many.html", pages.Options())
    context = browser.new_context(viewport={"width": 360, "height": 740})
    page = context.new_page()
    page.goto((tmp_path / "many.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.locator("#scatterkey .sys").all_inner_texts() == names
    keys = page.locator("#scatterkey .sys i")
    inks = keys.evaluate_all("all => all.map(n => getComputedStyle(n).backgroundColor)")
    assert len(set(inks)) == 8
    assert "3 more in the table" in page.locator("#short").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    name = page.locator("#table tbody th >> nth=0").bounding_box()
    assert name["width"] < 180, "numbers have room beside the names"
    context.close()


def test_words_that_several_references_have_are_missing(visit, table):
    row = [str(s) for s in table.systems].index("vague")
    texts = [r.lower().split() for r in table.samples.references()[row]]
    assert sum("orange" in words for words in texts) == 2  # of five
    assert "orange" not in table.captions[row]
    page = visit(f"#caption={table.ids[row]}&system=vague")
    page.wait_for_selector("dialog[open]")
    chips = page.locator(".chip.missing").all_inner_texts()
    assert "orange2 of 5" in [chip.replace("\n", "") for chip in chips]


def test_signatures_break_between_their_parts(visit):
    page = visit(viewport={"width": 360, "height": 740})
    broken = page.locator("dd.sig").first.evaluate(
        """node => { // tops of the letters of each part: one line for each part
          const tops = [];
          for (const text of [...node.childNodes].filter((n) => n.nodeType === 3)) {
            const range = document.createRange();
            range.selectNodeContents(text);
            tops.push(new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size);
          }
          return tops; }"""
    )
    assert len(broken) > 3
    assert set(broken) == {1}


def test_notes_beside_a_matrix_are_not_clipped(visit):
    page = visit("#caption=astronaut&system=good")
    page.get_by_role("tab", name="wide").click()
    note = page.locator(".matrix tbody td.note").first
    assert note.inner_text() == "+0.012"
    assert note.evaluate("n => n.scrollWidth <= n.clientWidth && n.clientWidth > 40")


def test_a_permalink_survives_a_reload(visit):
    page = visit()
    page.click("[data-mode=different]")
    page.select_option("#sort", "best")
    page.click(".item .open >> nth=0")
    page.wait_for_selector("dialog[open]")
    before, title = page.url, page.inner_text("#captiontitle")
    page.reload()
    page.wait_for_selector("dialog[open]")
    assert page.url == before
    assert page.inner_text("#captiontitle") == title
    assert page.input_value("#sort") == "best"


def test_tables_are_copied(visit):
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    for kind, start in (
        ("latex", r"\begin{tabular}"),
        ("markdown", "| System"),
        ("csv", "system,"),
    ):
        page.click(f"[data-copy={kind}]")
        page.wait_for_selector("#said.on", state="attached")
        assert page.evaluate("navigator.clipboard.readText()").startswith(start)


def test_exported_verdicts_are_read_as_judgements(visit, tmp_path, capsys):
    page = visit()
    for item in range(6):
        card = page.locator(".item").nth(item)
        card.locator("[data-verdict='1']").nth(0).click()
        card.locator("[data-verdict='0']").nth(2).click()
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert "12 verdicts" in page.inner_text("#export")
    with page.expect_download() as download:
        page.click("#export")
    path = tmp_path / "verdicts.json"
    download.value.save_as(path)
    assert len(json.loads(path.read_text())) == 12
    assert main(["meta", "rouge_l", "--set", str(path), "-q"]) == 0
    assert "rouge_l" in capsys.readouterr().out


def test_a_verdict_is_of_one_caption_and_not_of_the_next_one_in_its_place(browser, tmp_path):
    context = browser.new_context()
    page = context.new_page()
    for name, caption in (("old", "a dog"), ("new", "a cat")):
        rows = [{"id": "1", "caption": caption, "references": ["a dog", "a cat"]}]
        pages.write(captious.score(rows, metrics=["rouge_l"]), tmp_path / f"{name}.html")
    page.goto((tmp_path / "old.html").as_uri())
    page.click("[data-verdict='1']")
    assert page.inner_text("#export") == "Export 1 verdict"
    page.goto((tmp_path / "new.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.inner_text("#export") == "Export verdicts"
    assert page.get_attribute("[data-verdict='1']", "aria-pressed") == "false"
    page.goto((tmp_path / "old.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.inner_text("#export") == "Export 1 verdict"
    context.close()


def test_it_prints_on_a_few_pages(visit):
    page = visit()
    printed = page.pdf(format="A4")
    assert 1 <= printed.count(b"/Type /Page\n") <= 4
    page.emulate_media(media="print")
    for gone in ("nav", "#scatterbox", ".filters", "#short button"):
        assert not page.locator(gone).first.is_visible(), gone
    assert page.is_visible("#table")


def test_one_system_and_one_metric_leave_no_empty_rooms(browser, tmp_path):
    rows = [{"id": str(n), "caption": f"a dog {n}"} for n in range(3)]
    path = tmp_path / "small.html"
    pages.write(captious.score(rows, metrics=["distinct"]), path)
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    for gone in ("#base", "#scatter", "#gapbox", "[data-mode=regressions]"):
        assert not page.locator(gone).is_visible(), gone
    assert "1 system, 3 captions, 1 metric" in page.inner_text("header")
    page.close()


def test_a_bundle_opens_from_disk(browser, table, tmp_path):
    pages.write(table, tmp_path / "out", pages.Options(bundle=True, seconds=0))
    page = browser.new_page()
    page.goto((tmp_path / "out/index.html").as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.locator(".item img").count() >= 12
    page.close()
