"""The command line: one file per verb, data on stdout, talk on stderr.

A verb's module is imported when the verb is used, so that ``captious --help`` is quick.

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
from typing import Any, NoReturn

from captious import errors
from captious._version import __version__
from captious.cli._verbs import MEANT, OPTIONS, VERBS

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


def grouped() -> dict[str, dict[str, str]]:
    """Return the verbs with one line each, under the heading they belong to."""
    known = {verb for listed in VERBS.values() for verb in listed}
    more = {verb: f"see captious {verb} --help" for verb in verbs() if verb not in known}
    return VERBS | ({"More": more} if more else {})


def parser(only: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    Args:
        only: the verbs to load; all if None.
    """
    wide = max(map(len, verbs())) + 2
    listing = "\n\n".join(
        "\n".join([f"{heading}:", *(f"  {verb:{wide}}{line}" for verb, line in listed.items())])
        for heading, listed in grouped().items()
    )
    top = _Parser(
        prog="captious",
        usage="captious VERB ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Judge image captions: the classic metrics without Java, metrics that look "
        "at the\nimage, confidence intervals and paired tests.\n\n" + listing,
        epilog="`captious VERB --help` lists the options of a verb.\nExit codes: 0 done, 1 the "
        "answer is no, 2 wrong name or option, 3 bad input,\n4 something is not installed.",
    )
    top.add_argument("--version", action="version", version=f"captious {__version__}")
    loaded = verbs() if only is None else only
    if loaded:
        subs = top.add_subparsers(dest="verb", metavar="VERB", prog="captious",
                                  help=argparse.SUPPRESS)  # fmt: skip
        for name in loaded:
            import_module(f"captious.cli.{name}").add_parser(subs)
    return top


class _Help(argparse.HelpFormatter):
    """Names the argument of an option once, not after each of its spellings."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        default = self._get_default_metavar_for_optional(action)
        return f"{', '.join(action.option_strings)} {self._format_args(action, default)}"


class _Parser(argparse.ArgumentParser):
    """Complains in two lines, and suggests the option that was probably meant."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Help} | options)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the options are listed."""
        self.exit(2, f"{self.prog}: {message}\n`{self.prog} --help` lists the options.\n")

    def _get_option_tuples(self, option_string: str) -> list[Any]:
        """Options that a shortened one may be; two spellings of one option are no doubt."""
        found = {id(one[0]): one for one in reversed(super()._get_option_tuples(option_string))}
        return list(found.values())

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; an unknown option is an error with a hint, told by the verb's own parser."""
        parsed, unknown = super().parse_known_args(args, namespace)
        options = [word.partition("=")[0] for word in unknown if word.startswith("--")]
        if options:
            known = [text for text in self._option_string_actions if text.startswith("--")]
            hints = [
                f"no option {word}.{errors.did_you_mean(word, known, OPTIONS)}" for word in options
            ]
            self.error("\n".join(hints))
        return parsed, unknown


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    verb = next(iter(words), "-")
    if not verb.startswith("-") and verb not in verbs():
        print(
            f"captious: no verb {verb!r}.{errors.did_you_mean(verb, verbs(), MEANT)} "
            "`captious --help` lists the verbs.",
            file=sys.stderr,
        )
        return 2
    top = parser([] if verb.startswith("-") else [verb])
    args = top.parse_args(words)
    if not words:
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
        print("captious: not enough memory; score fewer captions at a time", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ncaptious: interrupted; finished parts are kept", file=sys.stderr)
        return 128 + signal.SIGINT


def entry() -> None:
    """Entry point of the ``captious`` script."""
    sys.exit(main())
