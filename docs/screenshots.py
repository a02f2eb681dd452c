"""Take the screenshots of report and explorer that README and docs show: ``make screenshots``.

Needs chromium (``apt-get install chromium``) and playwright (extra ``dev``).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from captious import demo

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
METRICS = ("bleu", "meteor", "cider_d")
FLAT = ("report-overview", "report-dark", "report-small")
"""Pictures that show no photograph."""
WIDE = {"width": 1280, "height": 860}


def main(report: Path, folder: Path) -> None:
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)

        def visit(where: str = "", **options: object) -> Page:
            page = browser.new_context(**{"viewport": WIDE} | options).new_page()
            page.goto(report.resolve().as_uri() + where)
            page.wait_for_selector("html[data-ready]")
            return page

        visit().screenshot(path=folder / "report-overview.png")
        visit(color_scheme="dark").screenshot(path=folder / "report-dark.png")
        page = visit()
        page.evaluate("document.getElementById('gallery').scrollIntoView()")
        page.screenshot(path=folder / "report-gallery.png")
        page = visit("#caption=astronaut&system=good")
        tab = page.get_by_role("tab", name="TIGEr")
        if tab.count():
            tab.click()
        page.locator(".why").scroll_into_view_if_needed()
        page.evaluate("document.getElementById('caption').scrollTop = 420")
        page.screenshot(path=folder / "report-caption.png")
        page = visit(viewport={"width": 360, "height": 740}, device_scale_factor=2)
        page.screenshot(path=folder / "report-small.png")
        explorer(browser, folder)
        browser.close()
    for path in [*folder.glob("report-*.png"), *folder.glob("explorer-*.png")]:
        # 256 colours: a third of the size. Without a photograph, maximum coverage keeps the colours
        # of small dots, which the median cut mixes; with one, it would lose the light greys.
        drawn = Image.open(path).convert("RGB")
        method = Image.Quantize.MAXCOVERAGE if path.stem in FLAT else Image.Quantize.MEDIANCUT
        drawn.quantize(256, method).save(path, optimize=True)


def explorer(browser: Browser, folder: Path) -> None:
    """Upload the demo to a service of its own, and try a caption."""
    photos = sorted((demo.folder() / "photos").iterdir())
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "captious", "serve", "--port", "0", "--data", data]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            url = server.stderr.readline().split("listening on ")[1].split()[0]
            page = browser.new_context(viewport=WIDE).new_page()
            page.set_default_timeout(300_000)
            page.goto(url)
            page.wait_for_selector("html[data-ready]")
            for title, metrics in (("demo, first try", METRICS), ("demo, second try", METRICS)):
                page.set_input_files("#upload input[name=captions]", demo.captions_file())
                page.set_input_files("#upload input[name=references]", demo.references_file())
                page.set_input_files("#upload input[name=photos]", photos)
                for box in page.query_selector_all("#upload input[name=metric]"):
                    box.set_checked(box.get_attribute("value") in metrics)
                page.fill("#upload input[name=title]", title)
                page.click("#upload [type=submit]")
                page.wait_for_selector(f"a:has-text('{title}')")
            page.evaluate("scrollTo(0, 0)")
            page.wait_for_selector("#said:not(.on)", state="attached")
            page.screenshot(path=folder / "explorer-home.png")
            page.set_input_files("#trial input[name=photo]", photos[0])
            page.fill("#trial input[name=caption]", "a smiling woman in an orange suit with a dog")
            page.fill("#trial textarea[name=references]", "An astronaut smiles at the camera.")
            for box in page.query_selector_all("#trial input[name=metric]"):
                box.set_checked(box.get_attribute("value") in ("tiger", "meteor"))
            page.click("#trial [type=submit]")
            page.wait_for_selector("#told:not([hidden]) #why pre")
            page.wait_for_selector("#frame svg rect")
            page.evaluate("document.getElementById('told').scrollIntoView()")
            page.screenshot(path=folder / "explorer-try.png")
            page.set_viewport_size({"width": 360, "height": 740})
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=folder / "explorer-small.png")
        finally:
            server.terminate()
            server.communicate()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent / "pictures")
