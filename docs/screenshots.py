"""Take the pictures of the report that README and docs show: ``make screenshots``.

    python docs/screenshots.py demo-out/report.html docs/pictures
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

VIEWS = {
    "report": ("", (1280, 1060), "light"),
    "report-caption": ("#caption=astronaut&system=good", (1280, 1000), "light"),
    "report-dark": ("", (1280, 1060), "dark"),
}
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def main() -> None:
    report, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    browser_path = os.environ.get("CAPTIOUS_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_path, args=FLAGS)
        for name, (place, (width, height), scheme) in VIEWS.items():
            page = browser.new_page(
                viewport={"width": width, "height": height}, color_scheme=scheme
            )
            page.goto(f"{report.as_uri()}{place}")
            page.wait_for_timeout(1500)
            shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            # 256 colours are enough for a page, and a third of the bytes.
            shot.quantize(256).save(folder / f"{name}.png", optimize=True)
            print(f"wrote {folder / name}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
