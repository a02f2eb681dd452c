"""Penn Treebank tokens exactly as the COCO caption toolkit makes them, without Java.

The toolkit runs CoreNLP 3.4.1's ``PTBTokenizer -preserveLines -lowerCase`` and drops a list of
punctuation tokens. `tokenize` gives the same tokens, `raw_tokenize` those before the dropping:

>>> tokenize("A man's hat (red), isn't it?")
['a', 'man', "'s", 'hat', '-lrb-', 'red', '-rrb-', 'is', "n't", 'it']
>>> raw_tokenize('"Wow..." he said.')
['``', 'wow', '...', "''", 'he', 'said', '.']

Two things are settled here that the original leaves to chance. A caption is tokenised as if nothing
followed it, where the original may look into the caption on the next line. And a line separator
other than a newline inside a caption only separates words, where the original starts a new line and
so shifts every caption after it. A phone number or mixed fraction ("2 1/2") is one raw token with a
no-break space inside; `tokenize` cuts it there, as the toolkit's scorers do under Python 3.

One difference is known: the lower case of a Greek capital sigma beside a digit, where Java and
Python disagree.

Most captions never reach the scanner: a piece between two spaces whose tokens cannot depend on what
follows is looked up in a table of pieces seen before.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import cache, cached_property
from itertools import chain

from captious.text._munch import Machine, seq, width
from captious.text._ptb_rules import Rule, rules

SIGNATURE = "ptb-3.4.1"

# Dropped by the toolkit. Brackets arrive in lower case (-lrb-), so its -LRB- never drops anything.
_DROPPED = "'' ' `` ` -LRB- -RRB- -LCB- -RCB- . ? ! , : - -- ... ;"
PUNCTUATION = frozenset(_DROPPED.split())

_NEWLINE = "\n"
# A piece that begins with one of these shares it with the space before, so it cannot stand alone.
_SPACES = (" ", "\t", "\u00a0", "\u3000", *map(chr, range(0x2000, 0x200B)))
_LONGEST_PIECE = 64  # characters of a piece worth remembering
_TABLE_SIZE = 1 << 17  # pieces remembered before the table starts afresh
_UNKNOWN = object()
_JOINED = 4  # pieces taken together before a caption is handed to the scanner whole


def tokenize(text: str) -> list[str]:
    """Tokens of one caption as the COCO toolkit scores them: lower case, no punctuation."""
    return _scored.tokens(text)


def raw_tokenize(text: str) -> list[str]:
    """Tokens of one caption in lower case with punctuation kept."""
    return _raw.tokens(text)


_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "{": "-LCB-", "}": "-RCB-", "[": "-LSB-", "]": "-RSB-"}
_PARENS = str.maketrans({c: _BRACKETS[c] for c in "()"})
_MONEY = str.maketrans(
    {"\u00a2": "cents", "\u00a3": "#"} | dict.fromkeys("\x80\xa4\u20a0\u20ac", "$")
)
_FRACTIONS = str.maketrans(
    {"\u00bc": "1/4", "\u00bd": "1/2", "\u00be": "3/4", "\u2153": "1/3", "\u2154": "2/3"}
)
_CURLY = str.maketrans(
    dict.fromkeys("\x91\u2018\u201b\u2039", "`")
    | dict.fromkeys("\x92\u2019\u203a", "'")
    | dict.fromkeys("\x93\u201c\u00ab", "``")
    | dict.fromkeys("\x94\u201d\u00bb", "''")
)


def _quotes(token: str, single: str) -> str:
    token = token.replace("&apos;", "'").replace("&quot;", '"')
    return token.replace("'", single).replace('"', single * 2).translate(_CURLY)


def _ampersand(token: str) -> str:
    at = token.lower().find("&amp;")
    return token if at < 0 else token[: at + 1] + _ampersand(token[at + 5 :])


_ACTIONS: dict[str, Callable[[str], str]] = {
    "keep": str,
    "hold": lambda token: token.replace(" ", "\u00a0"),
    "soften": lambda token: token.replace("\u00ad", "") or "-",
    "open quote": lambda token: _quotes(token, "`"),
    "close quote": lambda token: _quotes(token, "'"),
    "ampersand": _ampersand,
    "currency": lambda token: token.translate(_MONEY),
    "fraction": lambda token: token.translate(_FRACTIONS),
    "parens": lambda token: token.translate(_PARENS),
    "phone": lambda token: token.replace(" ", "\u00a0").translate(_PARENS),
    "bracket": lambda token: _BRACKETS[token],
    "hyphens": lambda token: "--" if 3 <= len(token) <= 4 else token,
    "dash": lambda token: "--",
    "ellipsis": lambda token: "...",
    "less": lambda token: "<",
    "greater": lambda token: ">",
    "line": lambda token: _NEWLINE,
}
_GIVE_BACK = {"give back 3": 3, "give back 2": 2, "give back 1": 1}


class _Rule:
    """A rule at work: how its token ends and what becomes of it."""

    def __init__(self, rule: Rule) -> None:
        action, body, after, self.apostrophes = rule
        self.action = action
        self.rewrite = _ACTIONS.get(action, str)
        self.dropped = action == "drop"
        self._given_back = _GIVE_BACK.get(action, 0)
        self.repeated = int(action == "dot again")
        self._after_width = 0 if after is None else width(after)
        self._machines = (body, after)

    @property
    def cut(self) -> int | None:
        """How many characters of a match are not the token's; None where that varies."""
        return None if self._after_width is None else self._after_width + self._given_back

    def end(self, text: str, start: int, end: int) -> int:
        """Where the token ends whose rule, with the context it asks for, matched up to ``end``."""
        if self.cut is not None:
            return end - self.cut
        body, after = self._context
        for at in reversed(body.ends(text, start, end)):
            if end in after.ends(text, at, end):
                return at - self._given_back
        return end

    @cached_property
    def _context(self) -> tuple[Machine, Machine]:
        body, after = self._machines
        return Machine([body]), Machine([after or ""])


