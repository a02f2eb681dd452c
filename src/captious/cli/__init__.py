"""The command line: one file per verb, data on stdout, talk on stderr.

Exit codes: 0 done; 1 the answer is "no" (verify, doctor); 2 a wrong name or option; 3 bad input;
4 a package or resource is missing; 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import pkgutil
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from captious import errors
from captious._version import __version__

_CODES = (
    (errors.UsageError, 2),
    (errors.InputError, 3),
    (errors.MissingExtra, 4),
    (errors.MissingAsset, 4),
    (errors.VerifyError, 1),
    (errors.CaptiousError, 4),
)


def verbs() -> list[str]:
    """Return the names of all verbs: the public modules of this package."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Args:
        only: the verb that is asked for: the others are named but not opened, which is quick. None
            opens all of them, "" none.
    """
    top = argparse.ArgumentParser(
        prog="captious",
        description="Judge image captions: classic metrics without Java, image-grounded ones "
        "beside them, intervals and paired tests.",
        epilog="captious VERB --help tells more. Exit codes: 0 done, 1 the answer is no, "
        "2 wrong name or option, 3 bad input, 4 something is not installed.",
    )
    top.add_argument("--version", action="version", version=f"captious {__version__}")
    subs = top.add_subparsers(dest="verb", metavar="VERB")
    for name in verbs():
        if only is None or only == name:
            import_module(f"captious.cli.{name}").add_parser(subs)
        else:
            subs.add_parser(name, help=_summary(name))
    return top


def _summary(verb: str) -> str:
    """Return what a verb does: the first line of its file, behind its name."""
    with open(os.path.join(__path__[0], f"{verb}.py"), encoding="utf-8") as file:
        return file.readline().partition(": ")[2].strip().rstrip('."')


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and not words[0].startswith("-") and words[0] not in verbs():
        print(
            f"captious: no verb {words[0]!r}.{errors.did_you_mean(words[0], verbs())} "
            f"Verbs: {', '.join(verbs())}.",
            file=sys.stderr,
        )
        return 2
    top = parser(next((word for word in words if word in verbs()), ""))
    args = top.parse_args(words)
    if args.verb is None:
        top.print_help()
        return 0
    try:
        code = int(args.run(args) or 0)
        sys.stdout.flush()
        return code
    except errors.CaptiousError as err:
        print(f"captious: {err}", file=sys.stderr)
        return next(code for kind, code in _CODES if isinstance(err, kind))
    except BrokenPipeError:
        # The reader of our output went away (| head): no complaint, and none at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as err:
        place = f"{err.filename}: " if err.filename else ""
        print(
            f"captious: {place}{err.strerror or err}. Finished parts and old outputs are kept; "
            "free some space, or name another place with --output or --cache",
            file=sys.stderr,
        )
        return 2
    except MemoryError:
        print("captious: not enough memory; give fewer captions at once", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ncaptious: interrupted; finished parts are kept", file=sys.stderr)
        return 128 + signal.SIGINT


def entry() -> None:
    """Entry point of the ``captious`` script."""
    sys.exit(main())
