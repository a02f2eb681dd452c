"""The rules of Penn Treebank tokenisation as CoreNLP 3.4.1 applies them, in our own notation.

Each rule is a pattern, the context that must follow it, and the name of what is done to the token
(the doings are in `ptb`). The longest match wins, context included; among equals the earlier rule.
Facts such as the list of abbreviations are those of the original program; that the two agree was
checked against its jar (see ``benchmarks/ptb_vs_java.py``).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import NamedTuple
from unicodedata import category

from captious.text._munch import (
    Chars,
    Pattern,
    Piece,
    alt,
    many,
    maybe,
    one,
    seq,
    some,
    table,
    times,
    words,
)


class Rule(NamedTuple):
    """What matches, what has to follow it, and what is done with it.

    Where what follows varies in width, ``apostrophes`` says how a plain apostrophe tells the width:
    pairs of a place (from the end of the match) at which it stands, and the width then.
    """

    action: str
    body: Piece
    after: Piece | None = None
    apostrophes: tuple[tuple[int, int], ...] = ()


# Letters that entered Unicode after version 6.2, the one of the original; they are no letters here.
_NEWER_LETTERS = table(
    "037F 0528-052F 0560 0588 05EF 0860-088F 08A1 08AD-08C9 0978 0980 09FC 0AF9 0C34 0C5A-0C5D "
    "0C80 0CDC-0CDD 0D04 0D54-0D56 0D5F 0E86 0E89 0E8C 0E8E-0E93 0E98 0EA0 0EA8-0EA9 0EAC 13F5 "
    "13F8-13FD 16F1-16F8 170D 171F 1878 191D-191E 19B0-19C0 19C8-19C9 1B4C 1C80-1C8A 1C90-1CBA "
    "1CBD-1CBF 1CF2-1CF3 1CFA 2C2F 2C5F 312E-312F 31BB-31BF 4DB6-4DBF 9FCD-9FFF A698-A69D A78F "
    "A794-A79F A7AB-A7F7 A8FD-A8FE A9E0-A9E4 A9E6-A9EF A9FA-A9FE AA7E-AA7F AB30-AB5A AB5C-AB69 "
    "AB70-ABBF"
)
_NEWER_DIGITS = table("0DE6-0DEF A9F0-A9F9")
_FORMER_LETTERS = table("1885-1886")


def capitalised(listed: str) -> Pattern:
    """Any one of the words of a list whose first letter has this case; the others have any."""
    return alt(*(seq(one(word[0]), word[1:]) for word in listed.split()))


def _all(passed: Iterable[bool]) -> Chars:
    """The characters of the basic plane that passed a test."""
    runs, begin = [], 0
    for fine, run in groupby(passed):
        end = begin + len(list(run))
        if fine:
            runs.append((begin, end - 1))
        begin = end
    return Chars(runs)


# Marks, modifiers and punctuation that may stand in a word though Unicode calls them no letters.
_WORD_MARKS = table(
    "00AD 02C2-02C5 02D2-02DF 02E5-02FF 0300-037D 0384-0385 03CF 03F6 03FC-03FF 0483-0487 04CF "
    "055A-055F 0591-05BD 05BF 05C1-05C2 05C4-05C5 05C7 0615-061A 063B-063F 064B-065E 0670 "
    "06D6-06E4 06E7-06ED 06FD-06FE 070F 0711 0730-074C 07A6-07B0 07EB-07F3 0900-0903 093C "
    "093E-094E 0951-0955 0962-0963 0981-0983 09BC 09BE-09C4 09C7-09C8 09CB-09CD 09D7 09E2-09E3 "
    "0A01-0A03 0A3C 0A3E-0A4F 0A81-0A83 0ABC 0ABE-0ACF 0B82 0BBE-0BC2 0BC6-0BC8 0BCA-0BCD "
    "0C01-0C03 0C3E-0C56 0D3E-0D44 0D46-0D48 0E31 0E34-0E3A 0E47-0E4E 0EB1 0EB4-0EBC 0EC8-0ECD"
)
_CURRENCY = table("0080 00A2-00A5 060B 0E3F 20A0 20A4 20AC FFE0-FFE1 FFE5-FFE6")
_SYMBOLS = one("+%&~^|\\") | table(
    "00A6-00A9 00AC 00AE-00B4 00B6-00B9 00D7 00F7 0387 05BE 05C0 05C3 05C6 05F3-05F4 0600-0603 "
    "0606-060A 060C 0614 061B 061E 066A 066D 0703-070D 07F6-07F8 0964-0965 0E4F 1FBD 2016-2017 "
    "2020-2023 2030-2038 203B 203E-2042 2044 207A-207E 208A-208E 2100-214F 2190-2BFF 3012 30FB "
    "FF01-FF0F FF1A-FF20 FF3B-FF40 FF5B-FF65"
)

# Abbreviations after which a capital begins a new sentence ...
_MONTHS_DAYS = words(
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri"
)
_STATES = alt(
    words("ala ariz calif colo conn ct dak fla ga ind kan kans ky md mich minn mo mont neb nev"),
    words("okla penn tenn va vt wis wisc wyo"),
    capitalised("Az Ark Del Ill La Mass Miss Ore Pa Tex Wash"),
)
_COMPANIES = alt(
    words("inc co cos corp ltd plc rt bancorp bhd assn univ intl sys"),
    seq("p", maybe("p"), "t", one("ye"), maybe("s")),
)
_CLOSING = alt(
    _MONTHS_DAYS,
    _STATES,
    _COMPANIES,
    words("tel est ext sq jr sr bros ed.d ph.d blvd rd esq etc al seq bldg"),
)
# ... and those after which it does not.
_TITLES = alt(
    words("mr mrs ms dr drs prof profs sen sens rep reps atty attys lt col gen messrs gov govs"),
    words("adm rev maj sgt cpl pvt mt capt st ste ave pres lieut hon brig cmdr comdr pfc spc"),
    words("supt supts det ft adj adv asst assoc ens insp mlle mme msgr sfc"),
    capitalised("Miss"),
)
_OPENING_ONLY = alt(
    words("invt elec natl dept vs alex wm jos cie a.k.a cf treas ph"), seq("m", one("ft"), "g")
)
_BEFORE_NUMBER = words("ca fig figs prop no nos art bldg pp op")

_FILE_ENDINGS = words(
    "bat bmp c class cgi cpp dll doc docx exe gif gz h htm html jar java jpeg jpg mov mp3 pdf php "
    "pl png ppt ps py sql tar txt wav x xml zip"
)

# A sentence surely begins when an acronym is followed by one of these, so capitalised.
_OPENERS = (
    "About According Additionally After An A As At But Earlier He Her Here However If In It Last "
    "Many More Mr. Ms. Now Once One Other Our She Since So Some Such That The Their Then There "
    "These They This We When While What Yet You"
)


@cache
def rules() -> tuple[Rule, ...]:
    """All rules in order of precedence."""
    basic = [chr(code) for code in range(0x10000)]
    categories = list(map(category, basic))
    letter = (_all([c[0] == "L" for c in categories]) - _NEWER_LETTERS) | _FORMER_LETTERS
    digit = _all([c == "Nd" for c in categories]) - _NEWER_DIGITS
    latin, number = one("A-Za-z"), one("0-9")
    upper = (_all(map(str.isupper, basic)) - _NEWER_LETTERS) - table("13A0-13F4")

    gap = one(" \t\u00a0\u2000-\u200a\u3000")
    line = alt(seq(maybe("\r"), "\n"), one("\r\u2028\u2029\x0b\x0c\x85"))
    blank = alt(gap, line)
    apostrophe = alt(one("'\u0092\u2019"), "&apos;")
    any_apostrophe = alt(apostrophe, one("`\u0091\u2018\u201b"))
    hyphen = one("_\u058a\u2010\u2011-")
    clause_mark = one(",;:\u3001")

    name = seq(latin, many(one("A-Za-z0-9_:.-")))
    quoted = alt(seq("'", many(~one("'")), "'"), seq('"', many(~one('"')), '"'))
    attribute = seq(some(" "), name, maybe(many(" "), "=", many(" "), quoted))
    tag = seq(
        "<",
        alt(
            seq(one("!?"), one("A-Za-z-"), many(~one(">\r\n"))),
            seq(name, many(attribute), many(" "), maybe("/"), many(" ")),
            seq("/", name, many(" ")),
        ),
        ">",
    )

    accented = seq("&", one("aeiouAEIOU"), words("acute grave uml"), ";")
    sign = alt(letter | _WORD_MARKS, accented)
    word = seq(sign, many(alt(sign, digit)), many(one(".!?"), sign, many(alt(sign, digit))))
    clitic = seq(apostrophe, alt(one("msdMSD"), words("re ve ll")))
    negated = seq(many(one("A-Za-z\u00ad")), one("A-MO-Za-mo-z"), many("\u00ad"))
    negation = seq("n", any_apostrophe, "t")

    point = one(".:,\u00ad\u066b\u066c")
    figure = alt(some(digit), seq(many(digit), some(point, some(digit))))
    date = seq(times(digit, 1, 2), one("/-"), times(digit, 1, 2), one("/-"), times(digit, 2, 4))
    fraction = seq(
        maybe(times(digit, 1, 4), one(" \u00a0-")),
        times(digit, 1, 4),
        alt(seq(maybe("\\"), "/"), "\u2044"),
        times(digit, 1, 4),
    )
    small_number = seq(
        maybe(one("\u207a\u207b\u208a\u208b")),
        alt(some(one("\u2070\u00b9\u00b2\u00b3\u2074-\u2079")), some(one("\u2080-\u2089"))),
    )
    split = one(" \u00a0-")
    phone = alt(
        seq(
            alt(
                seq("(", times(number, 2, 3), ")", maybe(one(" \u00a0"))),
                seq(
                    times("+", 0, 2), maybe(times(number, 2, 4), split), times(number, 2, 4), split
                ),
            ),
            times(number, 3, 4),
            maybe(split),
            times(number, 3, 5),
        ),
        seq(
            maybe(times("+", 0, 2), times(number, 2, 4), "."),
            times(number, 2, 4),
            ".",
            times(number, 3, 4),
            ".",
            times(number, 3, 5),
        ),
    )

    dotted = alt(
        seq(latin, some(".", latin)),
        seq(words("canada sino korean eu japan non"), "-u.s"),
        seq("u.s.-", words("u.k u.s.s.r")),
    )
    acronym = alt(latin, dotted)
    opening = alt(_TITLES, _OPENING_ONLY, acronym)
    openers = alt(tag, capitalised(_OPENERS))

    opener = seq(some(blank), openers, blank)

    stuff = letter | digit
    particle = maybe(one("dDoOlL"), any_apostrophe, stuff)
    thing = seq(particle, some(stuff), many(hyphen, particle, some(stuff)))
    plain = one("A-Za-z0-9")
    hyphened = seq(
        plain,
        many(one("A-Za-z0-9.,\u00ad")),
        some("-", alt(some(one("A-Za-z0-9\u00ad")), seq(dotted, "."))),
    )
    amper = alt(one("+&"), "&amp;")
    joined = seq(some(one("A-Z")), some(amper, some(one("A-Z"))))
    part = seq(some(plain), times(seq("-", some(latin)), 0, 2))
    slashed = seq(part, times(seq(maybe("\\"), "/", part), 1, 2))

    with_apostrophe = alt(
        seq(apostrophe, "n", maybe(apostrophe)),
        seq(one("lLdDjJ"), apostrophe),
        seq(words("dunkin somethin ol"), apostrophe),
        seq(apostrophe, words("em till til cause")),
        seq(one("A-HJ-XZn"), any_apostrophe, letter, some(letter)),
        seq(apostrophe, one("2-9"), "0s"),
        seq(some(letter), one("aeiouyAEIOUY"), any_apostrophe, one("aeiouA-Z"), many(letter)),
        seq("cont'd", maybe(".")),
        words("nor'easter c'mon e'er s'mores ev'ry li'l nat'l"),
        seq("o", any_apostrophe, "o"),
    )

    url_end = ~one(' \t\n\x0c\r"<>|.!?(){},-')
    url_char = ~one(' \t\n\x0c\r"<>|()')
    full_url = seq(words("http https"), "://", some(url_char - one("{}")), url_end)
    label = some(~one(' \t\n\x0c\r"<>|.!?(){},'))
    bare = some(~(one(" \t\n\x0c\r\"`'<>|.!?(){}") | one(",-_") | one("$")))
    likely_url = seq(
        alt(
            seq("www.", some(label, "."), times(latin, 2, 4)),
            seq(some(bare, "."), words("com net org edu")),
        ),
        maybe("/", some(url_char), url_end),
    )
    mail_char = ~one(' \t\n\x0c\r"<>|(){}\u00a0')
    mail_label = some(~one(' \t\n\x0c\r"<>|(){}.\u00a0'))
    address = seq(plain, many(mail_char), "@", many(mail_label, "."), mail_label)
    email = seq(maybe(alt("<", "&lt;")), address, maybe(alt(">", "&gt;")))

    quote = one("`\u2018-\u201f\u0091-\u0094\u2039\u203a\u00ab\u00bb")
    double = alt('"', "&quot;")
    smile = seq(maybe(one("<>")), one(":;="), maybe(one("-o*'")), one("()DPdpO\\{@|[]"))
    eyes, tears = one("^x=~<>-") | one("'"), one("^x=~<>") | one("'")
    east = alt(
        seq(one("^x=~<>"), ".[^x=", many(~one("<")), "<>]"),  # odd, but so it is
        seq(eyes, "_", eyes),
        seq("(", eyes, maybe(one("_.")), eyes, ")"),
        seq("(", tears, "-", tears | one("`"), ")"),
    )
    special = alt(
        words("-lrb- -rrb- -lcb- -rcb- -lsb- -rsb- c.d.s pro- anti-"),
        seq("s", alt("&", "&amp;"), words("p-500 ls")),
        seq("cap", apostrophe, "n"),
        seq("c", apostrophe, "est"),
    )
    dots = alt(times(".", 3, 5), seq(times(seq(".", one(" \u00a0")), 2, 4), "."), one("\x85\u2026"))
    run = some(alt(sign, digit))
    file = seq(run, many(".", run), ".", _FILE_ENDINGS)
    return (
        Rule("keep", words("c++ c# f#")),
        Rule("give back 3", alt("cannot", "'twas")),
        Rule("give back 2", words("'tis gonna gotta lemme gimme wanna")),
        Rule("hold", tag),
        Rule("dash", alt(words("&md; &mdash; &ndash;"), one("\u0096\u0097\u2013-\u2015"))),
        Rule("ampersand", "&amp;"),
        Rule("keep", seq("&", words("ht tl ur lr qc ql qr odq cdq"), ";")),
        Rule("keep", seq("&#", some(number), ";")),
        Rule("soften", word, clitic, ((2, 2), (3, 3))),
        Rule("soften", negated, negation, ((2, 3),)),
        Rule("soften", word),
        Rule("keep", with_apostrophe),
        Rule("keep", seq("y", apostrophe), letter),
        Rule("keep", alt(full_url, likely_url, email)),
        Rule("keep", alt(seq("@", one("a-zA-Z_"), many(one("a-zA-Z_0-9"))), seq("#", some(sign)))),
        Rule("close quote", clitic, ~latin),
        Rule("close quote", negation, ~latin),
        Rule("keep", date),
        Rule("soften", seq(maybe(one("+-")), figure)),
        Rule("keep", small_number),
        Rule("hold", fraction),
        Rule("fraction", one("\u00bc-\u00be\u2153-\u215e")),
        Rule("ampersand", special),
        Rule("keep", slashed),
        Rule("keep", alt(seq(many(one("A-Z")), "$"), "#")),
        Rule("currency", _CURRENCY),
        Rule("dot again", seq(dotted, "."), opener),
        Rule("give back 1", seq(latin, "."), opener),
        Rule("keep", seq(_BEFORE_NUMBER, "."), seq(maybe(blank), digit)),
        Rule("keep", seq(alt(seq("pt", one("eyEY")), "co"), "."), seq(gap, words("ltd lim"))),
        Rule("dot again", seq(_CLOSING, "."), seq(blank, alt(blank, upper, tag))),
        Rule("keep", seq(_CLOSING, "."), seq(~one(""), ~one(""))),
        Rule("dot again", seq(_CLOSING, ".")),
        Rule("keep", seq(opening, ".")),
        Rule("keep", opening, gap),
        Rule("keep", acronym, blank),
        Rule("keep", seq(apostrophe, number, number), blank),
        Rule("keep", file, alt(blank, one(".?!,"))),
        Rule("soften", seq(word, "."), clause_mark),
        Rule("phone", phone),
        Rule("open quote", double, one("A-Za-z0-9$")),
        Rule("close quote", double),
        Rule("drop", "\x7f"),
        Rule("less", alt("<", "&lt;")),
        Rule("greater", alt(">", "&gt;")),
        Rule("parens", smile, ~one("A-Za-z0-9")),
        Rule("parens", east),
        Rule("bracket", one("(){}[]")),
        Rule("hyphens", some("-")),
        Rule("ellipsis", dots),
        Rule("keep", alt(some("@"), some("#"), some("_"))),
        Rule("keep", alt(some("*"), times("\\*", 1, 3))),
        Rule("keep", clause_mark),
        Rule("keep", some(one("?!"))),
        Rule("keep", one(".\u00a1\u00bf\u037e\u0589\u061f\u06d4\u0700-\u0702\u07fa\u3002=/")),
        Rule("soften", seq(hyphened, "."), clause_mark),
        Rule("soften", hyphened),
        Rule("keep", seq(thing, "."), clause_mark),
        Rule("keep", thing),
        Rule("ampersand", seq(joined, "."), clause_mark),
        Rule("ampersand", joined),
        Rule("open quote", "'", seq(latin, ~one(" \t\n\r\u00a0"))),
        Rule("close quote", alt(clitic, negation)),
        Rule("close quote", alt(apostrophe, "''", times(quote, 1, 2))),
        Rule("keep", words("<< >>")),
        Rule("keep", _SYMBOLS),
        Rule("drop", alt("\0", some(gap), one("\u200b\u200e-\u200f\ufeff"))),
        Rule("line", line),
        Rule("drop", "&nbsp;"),
        Rule("drop", ~one("\r\n\u2028\u2029\x0b\x0c\x85")),
    )
