"""``captious completion SHELL``: a completion script, made from the parsers themselves."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import dataclass
from typing import Any

from captious.cli import _options

_INSTALL = {
    "bash": "captious completion bash > ~/.local/share/bash-completion/completions/captious",
    "zsh": 'captious completion zsh > "${fpath[1]}/_captious"',
    "fish": "captious completion fish > ~/.config/fish/completions/captious.fish",
}


@dataclass(frozen=True)
class Verb:
    """What can follow a verb.

    Attributes:
        name: the verb.
        help: one line.
        options: option -> one line.
        short: option -> its one-letter form.
        choices: option -> the words that it takes.
        words: sub-commands or names that may follow.
    """

    name: str
    help: str
    options: dict[str, str]
    short: dict[str, str]
    choices: dict[str, tuple[str, ...]]
    words: tuple[str, ...] = ()


def add_parser(subs: Any) -> None:
    """Register the verb."""
    parser = subs.add_parser(
        "completion",
        description="Print a script that completes verbs, options and metrics. To install it: "
        + "; ".join(_INSTALL.values()),
    )
    parser.add_argument("shell", choices=list(_INSTALL))
    _options.output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    write = {"bash": bash, "zsh": zsh, "fish": fish}[args.shell]
    _options.write(args, write(collect()))
    return 0


def collect() -> list[Verb]:
    """Return all verbs with their options, from the parsers."""
    from captious import cli, registry
    from captious.names import MEANING

    metrics = (*MEANING, *registry.names())
    helps = {verb: line for listed in cli.grouped().values() for verb, line in listed.items()}
    top = cli.parser()
    subs = next(a for a in top._actions if isinstance(a, argparse._SubParsersAction))
    out = []
    for name, parser in sorted(subs.choices.items()):
        options: dict[str, str] = {}
        choices: dict[str, tuple[str, ...]] = {}
        short: dict[str, str] = {}
        words: tuple[str, ...] = ()
        for action in _actions(parser):
            if isinstance(action, argparse._SubParsersAction):
                words = tuple(action.choices)
            elif action.option_strings and action.help != argparse.SUPPRESS:
                long = next(o for o in action.option_strings if o.startswith("--"))
                options[long] = " ".join((action.help or "").replace("%", "").split())
                letters = [o for o in action.option_strings if not o.startswith("--")]
                short |= {long: letters[0]} if letters else {}
                taken = metrics if action.metavar == "METRIC" else tuple(action.choices or ())
                for option in action.option_strings if taken else ():
                    choices[option] = taken
            elif action.choices:
                words = tuple(action.choices)
            elif action.metavar == "METRIC" or (name, action.dest) == ("metrics", "name"):
                words = metrics
        out.append(Verb(name, helps[name], options, short, choices, words))
    return out


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return the actions of a parser and of its sub-commands."""
    out: list[argparse.Action] = []
    for action in parser._actions:
        out.append(action)
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                out += [a for a in inner._actions if a.option_strings]
    return out


def bash(verbs: list[Verb]) -> str:
    """Return the script for bash."""
    lines = [
        "# completion of captious for bash; made by `captious completion bash`",
        "_captious() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" verb="${COMP_WORDS[1]}" option="" i',
        "  if ((COMP_CWORD == 1)); then",
        f'    COMPREPLY=($(compgen -W "{" ".join(v.name for v in verbs)}" -- "$word")); return',
        "  fi",
        "  for ((i = COMP_CWORD - 1; i > 1; i--)); do",
        '    if [[ ${COMP_WORDS[i]} == -* ]]; then option="${COMP_WORDS[i]}"; break; fi',
        "  done",
        "  if [[ $word == -* ]]; then",
        '    case "$verb" in',
    ]
    for verb in verbs:
        lines.append(
            f'      {verb.name}) COMPREPLY=($(compgen -W "{" ".join(verb.options)}" '
            '-- "$word")); return;;'
        )
    lines += ["    esac", "  fi", '  case "$verb $option" in']
    for verb in verbs:
        for option, words in verb.choices.items():
            lines.append(
                f'    "{verb.name} {option}") COMPREPLY=($(compgen -W "{" ".join(words)}" '
                '-- "$word")); return;;'
            )
        if verb.words:
            lines.append(
                f'    "{verb.name} ") COMPREPLY=($(compgen -W "{" ".join(verb.words)}" '
                '-- "$word")); return;;'
            )
    return "\n".join([*lines, "  esac", "}", "complete -o default -F _captious captious", ""])


def zsh(verbs: list[Verb]) -> str:
    """Return the script for zsh."""
    lines = [
        "#compdef captious",
        "# completion of captious for zsh; made by `captious completion zsh`",
        "_captious() {",
        "  local -a verbs",
        "  verbs=(",
        *(f"    {_quoted(f'{v.name}:{v.help}')}" for v in verbs),
        "  )",
        "  if ((CURRENT == 2)); then _describe verb verbs; return; fi",
        '  case "${words[2]}" in',
    ]
    for verb in verbs:
        lines.append(f"    {verb.name}) shift words; ((CURRENT--)); _arguments \\")
        for option, help in verb.options.items():
            told = help.replace("[", "(").replace("]", ")").replace(":", " -")
            words = verb.choices.get(option)
            takes = f":value:({' '.join(words)})" if words else ""
            for spelling in filter(None, (verb.short.get(option), option)):
                lines.append(f"      {_quoted(f'{spelling}[{told}]{takes}')} \\")
        rest = f"*:word:({' '.join(verb.words)})" if verb.words else "*:file:_files"
        lines.append(f"      {_quoted(rest)};;")
    return "\n".join([*lines, "  esac", "}", '_captious "$@"', ""])


def fish(verbs: list[Verb]) -> str:
    """Return the script for fish."""
    start = "complete -c captious"
    lines = ["# completion of captious for fish; made by `captious completion fish`"]
    for verb in verbs:
        lines.append(f"{start} -f -n __fish_use_subcommand -a {verb.name} -d {_escaped(verb.help)}")
        within = f"{start} -n '__fish_seen_subcommand_from {verb.name}'"
        for option, help in verb.options.items():
            words = verb.choices.get(option)
            takes = f" -x -a {_escaped(' '.join(words))}" if words else ""
            short = f" -s {verb.short[option][1:]}" if option in verb.short else ""
            told = textwrap.shorten(help, 60, placeholder="…")
            lines.append(f"{within}{short} -l {option[2:]} -d {_escaped(told)}{takes}")
        if verb.words:
            lines.append(f"{within} -a {_escaped(' '.join(verb.words))}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Quote for zsh (and any POSIX shell)."""
    return "'" + text.replace("'", "'\\''") + "'"


def _escaped(text: str) -> str:
    """Quote for fish, where a quote inside quotes takes a backslash."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
