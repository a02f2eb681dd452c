"""Words as plates: confirmed, missing, extra, each with its weight where there is one."""

from __future__ import annotations

from html import escape

from captious.report.pictures import palette
from captious.types import WordMarks

_INKS = {
    "confirmed": ("#e3f0f9", palette.BLUE),
    "extra": ("#fdf1d8", "#8a5a00"),
    "missing": ("#ffffff", palette.QUIET),
    "raises": ("#e3f0f9", palette.BLUE),
    "lowers": ("#fdf1d8", "#8a5a00"),
    "plain": ("#f3f4f6", palette.INK),
}
_MEANS = {
    "confirmed": "blue: confirmed",
    "extra": "yellow: not confirmed",
    "missing": "dashed: missing",
    "raises": "blue: raises the score",
    "lowers": "yellow: lowers it",
}
_WIDE, _HIGH, _GAP = 640, 34, 8


def draw(part: WordMarks) -> str:
    """Draw the words in lines, with a legend of what the colours mean."""
    out: list[str] = []
    x, y = float(_GAP), 34
    for mark in part.words:
        ground, ink = _INKS.get(mark.state, _INKS["plain"])
        number = "" if mark.weight is None else f"{mark.weight:+.2f}" if part.meaning else ""
        wide = 16 + 7.4 * max(len(mark.word), 0.8 * len(number))
        if x + wide > _WIDE:
            x, y = _GAP, y + _HIGH + (12 if part.meaning else 0)
        dash = ' stroke-dasharray="3 2"' if mark.state == "missing" else ""
        out.append(
            f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="24" rx="4" fill="{ground}" '
            f'stroke="{ink}"{dash}/><text x="{x + wide / 2:.1f}" y="{y + 16}" '
            f'text-anchor="middle" fill="{ink}">{escape(mark.word)}'
            f"<title>{escape(mark.note or mark.state)}</title></text>"
        )
        if number:
            out.append(
                f'<text x="{x + wide / 2:.1f}" y="{y + 37}" text-anchor="middle" font-size="10" '
                f'fill="{palette.QUIET}">{number}</text>'
            )
        x += wide + _GAP
    high = y + _HIGH + (12 if part.meaning else 0) + 22
    states = [told for s, told in _MEANS.items() if any(m.state == s for m in part.words)]
    legend = " \u00b7 ".join([*states, part.meaning] if part.meaning else states)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE + _GAP} {high}" '
        f'width="{_WIDE + _GAP}" height="{high}" font-family="sans-serif" font-size="13" '
        f'role="img"><title>{escape(part.title)}</title>'
        f'<rect width="{_WIDE + _GAP}" height="{high}" fill="#fff"/>'
        f'<text x="{_GAP}" y="20" font-weight="bold">{escape(part.title)}</text>'
        + "".join(out)
        + f'<text x="{_GAP}" y="{high - 8}" font-size="11" fill="{palette.QUIET}">'
        f"{escape(legend)}</text></svg>"
    )
