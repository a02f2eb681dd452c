"""``captious doctor``: what is here, what is missing, and the one command that gets it."""

from __future__ import annotations

import argparse
import platform
import sys
from typing import Any

from captious import assets, errors, registry, settings
from captious._version import __version__


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser("doctor", description="Say what is installed and how to get the rest.")
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if any metric cannot run"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the state of metrics and assets."""
    out = sys.stdout.write
    here = settings.get()
    out(
        f"captious {__version__}, Python {platform.python_version()}, {platform.system()}, "
        f"{here.threads} threads\ncache: {here.cache_dir}\n\nmetrics\n"
    )
    broken = 0
    wide = max(map(len, registry.names()))
    for name in registry.names():
        try:
            missing = registry.load(name)().missing()
        except errors.CaptiousError as err:
            missing = [err]
        out(f"  {'ok     ' if not missing else 'MISSING'}  {name:{wide}}\n")
        for problem in missing:
            out(f"           {problem}\n")
        broken += bool(missing)
    out("\nassets\n")
    wide = max(map(len, assets.known()))
    for asset in assets.known().values():
        found = assets.available(asset.name)
        out(
            f"  {'ok     ' if found else 'absent '}  {asset.name:{wide}}  {asset.purpose} "
            f"[{asset.licence}]\n"
        )
        if not found:
            out(f"           get it with: {asset.remedy}\n")
    return 1 if args.strict and broken else 0
