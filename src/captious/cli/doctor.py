"""``captious doctor``: what is here, what is missing, and the one command that gets it."""

from __future__ import annotations

import argparse
import platform
import textwrap
from typing import Any

from captious import assets, errors, registry, settings
from captious._version import __version__
from captious.cli import _options
from captious.io.grids import Cells


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser("doctor", description="Say what is installed and how to get the rest.")
    parser.add_argument(
        "--all", action="store_true", help="every metric and every table and model, one by one"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if any metric cannot run"
    )
    _options.output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the state of metrics and assets."""
    here = settings.get()
    lacking = {name: _lacks(name) for name in registry.names()}
    head = [
        f"captious {__version__}, Python {platform.python_version()}, {platform.system()}, "
        f"{here.threads} threads",
        f"cache: {here.cache_dir}",
    ]
    if args.all:
        lines = [*head, "", *_all(lacking)]
        _options.write(args, "\n".join(lines) + "\n", ["\n".join(head), *_tables(lacking)])
    else:
        _options.write(args, "\n".join([*head, "", *_short(lacking)]) + "\n")
    return 1 if args.strict and any(lacking.values()) else 0


def _lacks(name: str) -> list[errors.CaptiousError]:
    try:
        return registry.load(name)().missing()
    except errors.CaptiousError as err:
        return [err]


def _short(lacking: dict[str, list[errors.CaptiousError]]) -> list[str]:
    """Say it on one screen: what is ready, what to install for the rest."""
    ready = [name for name, problems in lacking.items() if not problems]
    lines = [f"{len(ready)} of {len(lacking)} metrics are ready:", *_wrapped(ready)]
    by_extra = [p for problems in lacking.values() for p in problems if getattr(p, "extra", "")]
    others = [
        name
        for name, problems in lacking.items()
        if any(not getattr(problem, "extra", "") for problem in problems)
    ]
    if by_extra:
        lines += ["", "To get the others:"]
        for line in errors.missing_lines(by_extra):
            told = line.partition(" (")[0]  # which packages are missing stands under --all
            lines.append("  " + textwrap.shorten(told, 76, placeholder=" ..."))
    if others:
        lines += ["", "These need weights or files that pip does not install:", *_wrapped(others)]
    here = [name for name in assets.known() if assets.available(name)]
    absent = [name for name in assets.known() if name not in here]
    held = f"{len(here)} of {len(assets.known())} tables and models are installed"
    lines += ["", f"{held}, these are not:" if absent else held, *_wrapped(absent)]
    return [*lines, "", "`captious doctor --all` shows details."]


def _tables(lacking: dict[str, list[errors.CaptiousError]]) -> list[Cells]:
    """Return the same as tables, for a terminal."""
    metrics = [["metric", "state", "remarks"]]
    for name, problems in lacking.items():
        metrics.append([name, "missing" if problems else "ok", "; ".join(map(str, problems))])
    held = [["model or table", "state", "purpose", "licence"]]
    for asset in assets.known().values():
        here = assets.available(asset.name)
        purpose = asset.purpose if here else f"{asset.purpose}; get it with: {asset.remedy}"
        held.append([asset.name, "ok" if here else "absent", purpose, asset.licence])
    return [metrics, held]


def _wrapped(names: list[str]) -> list[str]:
    return textwrap.wrap(
        ", ".join(names), 78, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )


def _all(lacking: dict[str, list[errors.CaptiousError]]) -> list[str]:
    """Say everything: each metric, each asset with its licence and how to get it."""
    lines = ["metrics"]
    for name, problems in lacking.items():
        lines.append(f"  {'MISSING' if problems else 'ok     '}  {name}")
        lines += [f"           {problem}" for problem in problems]
    lines += ["", "tables and models"]
    wide = max(map(len, assets.known()))
    for asset in assets.known().values():
        here = assets.available(asset.name)
        lines.append(
            f"  {'ok     ' if here else 'absent '}  {asset.name:{wide}}  {asset.purpose} "
            f"[{asset.licence}]"
        )
        if not here:
            lines.append(f"           get it with: {asset.remedy}")
    return lines
