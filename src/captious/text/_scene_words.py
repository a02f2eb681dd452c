"""The word lists of SPICE: what the Java tool counts as a colour, a number, a size, a quantity."""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NUMBERS: Final = _words("one two three four five six seven eight nine ten")
COLOURS: Final = _words(
    "black brown blue red yellow pink gray grey green dark light white cream orange purple maroon "
    "beige violet"
)
SIZES: Final = _words(
    "baby beefy big bony boundless brawny broad bulky chunky colossal compact corpulent cosmic "
    "cubby curvy elfin emaciated endless enormous epic expansive extensive fat fleshy full-size "
    "gargantuan gaunt giant gigantic grand great heavy hefty huge hulking illimitable immeasurable "
    "immense infinitesimal lanky large lean life-size limitless little mammoth massive meager "
    "measly microscopic mini miniature minuscule minute narrow obese outsized oversize overweight "
    "paltry petite pint-size plump pocket-size portly pudgy puny rotund scanty scraggy scrawny "
    "short sizable skeletal skimpy skinny slender slim small squat stocky stout strapping sturdy "
    "tall teensy teeny teeny-tiny teeny-weeny thick thickset thin tiny titanic towering trifling "
    "trim tubby undersized underweight unlimited vast wee whopping wide"
)

# "a pair of shoes": the shoes are the thing, the quantity becomes an attribute.
A_QUANTITY_OF: Final = _words(
    "lot assortment couple bunch handful litany sheaf slew dozen series variety multitude wad "
    "clutch wave mountain array spate string ton range plethora heap sort form kind type version "
    "bit pair triple total"
)
QUANTITY_OF: Final = _words("lots many several plenty tons")
THREE_WORD_PREPOSITIONS: Final = frozenset({("in", "front", "of"), ("on", "top", "of")})
TWO_WORD_PREPOSITIONS: Final = frozenset(
    {("next", "to"), ("close", "to"), ("out", "of"), ("away", "from"), ("across", "from"),
     ("inside", "of"), ("off", "of"), ("outside", "of"), ("far", "from"), ("along", "with"),
     ("together", "with")}
)  # fmt: skip
# A second one of these after a verb belongs to the noun before it.
LOW_PREPOSITIONS: Final = _words(
    "with in on of at near by behind under over against above from for inside beside"
)
# Forms in -ing after a noun that are nouns for the Java tool (walking and holding gained nothing).
READ_AS_NOUNS: Final = _words("standing")
PRONOUNS: Final = _words(
    "it he she him her his its they them their himself herself itself themselves"
)

BE: Final = _words("is are was were be been being am 's 're 'm")
HAVE: Final = _words("has had have having 've")
# Plural forms that are their own base.
PLURAL_ONLY: Final = _words(
    "people pants shorts scissors jeans clothes goggles trousers tongs pliers tights binoculars "
    "headphones overalls series species"
)