@cache
def scanner() -> tuple[Machine, list[_Rule]]:
    """Return the automaton of all rules, and the rules."""
    listed = rules()
    whole = [rule.body if rule.after is None else seq(rule.body, rule.after) for rule in listed]
    return Machine(whole), [_Rule(rule) for rule in listed]


def scan(text: str, follow: str = "") -> tuple[list[str], bool]:
    """Tokens in their case, a newline for a line separator; and whether they are settled.

    Args:
        text: what to cut.
        follow: what comes behind the text: rules may look at it, but no token begins in it.

    Returns:
        The tokens, and True where they would be the same whatever came after ``follow``.
    """
    machine, made = scanner()
    wide = not text.isascii() and max(text) > "\uffff"
    if wide:  # the original sees such a character as two
        text = "".join(map(chr, array("H", text.encode("utf-16-le", "surrogatepass"))))
    stop, text = len(text), text + follow
    kinds, failed = machine.kinds(text), set[tuple[int, int]]()
    tokens, start, reach = [], 0, 0
    while start < stop:
        number, end, seen = machine.longest(kinds, start, failed)
        if seen > reach:
            reach = seen
        rule = made[number]
        if not rule.dropped:
            end = rule.end(text, start, end)
            tokens.append(rule.rewrite(text[start:end]))
            end -= rule.repeated
        start = end
    if wide:
        tokens = [_joined(token) for token in tokens]
    return tokens, reach <= len(text)


def _joined(token: str) -> str:
    """A token whose wide characters are whole again."""
    return token.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class _Tokenizer:
    """A way to finish tokens, with what is known of pieces of captions.

    Two tables send a piece to its tokens, or to None where they depend on what follows: one for
    pieces with a space behind, one for the last piece of a caption.
    """

    def __init__(self, finish: Callable[[str], list[str]]) -> None:
        self._finish = finish
        self._inner: dict[str, tuple[str, ...] | None] = {}
        self._last: dict[str, tuple[str, ...] | None] = {}

    def tokens(self, text: str) -> list[str]:
        *pieces, last = text.replace(_NEWLINE, " ").split(" ")
        tokens: list[str] = []
        look = self._inner.get
        for piece in pieces:
            known = look(piece)
            if known is None:
                return self._joined(pieces, last)
            tokens += known
        known = self._last.get(last)
        if known is None:
            return self._joined(pieces, last)
        tokens += known
        return tokens

    def scanned(self, text: str) -> list[str]:
        """The same by the scanner alone."""
        tokens, _ = scan(text.replace(_NEWLINE, " "), _NEWLINE)
        return [done for token in tokens for done in self._finish(token)]

    def _joined(self, pieces: list[str], last: str) -> list[str]:
        """The same where pieces are new, or must be taken together with the next ones."""
        tokens: list[str] = []
        unsettled: list[str] = []
        for piece in pieces:
            unsettled.append(piece)
            known = self._piece(self._inner, " ".join(unsettled), " ")
            if known is not None:
                tokens += known
                unsettled.clear()
            elif len(unsettled) > _JOINED:
                return self.scanned(" ".join([*pieces, last]))
        known = self._piece(self._last, " ".join([*unsettled, last]), _NEWLINE)
        return self.scanned(" ".join([*pieces, last])) if known is None else [*tokens, *known]

    def _piece(
        self, table: dict[str, tuple[str, ...] | None], piece: str, follow: str
    ) -> tuple[str, ...] | None:
        known = table.get(piece, _UNKNOWN)  # one look: another thread may empty the table
        if known is not _UNKNOWN:
            return known  # type: ignore[return-value]
        if len(piece) > _LONGEST_PIECE or piece.startswith(_SPACES):
            return None
        tokens, settled = scan(piece, follow)
        known = None
        if settled or follow == _NEWLINE:
            known = tuple(chain.from_iterable(map(self._finish, tokens)))
        if len(table) >= _TABLE_SIZE:
            table.clear()
        table[piece] = known
        return known


def _finish_raw(token: str) -> list[str]:
    return [] if token == _NEWLINE else [token.lower()]


def _finish_scored(token: str) -> list[str]:
    token = token.lower()
    if token.isalnum():
        return [token]
    pieces = [piece for piece in token.split(" ") if piece not in PUNCTUATION]
    return " ".join(pieces).split()


def finished(text: str, action: str) -> list[str]:
    """What `tokenize` makes of a stretch of text, after what its rule does with it."""
    return _finish_scored(_ACTIONS.get(action, str)(text))


_raw, _scored = _Tokenizer(_finish_raw), _Tokenizer(_finish_scored)
