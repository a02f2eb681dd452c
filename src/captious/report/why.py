"""A page of explanations: words and pictures of one caption, metric by metric."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files as resources
from importlib.util import find_spec

from captious.errors import MissingExtra
from captious.report.explained import title_of
from captious.report.pictures import draw
from captious.types import Explanation


def page(explained: Sequence[tuple[str, str, Explanation]]) -> str:
    """Return the page of ``(metric, caption, explanation)``.

    Raises:
        MissingExtra: Jinja2 is not installed.
    """
    if find_spec("jinja2") is None:
        raise MissingExtra("jinja2", "report", "a page of explanations")
    import jinja2

    web = resources("captious.report") / "web"
    made = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = made.from_string((web / "why.html.j2").read_text("utf-8"))
    parts = [
        {"metric": title_of(metric), "caption": caption, "text": told.text, "svg": draw(told) or ""}
        for metric, caption, told in explained
    ]
    captions = list(dict.fromkeys(part["caption"] for part in parts))
    css = (web / "report.css").read_text("utf-8")
    return template.render(parts=parts, captions=captions, css=css)
