"""Take the screenshots of the report that README and docs show: ``make screenshots``.

Needs chromium (``apt-get install chromium``) and playwright (extra ``dev``).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
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
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent / "pictures")
